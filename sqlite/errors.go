package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/later-queue/later"
)

// explain adds the sentinel that says what can be done about an error of the
// driver; the driver's error stays in the chain.
func explain(err error) error {
	var e *sqlite.Error
	if errors.Is(err, errHeldHere) {
		return fmt.Errorf("%w: %w", later.ErrUnavailable, err)
	}
	if err == nil || !errors.As(err, &e) {
		if err != nil && err.Error() == databaseClosed {
			return fmt.Errorf("%w: %w", later.ErrClosed, err)
		}
		return err
	}
	if isFull(err) {
		return fmt.Errorf("%w: %w", later.ErrFull, err)
	}
	switch primary(e) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN,
		lib.SQLITE_READONLY, lib.SQLITE_NOMEM, lib.SQLITE_PERM, lib.SQLITE_INTERRUPT:
		return fmt.Errorf("%w: %w", later.ErrUnavailable, err)
	case lib.SQLITE_ERROR:
		if schemaText.MatchString(e.Error()) {
			return fmt.Errorf("%w: %w; run `later migrate up`, or open the store without NoMigrate", later.ErrSchema, err)
		}
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return fmt.Errorf("the database file is damaged or no database: %w", err)
	}
	return err
}

// schemaText are the messages of statements that do not fit the tables; SQLite
// has no code for them.
var schemaText = regexp.MustCompile(`no such (table|index): (main\.)?later_|no such column: |has no column named `)

// databaseClosed is the text of an error that database/sql does not export.
const databaseClosed = "sql: database is closed"

func primary(e *sqlite.Error) int { return e.Code() & 0xff }

// isBusy reports whether err says that another connection holds a lock.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.Is(err, errHeldHere) ||
		errors.As(err, &e) && (primary(e) == lib.SQLITE_BUSY || primary(e) == lib.SQLITE_LOCKED)
}

// isFull reports whether err says that there is no space left.
func isFull(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) &&
		(primary(e) == lib.SQLITE_FULL || e.Code() == lib.SQLITE_IOERR_SHMSIZE) // the memory beside the WAL is a file too
}

// isConstraint reports whether a constraint of the table refused a row.
func isConstraint(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && primary(e) == lib.SQLITE_CONSTRAINT
}

// breaksConnection reports whether the connection should not be used again
// after err: the file may have been replaced, or its disk may have come back.
func breaksConnection(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
	}
	switch primary(e) {
	case lib.SQLITE_IOERR, lib.SQLITE_READONLY, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_CANTOPEN, lib.SQLITE_NOMEM:
		return true
	}
	return false
}

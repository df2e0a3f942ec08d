// Package sqlitefile is what the contenders on SQLite have in common: the file and
// the driver, so that a race compares the queues and not what is below them.
package sqlitefile

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver that Later has too; it needs no C compiler
)

// Full and Normal are values of SQLite's pragma synchronous. In WAL mode a commit is on
// disk before it returns with the first; with the second the last ones are lost when
// the power fails.
const (
	Full   = "FULL"
	Normal = "NORMAL"
)

// Setup says in words what Open does, for a contender's settings.
const Setup = "Driver modernc.org/sqlite for all, one connection, WAL mode, busy timeout 5 s, synchronous FULL: each commit is on disk."

// Open opens the file as goqite's README and River's documentation say: one
// connection at most, WAL mode, a busy timeout of 5 s.
func Open(path, synchronous string) (*sql.DB, error) {
	params := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(" + synchronous + ")", "foreign_keys(1)"}}
	db, err := sql.Open("sqlite", "file:"+path+"?"+params.Encode())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return db, nil
}

// Remove removes the file and what SQLite keeps beside it, if they exist. No
// connection may be open.
func Remove(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

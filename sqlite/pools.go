package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/later-queue/later"
)

const (
	// readers is how many connections read beside the writer. Chosen, not
	// measured: reads are for people and for cancel requests.
	readers = 4
	// writerWait is how long SQLite itself waits for a lock in the writer's
	// connection, before the writer looks after its callers. Short, because
	// SQLite's waits grow from 1 ms to 100 ms: with 20 ms a lock that is freed is
	// seen within 10 ms.
	writerWait = 20 * time.Millisecond
	// walLimit is the size in bytes to which the WAL file is cut after it has
	// grown beyond it. Chosen, not measured.
	walLimit = 64 << 20
)

// writerParams are the writer's settings. With temp_store in memory (2), what
// SQLite keeps for taking back a statement over many rows is not written to a
// temporary file: that was a third of the bytes written in a drain by hundreds.
var writerParams = "&_pragma=temp_store(2)&_pragma=journal_size_limit(" + strconv.Itoa(walLimit) + ")"

// pools are the connections to one file.
type pools struct {
	write *sql.DB // one connection: the writer's
	read  *sql.DB
	app   *sql.DB
	gate  *gate // between app and write
	file  identity
	// watches learn of the transactions of app.
	watches *watches
	// anchor keeps a database in memory alive, which ends with its last
	// connection; nil for a file.
	anchor *sql.Conn
}

// openPools makes sure that the file can be opened and is in WAL mode.
func openPools(ctx context.Context, path string, busy time.Duration) (*pools, error) {
	base, memory, err := fileURI(path)
	if err != nil {
		return nil, err
	}
	abs := path
	if !memory {
		// The process may go to another folder.
		if abs, err = filepath.Abs(path); err != nil {
			return nil, err
		}
	}
	write, err1 := open(base, writerWait, writerParams)
	read, err2 := open(base, busy, "&_query_only=1")
	gate, watches := newGate(), newWatches("")
	if !memory {
		watches.file = walFile(abs + "-wal")
	}
	app, err3 := openGated(base, busy, gate, watches.txEnded)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	p := &pools{write: write, read: read, app: app, gate: gate, watches: watches}
	p.write.SetMaxOpenConns(1)
	p.read.SetMaxOpenConns(readers)
	p.read.SetMaxIdleConns(readers)
	p.app.SetMaxIdleConns(readers)
	if memory {
		p.anchor, err = p.app.Conn(ctx)
	} else {
		err = useWAL(ctx, p.write, busy)
	}
	if err == nil {
		p.file, err = identify(abs)
	}
	if err != nil {
		return nil, errors.Join(explain(err), p.close())
	}
	return p, nil
}

func (p *pools) close() error {
	p.watches.close()
	errs := []error{p.read.Close(), p.write.Close(), p.app.Close()}
	if p.anchor != nil {
		errs = append(errs, p.anchor.Close())
	}
	return errors.Join(errs...)
}

// fileURI is the driver's name for path, to which parameters can be added.
func fileURI(path string) (uri string, memory bool, err error) {
	switch {
	case path == "":
		return "", false, errors.New("the path is empty")
	case strings.HasPrefix(path, "file:"):
		return "", false, errors.New("the path is a URI; give the plain path of the file")
	case path == ":memory:":
		// The memdb file system shares a name that begins with a slash between
		// connections. A shared cache would do that too, but its locks know no
		// busy timeout.
		return fmt.Sprintf("file:/later-%d?vfs=memdb&_error_rc=1", later.NewToken()), true, nil
	}
	// Absolute, because a connection may be opened after the process has gone
	// to another folder.
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", false, err
	}
	if info, err := os.Stat(filepath.Dir(abs)); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "", false, fmt.Errorf("the folder %s does not exist", filepath.Dir(abs))
	}
	if info, err := os.Stat(abs); err == nil && info.IsDir() {
		return "", false, errors.New("the path is a folder")
	}
	slashed := filepath.ToSlash(abs)
	if !strings.HasPrefix(slashed, "/") { // C:/…
		slashed = "/" + slashed
	}
	return "file:" + (&url.URL{Path: slashed}).EscapedPath() + "?_error_rc=1", false, nil
}

func open(base string, busy time.Duration, params string) (*sql.DB, error) {
	connector, err := connect(base, busy, params)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// openGated opens the application's connections.
func openGated(base string, busy time.Duration, gate *gate, ended func(committed bool)) (*sql.DB, error) {
	connector, err := connect(base, busy, "&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(&gatedConnector{Connector: connector, gate: gate, busy: busy, ended: ended}), nil
}

func connect(base string, busy time.Duration, params string) (driver.Connector, error) {
	return sqlite.NewConnector(base +
		"&_busy_timeout=" + strconv.FormatInt(durationMillis(busy), 10) + "&_synchronous=FULL" + params)
}

// useWAL switches the file to WAL mode, which then is a property of the file.
// SQLite does not always wait for other connections when it does that, so this
// does.
func useWAL(ctx context.Context, db *sql.DB, busy time.Duration) error {
	deadline := time.Now().Add(busy)
	for {
		var mode string
		err := db.QueryRowContext(ctx, "pragma journal_mode = wal").Scan(&mode)
		switch {
		case err == nil && mode != "wal":
			return fmt.Errorf("the file cannot be used in WAL mode (it stays in mode %q)", mode)
		case err == nil || !isBusy(err) || time.Now().After(deadline):
			return err
		}
		if err := pause(ctx, writerWait); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/sqlite"
)

// folderPattern is how the folders of runs are named.
const folderPattern = "later-bench-"

// pidFile has the number of the process whose folder it is.
const pidFile = "pid"

// sqlitePlace is an SQLite file of its own, in a folder beside the given file, so
// that it is on the same disk.
type sqlitePlace struct {
	cfg  Config
	dir  string
	keep *sqlite.Store // so that the file is open for as long as the run goes on
}

func enterSQLite(ctx context.Context, cfg Config) (_ place, err error) {
	beside, err := sqliteFolder(cfg.URL)
	if err != nil {
		return nil, err
	}
	if err := checkRoom(beside, cfg.needed()); err != nil {
		return nil, err
	}
	p := &sqlitePlace{cfg: cfg}
	p.dir, err = os.MkdirTemp(beside, folderPattern)
	if errors.Is(err, fs.ErrPermission) {
		return nil, refused("a folder for the benchmark cannot be made in %s: %v", beside, err)
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder for the benchmark: %w", err)
	}
	cfg.tellMade(p) // its name is not known before
	err = os.WriteFile(filepath.Join(p.dir, pidFile), []byte(strconv.Itoa(os.Getpid())), 0o600)
	if err == nil {
		p.keep, err = p.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, notRemoved(p, os.RemoveAll(p.dir)))
	}
	return p, nil
}

// sqliteFolder is the folder of the file that a URL names.
func sqliteFolder(url string) (string, error) {
	absolute, err := open.Absolute(url)
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(strings.TrimPrefix(absolute, "sqlite:"))
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no folder")
	}
	if err != nil {
		return "", refused("the benchmark works in a folder beside the database file, and %s cannot be used: %v", folder, err)
	}
	return folder, nil
}

func (p *sqlitePlace) name() string { return "folder " + p.dir }

func (p *sqlitePlace) file() string { return filepath.Join(p.dir, "later.db") }

func (p *sqlitePlace) open(ctx context.Context) (*sqlite.Store, error) {
	return sqlite.Open(ctx, p.file(), sqlite.Config{NoLog: p.cfg.NoLog, Logger: p.cfg.Logger})
}

func (p *sqlitePlace) store(ctx context.Context) (store, error) {
	s, err := p.open(ctx)
	if err != nil {
		return nil, err // not a nil *sqlite.Store in an interface
	}
	return s, nil
}

func (p *sqlitePlace) describe(ctx context.Context, r *Report) error {
	r.Database, r.Place, r.Server.Local = "sqlite", p.dir, true
	db := p.keep.DB()
	for _, name := range []string{"journal_mode", "synchronous", "page_size", "wal_autocheckpoint"} {
		var value string
		if err := db.QueryRowContext(ctx, "pragma "+name).Scan(&value); err != nil {
			return err
		}
		r.Server.Settings[name] = value
	}
	err := db.QueryRowContext(ctx, "select sqlite_version()").Scan(&r.Server.Version)
	if err != nil {
		return err
	}
	r.Leftovers, err = foldersLeft(filepath.Dir(p.dir), filepath.Base(p.dir))
	return err
}

// read knows only this process: SQLite is part of it.
func (p *sqlitePlace) read(context.Context) (reading, error) {
	r := readHere()
	r.written, r.tableSize, r.walFile = written(), sizeOf(p.file()), sizeOf(p.file()+"-wal")
	return r, nil
}

func sizeOf(path string) *int64 {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return new(info.Size())
}

func (p *sqlitePlace) ping(context.Context) error {
	_, err := os.Stat(p.file())
	return err
}

func (p *sqlitePlace) remaining(ctx context.Context) (n int64, err error) {
	const count = `select count(*) from later_job where kind <> ? and run_at <= cast(round((julianday('now') - 2440587.5) * 86400000) as integer)`
	err = p.keep.DB().QueryRowContext(ctx, count, waitingKind).Scan(&n)
	return n, err
}

// hold implements place. In SQLite a reader keeps the WAL file from being emptied.
func (p *sqlitePlace) hold(ctx context.Context) (func() error, error) {
	// Not of ctx, with whose end the transaction would end.
	tx, err := p.keep.DB().BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	var n int
	if err := tx.QueryRowContext(ctx, "select count(*) from later_worker").Scan(&n); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx.Rollback, nil
}

func (p *sqlitePlace) leave(context.Context) error {
	return errors.Join(p.keep.Close(), os.RemoveAll(p.dir))
}

// foldersLeft lists the folders of runs in dir, but for one.
func foldersLeft(dir, but string) ([]Leftover, error) {
	found := []Leftover{}
	folders, err := filepath.Glob(filepath.Join(dir, folderPattern+"*"))
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join(folder, pidFile))
		if filepath.Base(folder) == but || err != nil {
			continue // not ours
		}
		l := Leftover{Name: folder}
		if pid, err := strconv.Atoi(string(text)); err == nil {
			l.InUse = isAlive(pid)
		}
		files, _ := os.ReadDir(folder) // for its size only
		for _, f := range files {
			if n := sizeOf(filepath.Join(folder, f.Name())); n != nil {
				l.Bytes += *n
			}
		}
		found = append(found, l)
	}
	return found, nil
}

func cleanSQLite(cfg Config) ([]Leftover, error) {
	beside, err := sqliteFolder(cfg.URL)
	if err != nil {
		return nil, err
	}
	left, err := foldersLeft(beside, "")
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		if l.InUse {
			continue
		}
		if err := os.RemoveAll(l.Name); err != nil {
			return nil, err
		}
	}
	return left, nil
}

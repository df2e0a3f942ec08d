package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

func openSQLite(ctx context.Context, url string, config Config) (later.Store, error) {
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	if config.Schema != "" {
		return nil, fmt.Errorf("%w: a schema is set (--schema or LATER_SCHEMA), but SQLite has none", ErrURL)
	}
	switch noUse := "is of use with Postgres only; workers on an SQLite file notice new jobs without it"; {
	case config.ListenURL != "":
		return nil, fmt.Errorf("%w: a URL to listen at (--listen-url) %s", ErrListen, noUse)
	case config.NoListen:
		return nil, fmt.Errorf("%w: to listen to nothing (--no-listen) %s", ErrListen, noUse)
	}
	if config.MustExist {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w %s", ErrNoFile, path)
		}
	}
	if folder := filepath.Dir(path); !config.MustExist {
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: the folder %s of %s does not exist", ErrURL, folder, path)
		}
	}
	// Not "return sqlite.Open(…)": a nil *sqlite.Store is not a nil Store.
	store, err := sqlite.Open(ctx, path, sqlite.Config{
		NoMigrate: config.NoMigrate, Logger: config.Logger, LogRetention: config.LogRetention, NoLog: config.NoLog,
	})
	if err != nil {
		return nil, err
	}
	return store, nil
}

// sqlitePath returns the file that a URL names: sqlite:later.db,
// sqlite:/var/lib/later.db, and the same with // before an absolute path.
func sqlitePath(url string) (string, error) {
	_, path, _ := strings.Cut(url, ":")
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(rest, "/") {
			return "", fmt.Errorf("%w: in sqlite://%s what follows // would be a host; write sqlite:%s", ErrURL, rest, rest)
		}
		path = rest
	}
	switch {
	case path == "":
		return "", fmt.Errorf("%w: sqlite: names no file; write sqlite:later.db", ErrURL)
	case path == ":memory:":
		return "", fmt.Errorf("%w: sqlite::memory: would be gone when the command ends, and no other process could see it; name a file, as in %s", ErrURL, DefaultURL)
	case strings.ContainsAny(path, "?\x00"):
		return "", fmt.Errorf("%w: sqlite:%s has a ?; settings are not read from the URL", ErrURL, path)
	}
	return path, nil
}

// sqliteSQL takes the migrations from a database in memory: no file is touched.
func sqliteSQL(ctx context.Context, _ string, _ Config, down bool) (string, error) {
	store, err := sqlite.Open(ctx, ":memory:", sqlite.Config{NoMigrate: true})
	if err != nil {
		return "", err
	}
	return store.MigrationSQL(down), store.Close()
}

// Absolute returns url as it names the same database from any folder.
func Absolute(url string) (string, error) {
	s, err := find(url)
	if err != nil || s.names[0] != "sqlite" {
		return url, err
	}
	path, err := sqlitePath(url)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("the folder of %s: %w", url, err)
	}
	return "sqlite:" + path, nil
}

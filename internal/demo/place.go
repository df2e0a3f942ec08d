package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The demo's files.
const (
	outboxFile = "mails.jsonl"
	shopFile   = "shop.db"
)

// place is where the demo keeps everything. Workers get it as JSON.
type place struct {
	Dir    string // files
	DB     string // the database's URL
	Schema string // on Postgres
}

// newPlace finds a place that is the demo's alone: it never writes into a
// database that somebody uses.
func newPlace(config Config) (place, error) {
	at := place{Dir: config.Dir, DB: config.DB, Schema: config.Schema}
	if err := checkURL(at.DB); err != nil {
		return at, err
	}
	if at.Dir == "" {
		dir, err := os.MkdirTemp("", "later-demo-")
		if err != nil {
			return at, fmt.Errorf("make a folder for the demo: %w", err)
		}
		at.Dir = dir
	}
	dir, err := filepath.Abs(at.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return at, fmt.Errorf("make a folder for the demo: %w", err)
	}
	at.Dir = dir
	if at.DB == "" {
		at.DB = "sqlite:" + filepath.Join(dir, shopFile)
	}
	mine := []string{filepath.Join(dir, outboxFile)}
	if file, ok := at.sqliteFile(); ok {
		file, err := filepath.Abs(file)
		if err != nil {
			return at, fmt.Errorf("find the demo's database: %w", err)
		}
		at.DB = "sqlite:" + file
		mine = append(mine, file)
	} else if at.Schema == "" {
		at.Schema = "later_demo_" + strings.ToLower(rand.Text()[:6])
	}
	for _, file := range mine {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return at, fmt.Errorf("%w: %s is there already, and the demo wants a place of its own", ErrConfig, file)
		}
	}
	return at, nil
}

// checkURL refuses what is neither of the two databases. It shows nothing of the
// URL, which may hold a password.
func checkURL(url string) error {
	if url == "" {
		return nil
	}
	for _, scheme := range []string{"sqlite:", "postgres://", "postgresql://"} {
		if strings.HasPrefix(url, scheme) {
			return nil
		}
	}
	return fmt.Errorf("%w: its database is sqlite:FILE or postgres://USER@HOST/NAME", ErrConfig)
}

// sqliteFile returns the database's file, if it is one.
func (p place) sqliteFile() (file string, ok bool) { return strings.CutPrefix(p.DB, "sqlite:") }

// kind names the database for people.
func (p place) kind() string {
	if _, ok := p.sqliteFile(); ok {
		return "SQLite"
	}
	return "Postgres"
}

// postgres is the configuration of a connection to the database.
func (p place) postgres() (*pgx.ConnConfig, error) {
	config, err := pgxpool.ParseConfig(p.DB) // takes the pool's settings out of the URL
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	return config.ConnConfig, nil
}

// quotedSchema is the schema's name in SQL.
func (p place) quotedSchema() string { return pgx.Identifier{p.Schema}.Sanitize() }

// createSchema makes the schema, and fails when it exists.
func createSchema(ctx context.Context, at place) error {
	return onPostgres(ctx, at, "create schema "+at.quotedSchema())
}

// dropSchema removes the schema with everything in it; on SQLite there is none.
func dropSchema(at place) error {
	if at.Schema == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return onPostgres(ctx, at, "drop schema "+at.quotedSchema()+" cascade")
}

func onPostgres(ctx context.Context, at place, statement string) error {
	config, err := at.postgres()
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

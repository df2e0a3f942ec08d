package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later/internal/pgserver"
)

// production are the settings with which the races' server runs: every promise of
// durability kept, and memory as for a server that does nothing else. What is not
// named is as PostgreSQL comes.
var production = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",
	"autovacuum":         "on",
	// A quarter of a small server's memory, as PostgreSQL's documentation has it.
	"shared_buffers": "1GB",
	// So that no checkpoint falls into one contender's round and not into the others':
	// the pages that it has to write whole would be counted against whoever ran.
	"max_wal_size":       "16GB",
	"checkpoint_timeout": "1h",
	// Log files are used again, as they are on a server that has run for a while.
	"min_wal_size":    "2GB",
	"max_connections": "400",
	"timezone":        "UTC",
}

// Postgres is a PostgreSQL server.
type Postgres struct {
	server     *pgserver.Server
	postmaster int
	admin      *pgxpool.Pool
	settings   map[string]string
}

func startPostgres(ctx context.Context) (Server, error) {
	s, err := pgserver.Start(ctx, pgserver.Config{Settings: production})
	if err != nil {
		return nil, err
	}
	p := &Postgres{server: s}
	if err := p.connect(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// notDefault is what makes this server another than the one that initdb makes.
const notDefault = `
select name, current_setting(name) from pg_settings
where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'autovacuum', 'shared_buffers', 'max_wal_size',
  'checkpoint_timeout', 'max_connections', 'server_version', 'wal_level', 'jit', 'data_checksums',
  'effective_cache_size', 'work_mem', 'autovacuum_naptime')`

func (p *Postgres) connect(ctx context.Context) (err error) {
	text, err := os.ReadFile(filepath.Join(p.server.Dir(), "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if p.postmaster, err = strconv.Atoi(first); err != nil {
		return fmt.Errorf("postmaster.pid: %w", err)
	}
	if p.admin, err = pgxpool.New(ctx, p.server.URL()); err != nil {
		return err
	}
	rows, err := p.admin.Query(ctx, notDefault)
	if err != nil {
		return err
	}
	p.settings = map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		p.settings[name] = value
		return nil
	})
	p.settings["file_system"] = fileSystem(p.server.Dir())
	return err
}

// Settings implements Server.
func (p *Postgres) Settings() map[string]string { return p.settings }

// Fresh implements Server. It writes a checkpoint, so that every round begins alike.
func (p *Postgres) Fresh(ctx context.Context, name string) (string, error) {
	quoted := pgx.Identifier{name}.Sanitize()
	for _, statement := range []string{
		"drop database if exists " + quoted + " with (force)",
		"create database " + quoted,
		"checkpoint",
	} {
		if _, err := p.admin.Exec(ctx, statement); err != nil {
			return "", fmt.Errorf("%s: %w", statement, err)
		}
	}
	u, err := url.Parse(p.server.URL())
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Drop implements Server.
func (p *Postgres) Drop(ctx context.Context, url string) error {
	name, err := databaseOf(url)
	if err != nil {
		return err
	}
	_, err = p.admin.Exec(ctx, "drop database "+pgx.Identifier{name}.Sanitize()+" with (force)")
	return err
}

// Tidy implements Server.
func (p *Postgres) Tidy(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "vacuum analyze")
	return err
}

const counts = `
select xact_commit, tup_inserted, tup_updated, tup_deleted,
  (pg_current_wal_insert_lsn() - '0/0')::bigint
from pg_stat_database where datname = $1`

// Read implements Server. The counts of commits and rows are exact once the
// connections that made them have ended, and up to a second old before.
func (p *Postgres) Read(ctx context.Context, url string) (Usage, error) {
	name, err := databaseOf(url)
	if err != nil {
		return Usage{}, err
	}
	var u Usage
	row := p.admin.QueryRow(ctx, counts, name)
	if err := row.Scan(&u.Commits, &u.Inserted, &u.Updated, &u.Deleted, &u.WAL); err != nil {
		return Usage{}, fmt.Errorf("read counts of %s: %w", name, err)
	}
	u.CPU, err = treeCPU(p.postmaster)
	return u, err
}

// holder is the application_name of those that hold a snapshot.
const holder = "lab-holder"

const connected = `
select count(*) from pg_stat_activity
where datname = $1 and backend_type = 'client backend' and application_name <> '` + holder + `'`

// Quiet implements Quieter. A backend hands over its counts before it leaves
// pg_stat_activity, so what has left has been counted.
func (p *Postgres) Quiet(ctx context.Context, url string) error {
	name, err := databaseOf(url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("connections are left open"))
	defer cancel()
	for {
		var n int
		if err := p.admin.QueryRow(ctx, connected, name).Scan(&n); err != nil {
			return fmt.Errorf("wait for the end of connections to %s: %w", name, errors.Join(err, context.Cause(ctx)))
		}
		if n == 0 {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Close implements Server.
func (p *Postgres) Close() error {
	if p.admin != nil {
		p.admin.Close()
	}
	return p.server.Close()
}

func databaseOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(u.Path, "/"), nil
}

// Hold opens a transaction in the database at url whose snapshot is as old as the
// moment at which Hold returns, for as long as until release is called. While it is
// open, vacuum may not remove what is deleted after that moment.
func Hold(ctx context.Context, url string) (release func() error, err error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("hold a snapshot: %w", err)
	}
	cfg.RuntimeParams["application_name"] = holder
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("hold a snapshot: %w", err)
	}
	for _, statement := range []string{
		"begin transaction isolation level repeatable read read only",
		"select count(*) from pg_class", // the first query takes the snapshot
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			conn.Close(context.WithoutCancel(ctx))
			return nil, fmt.Errorf("hold a snapshot: %w", err)
		}
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return conn.Close(ctx)
	}, nil
}

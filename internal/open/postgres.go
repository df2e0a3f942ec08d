package open

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

func openPostgres(ctx context.Context, rawURL string, config Config) (later.Store, error) {
	if err := checkPostgres(ctx, rawURL, config); err != nil {
		return nil, err
	}
	if config.Brief {
		rawURL = unprepared(rawURL)
	}
	store, err := postgres.Open(ctx, rawURL, postgresConfig(config))
	if err != nil {
		return nil, err
	}
	return store, nil
}

// execMode is pgx's setting for how statements are run.
const execMode = "default_query_exec_mode"

// unprepared makes a URL that says nothing about it run statements without
// preparing them. For a worker that would be dear: 3,000 jobs with the command
// "true" took 16.6 s instead of 8.2 s, on 2 busy cores.
func unprepared(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || strings.Contains(rawURL, execMode) {
		return rawURL
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += execMode + "=exec"
	return u.String()
}

func postgresConfig(config Config) postgres.Config {
	return postgres.Config{
		Schema: config.Schema, Logger: config.Logger, LogRetention: config.LogRetention, NoLog: config.NoLog,
		ListenURL: config.ListenURL, NoListen: config.NoListen,
	}
}

// checkPostgres finds what is wrong with the URLs and the schema's name before
// anything is connected to.
func checkPostgres(ctx context.Context, rawURL string, config Config) error {
	if err := checkListenURL(config.ListenURL); err != nil {
		return err
	}
	_, err := postgresSQL(ctx, rawURL, config, false)
	return err
}

// checkListenURL shows nothing of the URL and keeps no error of the parser's, which may
// take a password for something else.
func checkListenURL(rawURL string) error {
	if rawURL == "" {
		return nil
	}
	if !strings.HasPrefix(rawURL, "postgres://") && !strings.HasPrefix(rawURL, "postgresql://") {
		return fmt.Errorf("%w: the URL is not one of Postgres; right is postgres://user@host/name", ErrListen)
	}
	parsed, err := pgx.ParseConfig(rawURL)
	if err != nil || twoAts(rawURL) {
		return fmt.Errorf("%w: the URL cannot be read; right is postgres://user@host/name, and in a user or password @ is written as %%40 and / as %%2F", ErrListen)
	}
	for name := range parsed.RuntimeParams {
		if strings.HasPrefix(name, "pool_") {
			return fmt.Errorf("%w: the URL has %s, but there is no pool, only one connection; leave it out", ErrListen, name)
		}
	}
	return nil
}

// postgresSQL connects to nothing: a pool without a minimum of connections
// makes its first when it is asked for one.
func postgresSQL(ctx context.Context, rawURL string, config Config, down bool) (string, error) {
	if twoAts(rawURL) {
		return "", fmt.Errorf("%w: it has a second @ after the first /; in a user or password write @ as %%40 and / as %%2F", ErrURL)
	}
	parsed, err := pgxpool.ParseConfig(rawURL)
	if err != nil {
		// The store's own words, which show nothing of the URL.
		_, err = postgres.Open(ctx, rawURL, postgresConfig(config))
		return "", fmt.Errorf("%w: %w", ErrURL, err)
	}
	parsed.MinConns, parsed.MinIdleConns = 0, 0
	pool, err := pgxpool.NewWithConfig(ctx, parsed)
	if err != nil {
		return "", fmt.Errorf("postgres: %w", err)
	}
	defer pool.Close()
	store, err := postgres.New(pool, postgresConfig(config))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrURL, err)
	}
	return store.MigrationSQL(down), nil
}

// twoAts reports whether the URL's path has an @ behind that of its host. Then
// the first @ is most likely a part of the password, and what is read as host
// and path, and shown in errors, would be the rest of it.
func twoAts(rawURL string) bool {
	_, rest, _ := strings.Cut(rawURL, "://")
	rest, _, _ = strings.Cut(rest, "?")
	host, path, _ := strings.Cut(rest, "/")
	return strings.Contains(host, "@") && strings.Contains(path, "@")
}

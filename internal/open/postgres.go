package open

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

func openPostgres(ctx context.Context, url string, config Config) (later.Store, error) {
	store, err := postgres.Open(ctx, url, postgresConfig(config))
	if err != nil {
		return nil, err
	}
	return store, nil
}

func postgresConfig(config Config) postgres.Config {
	return postgres.Config{Schema: config.Schema, Logger: config.Logger, LogRetention: config.LogRetention, NoLog: config.NoLog}
}

// postgresSQL connects to nothing: a pool without a minimum of connections
// makes its first when it is asked for one.
func postgresSQL(ctx context.Context, url string, config Config, down bool) (string, error) {
	parsed, err := pgxpool.ParseConfig(url)
	if err != nil {
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
		return "", err
	}
	return store.MigrationSQL(down), nil
}

// Package database is what the contenders on Postgres have in common: the way to a
// connection, and to an empty database.
package database

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool connects with pgxpool's own settings: at most 4 connections, or as many as the
// machine has processors if those are more. Another number of conns than 0 wins.
func Pool(ctx context.Context, url string, conns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	if conns > 0 {
		cfg.MaxConns = int32(conns)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return pool, nil
}

const (
	listSchemas = `
select nspname from pg_namespace
where nspname not like 'pg\_%' and nspname <> 'information_schema'`
	listExtensions = `select extname from pg_extension where extname <> 'plpgsql'`
)

// Empty drops everything that is in the database.
func Empty(ctx context.Context, pool *pgxpool.Pool) error {
	for _, part := range []struct{ list, drop string }{
		{listExtensions, "drop extension if exists %s cascade"},
		{listSchemas, "drop schema if exists %s cascade"},
	} {
		rows, err := pool.Query(ctx, part.list)
		if err != nil {
			return fmt.Errorf("empty the database: %w", err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("empty the database: %w", err)
		}
		for _, name := range names {
			if _, err := pool.Exec(ctx, fmt.Sprintf(part.drop, pgx.Identifier{name}.Sanitize())); err != nil {
				return fmt.Errorf("empty the database: %w", err)
			}
		}
	}
	if _, err := pool.Exec(ctx, "create schema public"); err != nil {
		return fmt.Errorf("empty the database: %w", err)
	}
	return nil
}

package sqlite

import (
	"context"
	"database/sql"
)

// reader reads without a lock that anybody waits for, until ctx ends.
type reader struct {
	ctx context.Context
	db  interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
}

func (s *Store) reader(ctx context.Context) reader { return reader{ctx, s.pools.read} }

func (r reader) query(query string, args ...any) (*sql.Rows, error) {
	return r.db.QueryContext(r.ctx, query, args...)
}

func (r reader) queryRow(query string, args ...any) *sql.Row {
	return r.db.QueryRowContext(r.ctx, query, args...)
}

// snapshot calls read with a reader that sees one state of the database.
func (s *Store) snapshot(ctx context.Context, read func(r reader) error) error {
	tx, err := s.pools.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return read(reader{ctx, tx})
}

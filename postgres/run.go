package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// begin sets the isolation level, because a role or a database may have another
// default: above read committed, claims that meet fail with 40001 instead of
// passing over each other's rows.
const begin = "begin isolation level read committed"

// plan settles how the statements of workers are planned, whatever the
// statistics say: through an index, and in its order. A plan that was made on an empty or never
// analysed table, and kept, would otherwise read the whole table when it has
// grown. The statements do their part: each look at the job table is by itself,
// with one index that fits, and is not joined to anything but by ctid. Without
// jit, because what is forbidden but cannot be avoided counts as very expensive,
// and that starts the compiler. With the generic plan, because a plan for each
// call, which the server would make for the sake of the limits and the arrays, cost more
// than running it: a claim of 100 jobs took 30 µs a job, and 18 without.
const plan = `
select set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true),
       set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true)`

const (
	// maxTries bounds how often a statement is tried that the server keeps
	// aborting for the sake of another (deadlock, serialization failure, lock
	// timeout). Chosen: with the delays below it is half a second.
	maxTries = 8
	// retryDelay is the longest delay before the second try; each further one
	// may be twice as long.
	retryDelay = 5 * time.Millisecond
)

// statement is one SQL statement in a transaction of its own.
type statement struct {
	name  string // for errors
	sql   string // with {schema}
	args  []any
	plain bool // planned as the server likes, on the application's pool
}

// query runs st and returns its rows. It is tried again when the server aborted
// it for the sake of another transaction; nothing had happened then.
func query[T any](ctx context.Context, s *Store, st statement, scan pgx.RowToFunc[T]) ([]T, error) {
	get := s.runtimePool
	if st.plain {
		get = s.appPool
	}
	pool, err := get()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", st.name, err)
	}
	for try := 1; ; try++ {
		rows, err := queryOnce(ctx, s, pool, st, scan)
		if err == nil {
			return rows, nil
		}
		if !isAborted(err) || try == maxTries || !pause(ctx, retryDelay<<(try-1)) {
			return nil, fmt.Errorf("%s: %w", st.name, s.classify(err))
		}
	}
}

// run is [query] for a statement whose rows do not matter.
func (s *Store) run(ctx context.Context, st statement) error {
	_, err := query(ctx, s, st, func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil })
	return err
}

func queryOnce[T any](ctx context.Context, s *Store, pool *pgxpool.Pool, st statement, scan pgx.RowToFunc[T]) (result []T, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		s.leave(ctx, conn, err)
		conn.Release()
	}()

	if !st.plain && isDirect(conn) {
		rows, err := conn.Query(ctx, s.sql(st.sql), st.args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, scan)
	}

	// One round trip.
	batch := &pgx.Batch{}
	batch.Queue(begin)
	if !st.plain {
		batch.Queue(plan)
	}
	batch.Queue(s.sql(st.sql), st.args...)
	batch.Queue("commit")
	replies := conn.SendBatch(ctx, batch)
	defer func() {
		if closing := replies.Close(); err == nil { // else it is the same error again
			err = closing
		}
	}()

	if _, err := replies.Exec(); err != nil {
		return nil, err
	}
	if !st.plain {
		if _, err := replies.Exec(); err != nil {
			return nil, err
		}
	}
	rows, err := replies.Query()
	if err != nil {
		return nil, err
	}
	if result, err = pgx.CollectRows(rows, scan); err != nil {
		return nil, err
	}
	if _, err := replies.Exec(); err != nil {
		return nil, err
	}
	return result, nil
}

// leave makes a connection fit for the pool again after err, or unfit for good.
func (s *Store) leave(ctx context.Context, conn *pgxpool.Conn, err error) {
	switch {
	case err == nil:
	case isReadOnly(err):
		// The server is no primary any more; whoever dials again finds the new one.
		closeConn(ctx, conn)
		s.resetRuntime()
	case conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed():
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			closeConn(ctx, conn) // or else the pool would do it
		}
	}
}

// closeConn ends a connection without waiting long for the server's ear.
func closeConn(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Conn().Close(ctx) // it is given up either way
}

// resetRuntime has every connection for workers dialled anew.
func (s *Store) resetRuntime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runtime != nil {
		s.runtime.Reset()
	}
}

// isAborted reports whether the server undid the transaction for the sake of
// another one, so that the same statement may succeed now.
func isAborted(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock not available
		return true
	}
	return false
}

func isReadOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "25006"
}

// pause waits up to d, jittered so that two statements that were in each
// other's way do not meet again; it reports whether ctx still holds.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(d))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

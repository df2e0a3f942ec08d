package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/combine"
)

const (
	// maxSharedJobs and maxSharedBytes bound a statement that calls share; a call
	// beyond them has a transaction to itself, and nobody waits for it. Chosen: at 7 µs a
	// job, 1,000 jobs take 7 ms. It must not be above maxShapes, for one statement to do.
	maxSharedJobs  = maxShapes
	maxSharedBytes = 1 << 20
	// maxShared is how many such statements are under way at a time.
	maxShared = 2
	// sharedTimeout bounds such a statement, whatever the deadlines of its callers
	// are, so that a dead line does not hold up all of them for ever. Chosen, not
	// measured: far above what a commit takes.
	sharedTimeout = 30 * time.Second
)

// share has concurrent calls of Insert share statements, unless the pool sets up its
// connections for each caller: a function that does so may make the caller's rights of
// the caller's context.
func (s *Store) share() {
	cfg := s.pool.Config()
	//lint:ignore SA1019 it is deprecated, and may be set nevertheless
	if cfg.PrepareConn != nil || cfg.BeforeAcquire != nil {
		return
	}
	s.shared = combine.New(combine.Config[newRow, later.Enqueued]{
		Open: s.openShared, Divisible: s.divisible,
		MaxItems: maxSharedJobs, MaxBytes: maxSharedBytes, MaxBatches: maxShared, Timeout: sharedTimeout,
	})
}

func shareable(jobs []later.NewJob) bool {
	size := 0
	for i := range jobs {
		size += len(jobs[i].Payload)
	}
	return len(jobs) <= maxSharedJobs && size <= maxSharedBytes
}

func (s *Store) insertShared(ctx context.Context, jobs []later.NewJob) ([]later.Enqueued, error) {
	rows, err := rowsOf(jobs)
	if err != nil {
		return nil, err
	}
	size := 0
	for i := range rows {
		size += rows[i].size()
	}
	done, err := s.shared.Do(ctx, rows, size)
	switch {
	case errors.Is(err, combine.ErrClosed):
		return nil, later.ErrClosed
	case errors.Is(err, combine.ErrUnderWay):
		return nil, fmt.Errorf("%w: the jobs may have been stored: %w", later.ErrUnavailable, err)
	}
	return done, err
}

// divisible reports whether the server refused a statement for what is in it, which may
// be the jobs of one caller alone.
func (s *Store) divisible(err error) bool {
	return codeOf(err) != "" && !later.IsTransient(err) && !errors.Is(err, later.ErrSchema)
}

func (s *Store) openShared(ctx context.Context) (combine.Conn[newRow, later.Enqueued], error) {
	pool, err := s.appPool()
	if err != nil {
		return nil, err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, s.classify(err)
	}
	return &sharedConn{store: s, conn: conn}, nil
}

// sharedConn inserts what several calls brought. Each statement is a transaction by
// itself.
type sharedConn struct {
	store *Store
	conn  *pgxpool.Conn
}

func (c *sharedConn) Run(ctx context.Context, rows []newRow) ([]later.Enqueued, error) {
	var columns newColumns
	if n := columns.fill(rows); n != len(rows) {
		return nil, fmt.Errorf("%d jobs do not fit into one statement", len(rows))
	}
	done, err := c.store.insertColumns(ctx, c.conn, &columns, make([]later.Enqueued, 0, len(rows)))
	if err != nil {
		c.store.leave(ctx, c.conn, err)
		return nil, c.store.classify(err)
	}
	return done, nil
}

func (c *sharedConn) Release() { c.conn.Release() }

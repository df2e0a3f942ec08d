package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// insertRows takes a column of values for each column of the table. What jobs mostly
// share is sent once and referred to by its place: the domains, which cost a third of
// such an insert, then check each value once and not in every row. The subquery is
// kept apart (offset 0) for that. Columns that no job uses are null, and short ones
// are filled up with nulls by unnest. The rows of a function come in the order of its
// arrays, and so do the ids. Against one JSON text it takes 0.6 of the server's time.
const insertRows = `
insert into {schema}.job
  (queue, priority, tenant, kind, payload, run_at, max_attempts, timeout_ms, expires_at, headers)
select s.queue[r.shape], s.priority[r.shape], s.tenant[r.shape], s.kind[r.shape], r.payload,
       greatest(now(), coalesce(r.run_at, now() + r.delay_us * interval '1 microsecond')),
       s.max_attempts[r.shape], s.timeout_ms[r.shape],
       coalesce(r.expires_at, now() + r.expires_in_us * interval '1 microsecond'),
       r.headers
from (
  select $1::text[]::{schema}.name[] as queue, $2::smallint[] as priority, $3::text[]::{schema}.tenant[] as tenant,
         $4::text[]::{schema}.name[] as kind, $5::integer[] as max_attempts, $6::integer[] as timeout_ms
  offset 0
) as s,
unnest(
  $7::smallint[], $8::json[], $9::bigint[], $10::timestamptz[], $11::bigint[], $12::timestamptz[], $13::json[]
) as r (shape, payload, delay_us, run_at, expires_in_us, expires_at, headers)
returning id`

const (
	// maxChunkBytes and maxChunkJobs bound one statement. A value in Postgres
	// has at most 1 GiB; far below it, memory counts. Chosen, not measured.
	maxChunkBytes = 16 << 20
	maxChunkJobs  = 10_000
	// maxShapes bounds how many different shapes one statement has, because an
	// element of an array of texts is found by going through those before it. With
	// 10,000 jobs and 1 shape a job took 0.59 of the time that it takes as JSON, with
	// 256 shapes 0.69, with 1,000 shapes 0.93.
	maxShapes = 1_000
)

// Insert implements [later.Inserter]. Calls that come at the same time share a
// statement and a commit, but for large ones: several thousand jobs, or very large
// ones, are several statements in one transaction.
//
// A shared statement runs with the values of the context of one of its callers, and
// within a time of its own. It is tried again in parts when the server has refused it,
// so that nobody has the error of another's jobs; nothing was stored then.
//
// When ctx ends while the call waits for its statement to begin, or for a connection,
// nothing is stored, and the error is that of ctx; after that it matches
// [later.ErrUnavailable] too.
//
// Calls with a job that has a key share nothing. They wait for another transaction that
// has taken the key and has not ended, until ctx ends or for the lock_timeout of the
// pool's sessions, after which the error matches [later.ErrUnavailable].
func (s *Store) Insert(ctx context.Context, jobs []later.NewJob) ([]later.Enqueued, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	if _, err := s.appPool(); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(jobs, hasKey) {
		return s.insertApart(ctx, jobs)
	}
	if s.shared != nil && shareable(jobs) {
		return s.insertShared(ctx, jobs)
	}
	return s.insertAlone(ctx, jobs)
}

func (s *Store) insertAlone(ctx context.Context, jobs []later.NewJob) ([]later.Enqueued, error) {
	pool, err := s.appPool()
	if err != nil {
		return nil, err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, s.classify(err)
	}
	defer conn.Release()
	var done []later.Enqueued
	if len(jobs) <= maxShapes && chunkOf(jobs) == len(jobs) { // one statement
		done, err = s.insertJobs(ctx, conn, jobs)
	} else {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			done, err = s.insertJobs(ctx, tx, jobs)
			return err
		})
	}
	if err != nil {
		s.leave(ctx, conn, err)
		return nil, s.classify(err)
	}
	return done, nil
}

// queryer is a connection or a transaction of pgx.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// insertJobs inserts jobs without keys, with as many statements as it takes.
func (s *Store) insertJobs(ctx context.Context, db queryer, jobs []later.NewJob) ([]later.Enqueued, error) {
	done := make([]later.Enqueued, 0, len(jobs))
	for len(jobs) > 0 {
		n := chunkOf(jobs)
		rows, err := rowsOf(jobs[:n])
		if err != nil {
			return nil, err
		}
		for len(rows) > 0 {
			var c newColumns
			taken := c.fill(rows)
			if done, err = s.insertColumns(ctx, db, &c, done); err != nil {
				return nil, err
			}
			rows = rows[taken:]
		}
		jobs = jobs[n:]
	}
	return done, nil
}

// insertColumns runs one statement and adds its ids to done.
func (s *Store) insertColumns(ctx context.Context, db queryer, c *newColumns, done []later.Enqueued) ([]later.Enqueued, error) {
	rows, err := db.Query(ctx, s.insertSQL, c.queue, c.priority, c.tenant, c.kind, c.maxAttempts, c.timeoutMS,
		c.shape, c.payload, c.delayUS, c.runAt, c.expiresInUS, c.expiresAt, c.headers)
	if err != nil {
		return nil, err
	}
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		done = append(done, later.Enqueued{ID: id})
		return nil
	})
	return done, err
}

// chunkOf is how many of jobs go into one statement.
func chunkOf(jobs []later.NewJob) int {
	size := 0
	for n := range jobs {
		size += len(jobs[n].Payload)
		if n == maxChunkJobs || n > 0 && size > maxChunkBytes {
			return n
		}
	}
	return len(jobs)
}

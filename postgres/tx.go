package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// EnqueueTx stores one job in the caller's transaction: it is there when tx has
// been committed, and not before; after a rollback it never was. A request that
// is invalid is refused before anything is sent, so tx stays usable. Any other
// error aborts tx, as every SQL error does in Postgres; who wants to go on after
// one sets a savepoint (tx.Begin) first.
//
// Delays count from the beginning of tx, because now() stands still in it.
//
// A job whose key ([later.Unique]) is held aborts nothing. If another transaction has
// taken the key and has not ended, the call waits for it, until ctx ends, which costs the
// connection, or for the session's lock_timeout. Above read committed a key that was taken
// since tx began is a serialization failure (40001).
func (s *Store) EnqueueTx(ctx context.Context, tx pgx.Tx, args later.Args, opts later.Options) (later.Enqueued, error) {
	return one(s.EnqueueManyTx(ctx, tx, []later.Request{{Args: args, Options: opts}}))
}

// EnqueueManyTx is [Store.EnqueueTx] for several jobs; ids come in the order of
// the requests.
func (s *Store) EnqueueManyTx(ctx context.Context, tx pgx.Tx, requests []later.Request) ([]later.Enqueued, error) {
	return s.enqueueIn(requests, func(jobs []later.NewJob) ([]later.Enqueued, error) {
		if slices.ContainsFunc(jobs, hasKey) {
			return s.insertMixed(ctx, tx, jobs)
		}
		return s.insertJobs(ctx, tx, jobs)
	})
}

// EnqueueSQLTx is [Store.EnqueueTx] for a transaction of database/sql, whatever
// its driver.
func (s *Store) EnqueueSQLTx(ctx context.Context, tx *sql.Tx, args later.Args, opts later.Options) (later.Enqueued, error) {
	return one(s.EnqueueManySQLTx(ctx, tx, []later.Request{{Args: args, Options: opts}}))
}

// EnqueueManySQLTx is [Store.EnqueueManyTx] for a transaction of database/sql,
// whatever its driver.
func (s *Store) EnqueueManySQLTx(ctx context.Context, tx *sql.Tx, requests []later.Request) ([]later.Enqueued, error) {
	return s.enqueueIn(requests, func(jobs []later.NewJob) ([]later.Enqueued, error) {
		if slices.ContainsFunc(jobs, hasKey) {
			return s.insertMixedSQL(ctx, tx, jobs)
		}
		return s.insertSQLTx(ctx, tx, jobs)
	})
}

func (s *Store) enqueueIn(requests []later.Request, insert func(jobs []later.NewJob) ([]later.Enqueued, error)) ([]later.Enqueued, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	jobs, err := later.BuildMany(requests)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	done, err := insert(jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", s.classify(err))
	}
	return done, nil
}

func one(done []later.Enqueued, err error) (later.Enqueued, error) {
	if err != nil {
		return later.Enqueued{}, err
	}
	return done[0], nil
}

// DoneTx ends job as done in the handler's own transaction: its effects and the
// end of the job are committed together, or not at all. When the lease is gone
// it returns [later.ErrLeaseLost]; then roll tx back, because somebody else has
// the job. Call it last: until tx ends, the row is locked, and its lease is not
// renewed. After it, return nil from the handler if tx was committed, and the
// error if it was not.
//
// Under repeatable read or serializable it fails with a serialization error if
// the lease was renewed since tx began; take read committed, the default.
func (s *Store) DoneTx(ctx context.Context, tx pgx.Tx, job later.Held) error {
	return s.doneIn(job, func(statement string, args ...any) ([]int64, error) {
		rows, err := tx.Query(ctx, statement, args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[int64])
	})
}

// DoneSQLTx is [Store.DoneTx] for a transaction of database/sql, whatever its
// driver.
func (s *Store) DoneSQLTx(ctx context.Context, tx *sql.Tx, job later.Held) error {
	return s.doneIn(job, func(statement string, args ...any) ([]int64, error) {
		return queryIDs(ctx, tx, statement, args...)
	})
}

const settleOne = `
with removed as (
  delete from {schema}.job j
  where j.id = $1 and j.lease_token = $2
  returning j.id, j.claimed_at, j.attempt, j.queue, j.kind, j.tenant, j.lease_holder
),
logged as (
  insert into {schema}.job_log (job_id, started_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, claimed_at, attempt, queue, kind, tenant, 'done', lease_holder, ''
  from removed
  where $3
)
select id from removed`

func (s *Store) doneIn(job later.Held, run func(statement string, args ...any) ([]int64, error)) error {
	lease := job.HeldLease()
	removed, err := run(s.sql(settleOne), lease.ID, lease.Token, !s.config.NoLog)
	if err != nil {
		return fmt.Errorf("done in a transaction, job %d: %w", lease.ID, s.classify(err))
	}
	if len(removed) == 0 {
		return fmt.Errorf("done in a transaction, job %d: %w", lease.ID, later.ErrLeaseLost)
	}
	job.MarkSettled()
	return nil
}

func queryIDs(ctx context.Context, tx *sql.Tx, statement string, args ...any) (ids []int64, err error) {
	rows, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/later-queue/later"
)

// EnqueueSQLTx stores a job in the caller's transaction: it is there for workers
// after tx has been committed, and never if tx is rolled back. A request that is
// refused is refused before any SQL. After an error tx is as it was before, and
// may be used; only when the disk is full SQLite may have rolled it back.
//
// tx is a transaction of [Store.DB], or of any *sql.DB with the driver
// modernc.org/sqlite on the same file. A delay counts from this call. ctx is
// looked at once, before the first statement: a statement that is interrupted
// makes SQLite roll back the whole transaction.
func (s *Store) EnqueueSQLTx(ctx context.Context, tx *sql.Tx, args later.Args, opts later.Options) (later.Enqueued, error) {
	done, err := s.EnqueueManySQLTx(ctx, tx, []later.Request{{Args: args, Options: opts}})
	if err != nil {
		return later.Enqueued{}, err
	}
	return done[0], nil
}

// EnqueueManySQLTx is [Store.EnqueueSQLTx] for several jobs: all or none. It returns
// their ids in the order of the requests.
func (s *Store) EnqueueManySQLTx(ctx context.Context, tx *sql.Tx, requests []later.Request) ([]later.Enqueued, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	jobs, err := later.BuildMany(requests)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	var done []later.Enqueued
	err = s.inCallersTx(ctx, tx, func(tx transaction) error {
		done, err = insert(tx, jobs)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return done, nil
}

const deleteHeld = `
delete from later_job
where id = ? and lease_token = ?
returning ` + attemptColumns

// DoneSQLTx ends job as done in its handler's own transaction, so that what the
// handler wrote and the job's end are committed together or not at all: the way
// to effects that happen exactly once. It returns [later.ErrLeaseLost] when
// somebody else may have the job by now; then tx must be rolled back. Call it
// last, return nil after the commit, and the error if the commit fails.
func (s *Store) DoneSQLTx(ctx context.Context, tx *sql.Tx, job later.Held) error {
	lease := job.HeldLease()
	err := s.inCallersTx(ctx, tx, func(tx transaction) error {
		var l logRow
		err := tx.queryRow(deleteHeld, lease.ID, lease.Token).Scan(l.targets()...)
		if errors.Is(err, sql.ErrNoRows) {
			return later.ErrLeaseLost
		}
		if err != nil {
			return err
		}
		now, err := tx.now()
		if err != nil {
			return err
		}
		s.freed(tx)
		return s.record(tx, l, later.OutcomeDone, now, "")
	})
	if err != nil {
		return fmt.Errorf("settle job %d in a transaction: %w", lease.ID, err)
	}
	job.MarkSettled()
	return nil
}

// inCallersTx calls do in a savepoint of tx, and takes back what it did when it
// fails.
func (s *Store) inCallersTx(ctx context.Context, tx *sql.Tx, do func(tx transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if tx == nil {
		return errors.New("the transaction is nil")
	}
	t := s.callerTx(ctx, tx)
	if _, err := t.exec("savepoint later"); err != nil {
		return explain(err)
	}
	err := do(t)
	if err == nil {
		_, err = t.exec("release later")
		return explain(err)
	}
	_, err2 := t.exec("rollback to later")
	_, err3 := t.exec("release later")
	if err2 != nil || err3 != nil {
		return fmt.Errorf("%w (and SQLite has rolled back the transaction)", explain(err))
	}
	return explain(err)
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/later-queue/later"
)

const selectForSteering = `
select ` + attemptColumns + `, lease_until
from later_job
where id = ?`

// waiting returns the log row of a job that is not running, with its lease's
// end if it was lost; else ErrNotFound or ErrRunning.
func waiting(tx transaction, id, now int64) (l logRow, lostAt sql.NullInt64, err error) {
	err = tx.queryRow(selectForSteering, id).Scan(append(l.targets(), &lostAt)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = later.ErrNotFound
	case err == nil && lostAt.Valid && lostAt.Int64 >= now:
		err = later.ErrRunning
	}
	return l, lostAt, err
}

// A job that is due already keeps its place.
const updateDue = `update later_job set run_at = min(run_at, ?) where id = ? returning queue`

// Retry implements [later.Operator].
func (s *Store) Retry(ctx context.Context, id int64) error {
	return s.steer(ctx, "retry", id, func(tx *writeTx, now int64) error {
		if _, _, err := waiting(tx, id, now); !errors.Is(err, later.ErrNotFound) {
			if err != nil {
				return err
			}
			return wakeQueue(tx, updateDue, now, id)
		}
		return revive(tx, id, now)
	})
}

// wakeQueue runs a statement that returns the queue of the job that it made due.
func wakeQueue(tx transaction, query string, args ...any) error {
	var queue string
	if err := tx.queryRow(query, args...).Scan(&queue); err != nil {
		return err
	}
	tx.wake(queue)
	return nil
}

const updateCancel = `update later_job set cancel_at = coalesce(cancel_at, ?) where id = ?`

// Cancel implements [later.Operator].
func (s *Store) Cancel(ctx context.Context, id int64) (running bool, err error) {
	err = s.steer(ctx, "cancel", id, func(tx *writeTx, now int64) error {
		running = false
		l, lostAt, err := waiting(tx, id, now)
		switch {
		case errors.Is(err, later.ErrRunning):
			running = true
			_, err = tx.exec(updateCancel, now, id)
			return err
		case err != nil:
			return err
		}
		return s.end(tx, l, lostAt, later.OutcomeCancelled, now)
	})
	return running, err
}

// Delete implements [later.Operator].
func (s *Store) Delete(ctx context.Context, id int64) error {
	return s.steer(ctx, "delete", id, func(tx *writeTx, now int64) error {
		l, lostAt, err := waiting(tx, id, now)
		if errors.Is(err, later.ErrNotFound) {
			return s.drop(tx, id, now)
		}
		if err != nil {
			return err
		}
		return s.end(tx, l, lostAt, later.OutcomeDeleted, now)
	})
}

const deleteJob = `delete from later_job where id = ?`

// end removes a job that is not running.
func (s *Store) end(tx transaction, l logRow, lostAt sql.NullInt64, outcome later.Outcome, now int64) error {
	if _, err := tx.exec(deleteJob, l.job); err != nil {
		return err
	}
	s.freed(tx)
	if lostAt.Valid {
		if err := s.record(tx, l, later.OutcomeLost, now, ""); err != nil {
			return err
		}
	}
	l.worker, l.startedAt = sql.NullString{}, sql.NullInt64{}
	return s.record(tx, l, outcome, now, "")
}

// steer calls do with the database's clock.
func (s *Store) steer(ctx context.Context, verb string, id int64, do func(tx *writeTx, now int64) error) error {
	err := s.writer.do(ctx, 1, func(tx *writeTx) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		return do(tx, now)
	})
	if err != nil {
		return fmt.Errorf("%s job %d: %w", verb, id, err)
	}
	return nil
}

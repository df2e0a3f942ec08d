package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/later-queue/later"
)

const (
	// Parameters: now, id.
	insertRevived = `
insert into later_job (id, queue, priority, tenant, kind, run_at, max_attempts, timeout_ms,
  created_at, generation, headers, errors, checkpoint, payload, unique_key, unique_until)
select id, queue, priority, tenant, kind, ?1, max_attempts, timeout_ms,
  created_at, min(generation, 2147483646) + 1, headers, errors, checkpoint, payload, unique_key, unique_until
from later_dead_job
where id = ?2
returning queue`

	// Parameters: id.
	selectKeyHolder = `
select d.unique_key, j.id
from later_dead_job d
join later_job j on j.tenant = d.tenant and j.kind = d.kind and j.unique_key = d.unique_key
where d.id = ?`

	deleteDead = `
delete from later_dead_job
where id = ?
returning id, attempt, queue, kind, tenant`

	// Parameters: those of deadFilter, limit, and the id to go on behind.
	selectDeadIDs = `
select id
from later_dead_job
where ` + deadFilter + `
  and id > ?9
order by id
limit ?8`
)

// revive brings a dead job back, or returns ErrNotFound; or a KeyHeldError; or
// ErrInvalid for a row that was changed by hand into what the job table refuses.
func revive(tx transaction, id, now int64) error {
	err := wakeQueue(tx, insertRevived, now, id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return later.ErrNotFound
	case isConstraint(err):
		held := &later.KeyHeldError{Job: id, Count: 1}
		if tx.queryRow(selectKeyHolder, id).Scan(&held.Key, &held.Holder) == nil {
			return held
		}
		return fmt.Errorf("%w: %w", later.ErrInvalid, err)
	case err != nil:
		return err
	}
	_, err = removeDead(tx, id)
	return err
}

// drop removes a dead job, or returns ErrNotFound.
func (s *Store) drop(tx transaction, id, now int64) error {
	l, err := removeDead(tx, id)
	if err != nil {
		return err
	}
	s.freed(tx)
	return s.record(tx, l, later.OutcomeDeleted, now, "")
}

func removeDead(tx transaction, id int64) (l logRow, err error) {
	err = tx.queryRow(deleteDead, id).Scan(&l.job, &l.attempt, &l.queue, &l.kind, &l.tenant)
	if errors.Is(err, sql.ErrNoRows) {
		err = later.ErrNotFound
	}
	return l, err
}

// RetryDead implements [later.Operator]. Dead jobs that were changed by hand into
// what the job table refuses are left where they are, and logged.
func (s *Store) RetryDead(ctx context.Context, f later.Filter) (int, error) {
	return s.eachDead(ctx, "retry", f, revive)
}

// DropDead implements [later.Operator].
func (s *Store) DropDead(ctx context.Context, f later.Filter) (int, error) {
	return s.eachDead(ctx, "drop", f, s.drop)
}

func (s *Store) eachDead(ctx context.Context, verb string, f later.Filter, act func(tx transaction, id, now int64) error) (int, error) {
	var done int
	var odd map[int64]error
	var held *later.KeyHeldError
	err := s.writer.do(ctx, limitOf(f), func(tx *writeTx) error {
		done, odd, held = 0, map[int64]error{}, nil
		now, err := tx.now()
		if err != nil {
			return err
		}
		for last, more := int64(math.MinInt64), true; more && done < limitOf(f); {
			limit := limitOf(f) - done
			ids, err := readIDs(tx, selectDeadIDs, append(deadArgs(f), limit, last)...)
			if err != nil {
				return err
			}
			for _, id := range ids {
				err := act(tx, id, now)
				var one *later.KeyHeldError
				switch {
				case errors.As(err, &one):
					if held == nil {
						held = one
					} else {
						held.Count++
					}
				case errors.Is(err, later.ErrInvalid):
					odd[id] = err // the statement was undone, and no more than that
				case err != nil:
					return fmt.Errorf("job %d: %w", id, err)
				default:
					done++
				}
				last = id
			}
			more = len(ids) == limit
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%s dead jobs: %w", verb, err)
	}
	for id, err := range odd {
		s.config.Logger.Warn("dead job does not fit the job table", "job", id, "err", err)
	}
	if done == 0 && held != nil {
		return 0, fmt.Errorf("%s dead jobs: %w", verb, held)
	}
	return done, nil
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/later-queue/later"
)

const (
	// Parameters: now, id.
	insertRevived = `
insert into later_job (id, queue, priority, tenant, kind, run_at, max_attempts, timeout_ms,
  created_at, generation, headers, errors, checkpoint, payload)
select id, queue, priority, tenant, kind, ?1, max_attempts, timeout_ms,
  created_at, min(generation, 2147483646) + 1, headers, errors, checkpoint, payload
from later_dead_job
where id = ?2`

	deleteDead = `
delete from later_dead_job
where id = ?
returning id, attempt, queue, kind, tenant`

	selectDeadIDs = `
select id
from later_dead_job
where ` + deadFilter + `
order by id
limit ?8`
)

// revive brings a dead job back, or returns ErrNotFound.
func revive(tx transaction, id, now int64) error {
	if _, err := tx.exec(insertRevived, now, id); err != nil {
		return err
	}
	_, err := removeDead(tx, id)
	return err
}

// drop removes a dead job, or returns ErrNotFound.
func (s *Store) drop(tx transaction, id, now int64) error {
	l, err := removeDead(tx, id)
	if err != nil {
		return err
	}
	return s.record(tx, l, later.OutcomeDeleted, now, "")
}

func removeDead(tx transaction, id int64) (l logRow, err error) {
	err = tx.queryRow(deleteDead, id).Scan(&l.job, &l.attempt, &l.queue, &l.kind, &l.tenant)
	if errors.Is(err, sql.ErrNoRows) {
		err = later.ErrNotFound
	}
	return l, err
}

// RetryDead implements [later.Operator].
func (s *Store) RetryDead(ctx context.Context, f later.Filter) (int, error) {
	return s.eachDead(ctx, "retry", f, revive)
}

// DropDead implements [later.Operator].
func (s *Store) DropDead(ctx context.Context, f later.Filter) (int, error) {
	return s.eachDead(ctx, "drop", f, s.drop)
}

func (s *Store) eachDead(ctx context.Context, verb string, f later.Filter, act func(tx transaction, id, now int64) error) (int, error) {
	count := 0
	err := s.writer.do(ctx, limitOf(f), func(tx *writeTx) error {
		count = 0
		now, err := now(tx)
		if err != nil {
			return err
		}
		ids, err := readIDs(tx, selectDeadIDs, append(deadArgs(f), limitOf(f))...)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := act(tx, id, now); err != nil {
				return fmt.Errorf("job %d: %w", id, err)
			}
		}
		count = len(ids)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%s dead jobs: %w", verb, err)
	}
	return count, nil
}

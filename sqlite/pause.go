package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/later-queue/later"
)

const (
	upsertPause = `
insert into later_gate (scope, name, paused_at, paused_by, reason)
values (?1, ?2, ?3, ?4, ?5)
on conflict (scope, name) do update
set paused_at = coalesce(paused_at, excluded.paused_at),
  paused_by = case when paused_at is null then excluded.paused_by else paused_by end,
  reason = excluded.reason`

	// A limit of the scope stays.
	updateResumed = `
update later_gate
set paused_at = null, paused_by = null, reason = null
where scope = ? and name = ? and paused_at is not null`

	deleteIdleGate = `delete from later_gate where scope = ? and name = ? and paused_at is null and set_at is null`

	selectPauses = `
select scope, name, paused_at, paused_by, coalesce(reason, '')
from later_gate
where paused_at is not null
order by scope, name`
)

// Pause implements [later.Operator].
func (s *Store) Pause(ctx context.Context, scope later.Scope, by, reason string) error {
	if err := later.CheckPause(scope, by, reason); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	err := s.writer.do(ctx, 1, func(tx *writeTx) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		tx.wake(anyQueue) // what the scope's jobs kept waiting may start
		_, err = tx.exec(upsertPause, string(scope.Of), scope.Name, now, by, reason)
		return err
	})
	if err != nil {
		return fmt.Errorf("pause %v: %w", scope, err)
	}
	return nil
}

// Resume implements [later.Operator].
func (s *Store) Resume(ctx context.Context, scope later.Scope) error {
	if err := scope.Check(); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	err := s.writer.do(ctx, 1, func(tx *writeTx) error {
		result, err := tx.exec(updateResumed, string(scope.Of), scope.Name)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err == nil && n == 0 {
			err = fmt.Errorf("it is not paused: %w", later.ErrNotFound)
		}
		if err != nil {
			return err
		}
		tx.wake(anyQueue)
		_, err = tx.exec(deleteIdleGate, string(scope.Of), scope.Name)
		return err
	})
	if err != nil {
		return fmt.Errorf("resume %v: %w", scope, err)
	}
	return nil
}

// Pauses implements [later.Operator].
func (s *Store) Pauses(ctx context.Context) (list []later.Pause, err error) {
	if list, err = readPauses(s.reader(ctx)); err != nil {
		return nil, fmt.Errorf("list what is paused: %w", explain(err))
	}
	return list, nil
}

func readPauses(q querier) ([]later.Pause, error) {
	rows, err := q.query(selectPauses)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []later.Pause
	for rows.Next() {
		var p later.Pause
		var since int64
		if err := rows.Scan(&p.Scope.Of, &p.Scope.Name, &since, &p.By, &p.Reason); err != nil {
			return nil, err
		}
		p.Since = toTime(since)
		list = append(list, p)
	}
	return list, rows.Err()
}

// pauses are the names that are paused, of each kind of scope.
type pauses map[later.ScopeOf][]string

// open are those of names that are not paused.
func (p pauses) open(of later.ScopeOf, names []string) []string {
	if len(p[of]) == 0 {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(p[of], name) })
}

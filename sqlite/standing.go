package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/later-queue/later"
)

// Limits implements [later.Limiter].
func (s *Store) Limits(ctx context.Context) ([]later.ScopeLimit, error) {
	list, err := readLimits(s.reader(ctx))
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", explain(err))
	}
	return list, nil
}

func readLimits(q querier) ([]later.ScopeLimit, error) {
	rows, err := q.query(selectLimits)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []later.ScopeLimit
	for rows.Next() {
		var one later.ScopeLimit
		var since int64
		var l limitRow
		if err := rows.Scan(append([]any{&one.Scope.Of, &one.Scope.Name, &since, &one.By}, l.targets()...)...); err != nil {
			return nil, err
		}
		one.Since, one.Limit = toTime(since), l.value()
		list = append(list, one)
	}
	return list, rows.Err()
}

// Standing implements [later.Limiter].
func (s *Store) Standing(ctx context.Context, scope later.Scope) (standing later.Standing, err error) {
	if err := scope.Check(); err != nil {
		return standing, fmt.Errorf("standing: %w", err)
	}
	err = s.snapshot(ctx, func(r reader) error {
		now, err := now(r)
		if err != nil {
			return err
		}
		gates, err := readGates(r)
		if err != nil {
			return err
		}
		standing.Limit = gates.limits.Of(scope)
		adm := newAdmission(r, gates.limits, now)
		if err := adm.load(scope.Of, scope.Name); err != nil {
			return err
		}
		if g := adm.gate(scope.Of, scope.Name); g != nil {
			standing.Running = slices.Sorted(slices.Values(g.Running))
			standing.NextStart = g.Next(toTime(now))
		}
		return nil
	})
	if err != nil {
		return later.Standing{}, fmt.Errorf("standing of %v: %w", scope, explain(err))
	}
	return standing, nil
}

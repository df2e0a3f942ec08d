package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/admit"
)

var _ later.Limiter = (*Store)(nil)

// SetLimit implements [later.Limiter].
func (s *Store) SetLimit(ctx context.Context, scope later.Scope, limit later.Limit, by string) error {
	if err := later.CheckLimit(scope, limit, by); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	defer unlock()
	s.limitOf[scope] = later.ScopeLimit{Scope: scope, Limit: copyLimit(limit), Since: now, By: by}
	s.limitsChanged(now)
	return nil
}

// RemoveLimit implements [later.Limiter].
func (s *Store) RemoveLimit(ctx context.Context, scope later.Scope) error {
	if scope != (later.Scope{Of: later.ScopeTenants}) {
		if err := scope.Check(); err != nil {
			return fmt.Errorf("remove limit: %w", err)
		}
	}
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("remove limit: %w", err)
	}
	defer unlock()
	if _, limited := s.limitOf[scope]; !limited {
		return fmt.Errorf("remove limit of %v: it has none: %w", scope, later.ErrNotFound)
	}
	delete(s.limitOf, scope)
	s.limitsChanged(now)
	return nil
}

// Limits implements [later.Limiter].
func (s *Store) Limits(ctx context.Context) ([]later.ScopeLimit, error) {
	_, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	defer unlock()
	list := slices.SortedFunc(maps.Values(s.limitOf), func(a, b later.ScopeLimit) int {
		return cmp.Or(cmp.Compare(a.Scope.Of, b.Scope.Of), cmp.Compare(a.Scope.Name, b.Scope.Name))
	})
	for i := range list {
		list[i].Limit = copyLimit(list[i].Limit)
	}
	return list, nil
}

// Standing implements [later.Limiter].
func (s *Store) Standing(ctx context.Context, scope later.Scope) (later.Standing, error) {
	if err := scope.Check(); err != nil {
		return later.Standing{}, fmt.Errorf("standing: %w", err)
	}
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return later.Standing{}, fmt.Errorf("standing: %w", err)
	}
	defer unlock()
	at := s.gatesAt(now).at(scope)
	standing := later.Standing{Limit: copyLimit(at.Limit), NextStart: at.Next(now)}
	if _, limited := at.Limit.Cap(); limited {
		standing.Running = slices.Sorted(slices.Values(at.Running))
	}
	return standing, nil
}

// limitsChanged makes the limits count that are stored now.
func (s *Store) limitsChanged(now time.Time) {
	before := s.limits
	limits := make(map[later.Scope]later.Limit, len(s.limitOf))
	for scope, l := range s.limitOf {
		limits[scope] = l.Limit
	}
	s.limits = admit.NewLimits(limits)
	for scope, state := range s.gateStates {
		limit := s.limits.Of(scope)
		if !limit.Holds() {
			delete(s.gateStates, scope)
			continue
		}
		if !limit.Ordered {
			state.heads = nil
		}
		fits := admit.Gate{Limit: limit, TAT: state.tat}
		fits.Fit(now)
		state.tat = fits.TAT
		s.gateStates[scope] = state
	}
	// Where jobs run in what is ordered from now on, the others wait for them.
	for _, id := range slices.Sorted(maps.Keys(s.leased)) {
		j := s.leased[id]
		for _, scope := range s.limits.Over(j.Queue, j.Kind, j.Tenant) {
			if s.limits.Of(scope).Ordered && !before.Of(scope).Ordered && !j.lease.doomed {
				state := s.gateStates[scope]
				state.heads = append(state.heads, id)
				s.gateStates[scope] = state
			}
		}
	}
	s.tellAll()
}

// freed wakes all who wait when a job has ended or waits again that was under a limit: another
// one may have its place.
func (s *Store) freed(r *later.Record) {
	if s.isLimited(r) {
		s.tellAll()
	}
}

func (s *Store) isLimited(r *later.Record) bool {
	return len(s.limitOf) > 0 && len(s.limits.Over(r.Queue, r.Kind, r.Tenant)) > 0
}

func copyLimit(l later.Limit) later.Limit {
	if l.MaxRunning != nil {
		most := *l.MaxRunning
		l.MaxRunning = &most
	}
	return l
}

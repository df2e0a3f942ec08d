package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/later-queue/later"
)

// Pause implements [later.Operator].
func (s *Store) Pause(ctx context.Context, scope later.Scope, by, reason string) error {
	if err := later.CheckPause(scope, by, reason); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	defer unlock()
	p, paused := s.paused[scope]
	if !paused {
		p = later.Pause{Scope: scope, Since: now, By: by}
	}
	p.Reason = reason
	s.paused[scope] = p
	s.tellAll()
	return nil
}

// Resume implements [later.Operator].
func (s *Store) Resume(ctx context.Context, scope later.Scope) error {
	if err := scope.Check(); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	_, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	defer unlock()
	if _, paused := s.paused[scope]; !paused {
		return fmt.Errorf("resume %v: it is not paused: %w", scope, later.ErrNotFound)
	}
	delete(s.paused, scope)
	s.tellAll()
	return nil
}

// Pauses implements [later.Operator].
func (s *Store) Pauses(ctx context.Context) ([]later.Pause, error) {
	_, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("list what is paused: %w", err)
	}
	defer unlock()
	return slices.SortedFunc(maps.Values(s.paused), func(a, b later.Pause) int {
		return cmp.Or(cmp.Compare(a.Scope.Of, b.Scope.Of), cmp.Compare(a.Scope.Name, b.Scope.Name))
	}), nil
}

// isPaused reports whether a job's queue, kind or tenant is.
func (s *Store) isPaused(j *job) bool {
	if len(s.paused) == 0 {
		return false
	}
	for _, scope := range []later.Scope{
		{Of: later.ScopeQueue, Name: j.Queue}, {Of: later.ScopeKind, Name: j.Kind}, {Of: later.ScopeTenant, Name: j.Tenant},
	} {
		if _, paused := s.paused[scope]; paused {
			return true
		}
	}
	return false
}

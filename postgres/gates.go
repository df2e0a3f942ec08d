package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/admit"
)

// gates are what a store knows of what is held back. What it knows need not be so any more: each
// claim names the version that it goes by, and takes nothing if that is not the latest
// one ([Store.Claim]). So the gates are read again only when they have changed.
type gates struct {
	mu    sync.Mutex
	known *gateSet // nil: not known
}

// gateSet is what is held back, as of a version.
type gateSet struct {
	version int64
	paused  map[later.Scope]bool
	tenants []string      // that are paused, in order
	limits  *admit.Limits // nil: none
	weighed bool          // some tenant has a weight
	passed  bool          // what limits can hold back is passed over, so only weights matter
}

const readGates = `
select v.version, g.paused_at is not null, g.set_at is not null, ` + limitColumns + `
from {schema}.gate_version v
left join {schema}.gate g on true
where v.one`

// freshGates has a claim take nothing if the gates are of another version than $11.
const freshGates = `(select from {schema}.gate_version v where v.one and v.version = $11) as fresh
  cross join `

const readGateVersion = `select v.version from {schema}.gate_version v where v.one`

// gateSet returns the gates as the store knows them, or reads them.
func (s *Store) gateSet(ctx context.Context) (*gateSet, error) {
	s.gates.mu.Lock()
	known := s.gates.known
	s.gates.mu.Unlock()
	if known != nil {
		return known, nil
	}
	return s.readGates(ctx)
}

func (s *Store) readGates(ctx context.Context) (*gateSet, error) {
	rows, err := query(ctx, s, statement{name: "read the gates", sql: readGates}, func(row pgx.CollectableRow) (gateRow, error) {
		var r gateRow
		err := row.Scan(append([]any{&r.version, &r.paused, &r.limited}, r.dest()...)...)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("read the gates: gate_version is empty: %w", later.ErrSchema)
	}
	set := &gateSet{version: rows[0].version, paused: map[later.Scope]bool{}}
	limits := map[later.Scope]later.Limit{}
	for _, r := range rows {
		scope := r.scope()
		if r.paused {
			set.paused[scope] = true
			if scope.Of == later.ScopeTenant {
				set.tenants = append(set.tenants, scope.Name)
			}
		}
		if r.limited {
			limits[scope] = r.limit()
			set.weighed = set.weighed || limits[scope].Weight > 1
		}
	}
	if len(limits) > 0 {
		set.limits = admit.NewLimits(limits)
	}
	slices.Sort(set.tenants)
	s.gates.mu.Lock()
	known := s.gates.known
	if known != nil && known.version == set.version {
		s.gates.mu.Unlock()
		return known, nil
	}
	s.gates.known = set
	s.gates.mu.Unlock()
	if known != nil {
		s.forgetHeld()
	}
	return set, nil
}

// stale forgets gates that are of an old version.
func (s *Store) stale(old *gateSet) {
	s.gates.mu.Lock()
	if s.gates.known == old {
		s.gates.known = nil
	}
	s.gates.mu.Unlock()
	s.forgetHeld()
}

// forgetHeld forgets what is known by other gates than those of now: which limits were full, and
// marks that have gone past what was held back.
func (s *Store) forgetHeld() {
	s.rotations.reset()
	s.holding.reset()
}

// isLatest reports whether a version of the gates is the latest.
func (s *Store) isLatest(ctx context.Context, version int64) (bool, error) {
	rows, err := query(ctx, s, statement{name: "look whether the gates have changed", sql: readGateVersion}, pgx.RowTo[int64])
	return len(rows) == 1 && rows[0] == version, err
}

// gateRow is a row of readGates.
type gateRow struct {
	version         int64
	paused, limited bool
	limitRow
}

// open is what of a request is not held back, but for tenants.
func (g *gateSet) open(req later.ClaimRequest) later.ClaimRequest {
	if len(g.paused) == 0 {
		return req
	}
	req.Queues = slices.DeleteFunc(slices.Clone(req.Queues), func(q later.QueueLimit) bool {
		return g.paused[later.Scope{Of: later.ScopeQueue, Name: q.Queue}]
	})
	req.Kinds = g.openNames(later.ScopeKind, req.Kinds)
	return req
}

// openNames are the names that are not paused.
func (g *gateSet) openNames(of later.ScopeOf, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return g.paused[later.Scope{Of: of, Name: name}] })
}

const (
	pauseScope = `
insert into {schema}.gate as g (scope, name, paused_at, paused_by, reason)
values ($1, $2, now(), $3, $4)
on conflict (scope, name) do update
set paused_at = coalesce(g.paused_at, now()),
    paused_by = case when g.paused_at is null then excluded.paused_by else g.paused_by end,
    reason    = excluded.reason`

	resumeScope = `
with gone as (
  delete from {schema}.gate g
  where g.scope = $1 and g.name = $2 and g.paused_at is not null and g.set_at is null
  returning true
),
kept as (
  update {schema}.gate g
  set paused_at = null, paused_by = null, reason = null
  where g.scope = $1 and g.name = $2 and g.paused_at is not null and g.set_at is not null
  returning true
)
select true from gone union all select true from kept`

	listPauses = `
select scope, name, paused_at, paused_by, coalesce(reason, '')
from {schema}.gate
where paused_at is not null
order by scope, name`
)

// Pause implements [later.Operator].
func (s *Store) Pause(ctx context.Context, scope later.Scope, by, reason string) error {
	if err := later.CheckPause(scope, by, reason); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	return s.run(ctx, statement{
		name: fmt.Sprintf("pause %v", scope), sql: pauseScope, args: []any{string(scope.Of), scope.Name, by, reason}, plain: true,
	})
}

// Resume implements [later.Operator].
func (s *Store) Resume(ctx context.Context, scope later.Scope) error {
	if err := scope.Check(); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	rows, err := query(ctx, s, statement{
		name: fmt.Sprintf("resume %v", scope), sql: resumeScope, args: []any{string(scope.Of), scope.Name}, plain: true,
	}, pgx.RowTo[bool])
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("resume %v: it is not paused: %w", scope, later.ErrNotFound)
	}
	return nil
}

// Pauses implements [later.Operator].
func (s *Store) Pauses(ctx context.Context) ([]later.Pause, error) {
	return query(ctx, s, statement{name: "list what is paused", sql: listPauses, plain: true},
		func(row pgx.CollectableRow) (p later.Pause, err error) {
			var of string
			err = row.Scan(&of, &p.Scope.Name, &p.Since, &p.By, &p.Reason)
			p.Scope.Of, p.Since = later.ScopeOf(of), p.Since.UTC()
			return p, err
		})
}

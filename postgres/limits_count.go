package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// dropStates forgets what was remembered of scopes that have no limit any more.
const dropStates = `
delete from {schema}.gate_state s
where not exists (
  select from {schema}.gate g
  where (g.max_running is not null or g.rate_n is not null or g.ordered)
    and (g.scope = s.scope and g.name = s.name or g.scope = 'tenants' and s.scope = 'tenant')
)`

// runningOf finds the jobs that run, and those whose leases have ended but may be renewed, by the scope that $1 says; $2 is its name, "" for each.
const runningOf = `
select case $1 when 'queue' then j.queue::text when 'kind' then j.kind::text else j.tenant::text end as name,
       array_agg(j.id order by j.id)
from {schema}.job j
where j.lease_until is not null and j.claimed_at is not null
  and case $1
    when 'queue' then j.queue = $2
    when 'kind' then j.kind = $2
    when 'tenant' then j.tenant = $2
    else j.tenant <> ''
  end
group by 1
order by 1`

// countRunning has jobs that run already take up places of a limit that was just set. Claims
// that were under way are waited for, as far as that goes quickly.
func (s *Store) countRunning(ctx context.Context, name string, scope later.Scope) error {
	if err := s.awaitClaims(ctx, name); err != nil {
		return err
	}
	type found struct {
		Name string
		IDs  []int64
	}
	rows, err := query(ctx, s, statement{
		name: name, sql: runningOf, args: []any{string(scope.Of), scope.Name}, plain: true,
	}, pgx.RowToStructByPos[found])
	if err != nil {
		return err
	}
	set, err := s.readGates(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b found) int { return cmp.Compare(a.Name, b.Name) })
	for some := range slices.Chunk(rows, maxGates) {
		scopes, ids := make([]later.Scope, len(some)), map[later.Scope][]int64{}
		for i, r := range some {
			scopes[i] = later.Scope{Of: scope.Of, Name: r.Name}
			if scope.Of == later.ScopeTenants {
				scopes[i].Of = later.ScopeTenant
			}
			ids[scopes[i]] = r.IDs
		}
		if err := s.remember(ctx, set, scopes, ids); err != nil {
			return fmt.Errorf("%s: %w", name, s.classify(err))
		}
	}
	return nil
}

// remember adds jobs that run to what is remembered of scopes, which come in order.
func (s *Store) remember(ctx context.Context, set *gateSet, scopes []later.Scope, ids map[later.Scope][]int64) error {
	a, err := s.admit(ctx, set, scopes, nil, true)
	if err != nil {
		return err
	}
	defer a.end(ctx)
	for scope, g := range a.gates {
		for _, id := range ids[scope] {
			if !slices.Contains(g.Running, id) && !slices.Contains(g.ended, id) {
				g.Running, g.let = append(g.Running, id), true
			}
		}
	}
	return a.write(ctx)
}

// claimsDone tells whether every transaction has ended that was writing when $1 was, and every
// statement that sees the table as before it: a claim that has not found a row yet is no writer. (Statements of other
// roles are seen by whoever may read all statistics.)
const claimsDone = `
select txid_snapshot_xmin(txid_current_snapshot()) > $1
  and not exists (
    select
    from pg_stat_activity a
    where a.datname = current_database() and a.pid <> pg_backend_pid() and a.state = 'active'
      and a.backend_type = 'client backend' and age(a.backend_xmin) >= age(($1 % 4294967296)::text::xid))`

// claimsWait bounds how long a new limit waits for claims that were under way. Chosen: far longer
// than a claim takes; a transaction of somebody else's may be open for hours.
const claimsWait = 2 * time.Second

// awaitClaims waits until claims have ended that may not have known of a limit.
func (s *Store) awaitClaims(ctx context.Context, name string) error {
	now, err := query(ctx, s, statement{name: name, sql: "select txid_current()", plain: true}, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < claimsWait && pause(ctx, 20*time.Millisecond); {
		done, err := query(ctx, s, statement{name: name, sql: claimsDone, args: []any{now[0]}, plain: true}, pgx.RowTo[bool])
		if err != nil || done[0] {
			return err
		}
	}
	return ctx.Err()
}

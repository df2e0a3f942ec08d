package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// limitColumns are those of limitRow. The period is in microseconds.
const limitColumns = `g.scope, g.name, g.max_running, g.rate_n, (extract(epoch from g.rate_period) * 1000000)::bigint, g.rate_burst,
  g.ordered, g.on_dead, g.weight, g.set_at, g.set_by`

// limitRow is a limit as it is stored; all is nil where an outer join found none.
type limitRow struct {
	of, name   *string
	maxRunning *int
	n          *int
	period     *int64
	burst      *int
	ordered    *bool
	onDead     *string
	weight     *int
	setAt      *time.Time
	setBy      *string
}

func (r *limitRow) dest() []any {
	return []any{&r.of, &r.name, &r.maxRunning, &r.n, &r.period, &r.burst, &r.ordered, &r.onDead, &r.weight, &r.setAt, &r.setBy}
}

func (r *limitRow) scope() later.Scope {
	if r.of == nil {
		return later.Scope{}
	}
	return later.Scope{Of: later.ScopeOf(*r.of), Name: *r.name}
}

func (r *limitRow) limit() later.Limit {
	l := later.Limit{MaxRunning: r.maxRunning, Ordered: orZero(r.ordered), OnDead: later.OnDead(orZero(r.onDead)), Weight: orZero(r.weight)}
	if r.n != nil {
		l.Rate = later.Rate{N: *r.n, Period: time.Duration(orZero(r.period)) * time.Microsecond, Burst: orZero(r.burst)}
	}
	return l
}

// orZero is what p points to, or the zero value.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// orNil points to v unless it is the zero value.
func orNil[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

const (
	setLimit = `
insert into {schema}.gate as g
  (scope, name, max_running, rate_n, rate_period, rate_burst, ordered, on_dead, weight, set_at, set_by)
values ($1, $2, $3, $4, $5::bigint * interval '1 microsecond', $6, $7, $8, $9, now(), $10)
on conflict (scope, name) do update
set max_running = excluded.max_running,
    rate_n      = excluded.rate_n,
    rate_period = excluded.rate_period,
    rate_burst  = excluded.rate_burst,
    ordered     = excluded.ordered,
    on_dead     = excluded.on_dead,
    weight      = excluded.weight,
    set_at      = excluded.set_at,
    set_by      = excluded.set_by`

	// ratedStates are the scopes whose rates are used up beyond $3 from now, by a limit of $1 and $2.
	ratedStates = `
select distinct s.scope, s.name
from {schema}.gate_state s
where s.tat > now() + $3::bigint * interval '1 microsecond'
  and case $1
    when 'tenants' then s.scope = 'tenant' and not exists (
      select from {schema}.gate g where g.scope = s.scope and g.name = s.name and g.rate_n is not null)
    else s.scope = $1 and s.name = $2
  end
order by s.scope, s.name`

	removeLimit = `
with gone as (
  delete from {schema}.gate g
  where g.scope = $1 and g.name = $2 and g.set_at is not null and g.paused_at is null
  returning true
),
kept as (
  update {schema}.gate g
  set max_running = null, rate_n = null, rate_period = null, rate_burst = null, ordered = false, on_dead = null,
      weight = null, set_at = null, set_by = null
  where g.scope = $1 and g.name = $2 and g.set_at is not null and g.paused_at is not null
  returning true
)
select true from gone union all select true from kept`

	listLimits = `
select ` + limitColumns + `
from {schema}.gate g
where g.set_at is not null
order by g.scope, g.name`
)

// SetLimit implements [later.Limiter]. Where a cap is set, it looks through the whole table for jobs of the
// scope that run, and waits up to two seconds for claims and other transactions that were under way. After an error
// the limit may be set without counting what runs: set it again.
func (s *Store) SetLimit(ctx context.Context, scope later.Scope, limit later.Limit, by string) error {
	if err := later.CheckLimit(scope, limit, by); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	name := fmt.Sprintf("set the limit of %v", scope)
	var period *int64
	if limit.Rate.Period > 0 {
		period = orNil(int64((limit.Rate.Period + time.Microsecond - 1) / time.Microsecond))
	}
	err := s.run(ctx, statement{name: name, sql: setLimit, plain: true, args: []any{
		string(scope.Of), scope.Name, limit.MaxRunning, orNil(limit.Rate.N), period, orNil(limit.Rate.Burst),
		limit.Ordered, orNil(string(limit.OnDead)), orNil(limit.Weight), by,
	}})
	if err != nil {
		return err
	}
	if err := s.fitRates(ctx, name, scope); err != nil {
		return err
	}
	if _, capped := limit.Cap(); !capped {
		return nil
	}
	return s.countRunning(ctx, name, scope)
}

// RemoveLimit implements [later.Limiter].
func (s *Store) RemoveLimit(ctx context.Context, scope later.Scope) error {
	if scope != (later.Scope{Of: later.ScopeTenants}) {
		if err := scope.Check(); err != nil {
			return fmt.Errorf("remove limit: %w", err)
		}
	}
	name := fmt.Sprintf("remove the limit of %v", scope)
	rows, err := query(ctx, s, statement{
		name: name, sql: removeLimit, args: []any{string(scope.Of), scope.Name}, plain: true,
	}, pgx.RowTo[bool])
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("%s: there is none: %w", name, later.ErrNotFound)
	}
	if err := s.fitRates(ctx, name, scope); err != nil {
		return err
	}
	return s.run(ctx, statement{name: name, sql: dropStates, plain: true})
}

// fitRates has what was used of rates fit into the rate that holds for a scope now, which a tenant
// may have from [later.ScopeTenants].
func (s *Store) fitRates(ctx context.Context, name string, scope later.Scope) error {
	set, err := s.readGates(ctx)
	if err != nil {
		return err
	}
	rate := set.limits.Of(scope).Rate
	if rate == (later.Rate{}) {
		return nil
	}
	burst := time.Duration(max(rate.Burst, 1)) * rate.Every()
	used, err := query(ctx, s, statement{
		name: name, sql: ratedStates, args: []any{string(scope.Of), scope.Name, micros(burst)}, plain: true,
	}, pgx.RowToStructByPos[later.Scope])
	if err != nil {
		return err
	}
	for some := range slices.Chunk(used, maxGates) {
		if err := s.fit(ctx, set, some); err != nil {
			return fmt.Errorf("%s: %w", name, s.classify(err))
		}
	}
	return nil
}

// fit has what was used of the rates of scopes, which come in order, fit into those of now. It has their
// locks: a claim that still goes by the old rate would write what it knows.
func (s *Store) fit(ctx context.Context, set *gateSet, scopes []later.Scope) error {
	a, err := s.admit(ctx, set, scopes, nil, true)
	if err != nil {
		return err
	}
	defer a.end(ctx)
	for _, g := range a.gates {
		before := g.TAT
		g.Fit(g.now)
		g.let = !g.TAT.Equal(before)
	}
	return a.write(ctx)
}

// Limits implements [later.Limiter].
func (s *Store) Limits(ctx context.Context) ([]later.ScopeLimit, error) {
	return query(ctx, s, statement{name: "list the limits", sql: listLimits, plain: true},
		func(row pgx.CollectableRow) (later.ScopeLimit, error) {
			var r limitRow
			err := row.Scan(r.dest()...)
			return later.ScopeLimit{Scope: r.scope(), Limit: r.limit(), Since: timeOrZero(r.setAt), By: orZero(r.setBy)}, err
		})
}

// Standing implements [later.Limiter].
func (s *Store) Standing(ctx context.Context, scope later.Scope) (later.Standing, error) {
	if err := scope.Check(); err != nil {
		return later.Standing{}, fmt.Errorf("standing: %w", err)
	}
	set, err := s.readGates(ctx)
	if err != nil {
		return later.Standing{}, fmt.Errorf("standing of %v: %w", scope, err)
	}
	standing := later.Standing{Limit: set.limits.Of(scope)}
	if most := standing.Limit.MaxRunning; most != nil {
		standing.Limit.MaxRunning = new(*most) // what the store knows is not the caller's
	}
	if !standing.Limit.Holds() {
		return standing, nil
	}
	gates, err := s.standings(ctx, set, []later.Scope{scope}, nil)
	if err != nil {
		return later.Standing{}, fmt.Errorf("standing of %v: %w", scope, err)
	}
	g := gates[scope]
	standing.Running = slices.Sorted(slices.Values(g.Running))
	standing.NextStart = g.Next(g.now)
	return standing, nil
}

package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/admit"
)

const (
	// Parameters: scope, name, now, by, and limitColumns.
	upsertLimit = `
insert into later_gate (scope, name, set_at, set_by, ` + limitColumns + `)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
on conflict (scope, name) do update
set set_at = excluded.set_at, set_by = excluded.set_by,
  max_running = excluded.max_running, rate_n = excluded.rate_n, rate_period_us = excluded.rate_period_us,
  rate_burst = excluded.rate_burst, ordered = excluded.ordered, on_dead = excluded.on_dead, weight = excluded.weight`

	// A pause of the scope stays.
	updateUnlimited = `
update later_gate
set set_at = null, set_by = null, max_running = null, rate_n = null, rate_period_us = null,
  rate_burst = 0, ordered = 0, on_dead = '', weight = 0
where scope = ? and name = ? and set_at is not null`

	selectLimits = `
select scope, name, set_at, set_by, ` + limitColumns + `
from later_gate
where set_at is not null
order by scope, name`
)

// SetLimit implements [later.Limiter]. If the scope had no cap before, the jobs that run in it
// are looked for once: that reads all jobs, and keeps nobody waiting.
func (s *Store) SetLimit(ctx context.Context, scope later.Scope, limit later.Limit, by string) error {
	if err := later.CheckLimit(scope, limit, by); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	var missing bool
	err := s.writer.do(ctx, 1, func(tx *writeTx) error {
		return s.changeLimits(tx, scope, false, func(now int64) error {
			_, err := tx.exec(upsertLimit, append([]any{string(scope.Of), scope.Name, now, by}, limitArgs(limit)...)...)
			return err
		}, &missing)
	})
	if err == nil && missing {
		err = s.collect(ctx, scope)
	}
	if err != nil {
		return fmt.Errorf("set limit of %v: %w", scope, err)
	}
	return nil
}

// RemoveLimit implements [later.Limiter].
func (s *Store) RemoveLimit(ctx context.Context, scope later.Scope) error {
	if scope != (later.Scope{Of: later.ScopeTenants}) {
		if err := scope.Check(); err != nil {
			return fmt.Errorf("remove limit: %w", err)
		}
	}
	var missing bool
	err := s.writer.do(ctx, 1, func(tx *writeTx) error {
		return s.changeLimits(tx, scope, true, func(int64) error {
			result, err := tx.exec(updateUnlimited, string(scope.Of), scope.Name)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err == nil && n == 0 {
				err = fmt.Errorf("it has none: %w", later.ErrNotFound)
			}
			if err != nil {
				return err
			}
			_, err = tx.exec(deleteIdleGate, string(scope.Of), scope.Name)
			return err
		}, &missing)
	})
	if err == nil && missing { // another limit holds now
		err = s.collect(ctx, scope)
	}
	if err != nil {
		return fmt.Errorf("remove limit of %v: %w", scope, err)
	}
	return nil
}

// changeLimits runs a change of a scope's limit, and has what is remembered fit the limits as
// they are then; what was used of a rate is forgotten with a limit that is removed. missing is set if the jobs that run in the scope are not among it.
func (s *Store) changeLimits(tx *writeTx, scope later.Scope, removes bool, change func(now int64) error, missing *bool) error {
	now, err := tx.now()
	if err != nil {
		return err
	}
	before, err := s.gatesOf(tx)
	if err != nil {
		return err
	}
	if err := change(now); err != nil {
		return err
	}
	s.held.limits()
	tx.wake(anyQueue)
	after, err := s.gatesOf(tx)
	if err != nil {
		return err
	}
	was, is := before.limits.Of(scope), after.limits.Of(scope)
	_, capped := is.Cap()
	_, wasCapped := was.Cap()
	*missing = capped && !wasCapped
	return fitStates(tx, scope, removes, before.limits, after.limits, now)
}

const (
	// Parameters: scope, name or null for all.
	selectStatesToFit = `
select scope, name, tat_us, (
  select json_group_array(j.id)
  from json_each(s.running) let_in
  cross join later_job j on j.id = let_in.value
  where j.lease_until is not null and j.lease_token <> 0), running
from later_gate_state s
where scope = ?1 and (?2 is null or name = ?2)`

	deleteGateState = `delete from later_gate_state where scope = ? and name = ?`
)

// fitStates has the states of a scope, or of all tenants, fit the limits that hold now.
func fitStates(tx transaction, scope later.Scope, removed bool, before, after *admit.Limits, now int64) error {
	of, name := scope.Of, any(scope.Name)
	if of == later.ScopeTenants {
		of, name = later.ScopeTenant, nil
	}
	type state struct {
		scope           later.Scope
		tat             *int64
		leased, running []int64
	}
	var states []state
	rows, err := tx.query(selectStatesToFit, string(of), name)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var one state
		var leased, running string
		if err := rows.Scan(&one.scope.Of, &one.scope.Name, &one.tat, &leased, &running); err != nil {
			return err
		}
		err := firstOf(json.Unmarshal([]byte(leased), &one.leased), json.Unmarshal([]byte(running), &one.running))
		if err != nil {
			return err
		}
		states = append(states, one)
	}
	if err := firstOf(rows.Err(), rows.Close()); err != nil {
		return err
	}
	var fit []any
	for _, one := range states {
		limit := after.Of(one.scope)
		if !limit.Holds() {
			if _, err := tx.exec(deleteGateState, string(one.scope.Of), one.scope.Name); err != nil {
				return err
			}
			continue
		}
		g := admit.Gate{Limit: limit}
		if one.tat != nil && limit.Rate != (later.Rate{}) && !(removed && one.scope == scope) {
			g.TAT = time.UnixMicro(*one.tat)
			g.Fit(toTime(now))
		}
		_, capped := limit.Cap()
		switch {
		case !capped:
			one.leased = nil
		case limit.Ordered && before.Of(one.scope).Ordered: // the heads stay, whether they run or not
			one.leased = one.running
		}
		fit = append(fit, stateRow(one.scope, one.leased, g.TAT))
	}
	return saveStates(tx, fit)
}

const (
	// selectLeased reads all jobs. Parameters: scope, name.
	selectLeased = `
select id
from later_job
where lease_until is not null and lease_token <> 0
  and case ?1 when 'queue' then queue = ?2 when 'kind' then kind = ?2 when 'tenant' then tenant = ?2 else tenant <> '' end
order by claimed_at, id`

	// selectStillLeased are the places of jobs. Parameters: ids as JSON.
	selectStillLeased = `
select j.id, j.queue, j.kind, j.tenant
from json_each(?1) wanted
cross join later_job j on j.id = wanted.value
where j.lease_until is not null and j.lease_token <> 0`

	// Parameters: scope, names.
	selectLetIn = `
select s.name, s.tat_us, s.running
from json_each(?2) wanted
cross join later_gate_state s on s.scope = ?1 and s.name = cast(unhex(wanted.value) as text)`
)

// collect has those jobs count that ran before a scope had its cap. It looks for them after the
// cap has been stored, so that whatever is claimed later counts by itself, and outside of the
// writer's transaction, because it takes long where there are many jobs.
func (s *Store) collect(ctx context.Context, scope later.Scope) error {
	ids, err := readIDs(s.reader(ctx), selectLeased, string(scope.Of), scope.Name)
	if err != nil || len(ids) == 0 {
		return explain(err)
	}
	return s.writer.do(ctx, len(ids), func(tx *writeTx) error {
		rows, err := tx.query(selectStillLeased, jsonIDs(ids))
		if err != nil {
			return err
		}
		defer rows.Close()
		leased := map[string][]int64{} // by the scope's name
		for rows.Next() {
			var id int64
			var queue, kind, tenant string
			if err := rows.Scan(&id, &queue, &kind, &tenant); err != nil {
				return err
			}
			name := map[later.ScopeOf]string{later.ScopeQueue: queue, later.ScopeKind: kind}[scope.Of]
			if name == "" {
				name = tenant
			}
			leased[name] = append(leased[name], id)
		}
		if err := firstOf(rows.Err(), rows.Close()); err != nil {
			return err
		}
		gates, err := s.gatesOf(tx)
		if err != nil {
			return err
		}
		return addLetIn(tx, scope, leased, gates.limits)
	})
}

// addLetIn adds jobs to those that scopes have let in, in front: they are older.
func addLetIn(tx transaction, scope later.Scope, leased map[string][]int64, limits *admit.Limits) error {
	of := scope.Of
	if of == later.ScopeTenants {
		of = later.ScopeTenant
	}
	var names []string
	for name := range leased {
		if _, capped := limits.Of(later.Scope{Of: of, Name: name}).Cap(); capped {
			names = append(names, name)
		}
	}
	rows, err := tx.query(selectLetIn, string(of), jsonNames(names))
	if err != nil {
		return err
	}
	defer rows.Close()
	tats := map[string]time.Time{}
	for rows.Next() {
		var name, running string
		var tat *int64
		if err := rows.Scan(&name, &tat, &running); err != nil {
			return err
		}
		var ids []int64
		if err := json.Unmarshal([]byte(running), &ids); err != nil {
			return err
		}
		fresh := slices.DeleteFunc(leased[name], func(id int64) bool { return slices.Contains(ids, id) })
		leased[name] = append(fresh, ids...)
		if tat != nil {
			tats[name] = time.UnixMicro(*tat)
		}
	}
	if err := firstOf(rows.Err(), rows.Close()); err != nil {
		return err
	}
	var states []any
	for _, name := range names {
		states = append(states, stateRow(later.Scope{Of: of, Name: name}, leased[name], tats[name]))
	}
	return saveStates(tx, states)
}

package sqlite

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// Names are passed to SQL as JSON of their bytes in hexadecimal: a tenant that was written by
// hand may be no text that JSON can carry.
const (
	// selectGateStates reads, for each gate, one job by its key for each place that is filled.
	//
	// Parameters: scope, names, now.
	selectGateStates = `
select s.name, s.tat_us, s.running, (
  select json_array(
    json_group_array(j.id) filter (where j.lease_until >= ?3),
    json_group_array(j.id) filter (where j.lease_until < ?3 and j.lease_token <> 0))
  from json_each(s.running) let_in
  cross join later_job j on j.id = let_in.value)
from json_each(?2) wanted
cross join later_gate_state s on s.scope = ?1 and s.name = cast(unhex(wanted.value) as text)`

	// selectHeads finds what has become of jobs. Parameters: ids as JSON, now.
	selectHeads = `
select wanted.value, j.run_at, j.lease_until is not null and j.lease_until >= ?2,
  exists (select 1 from later_dead_job d where d.id = wanted.value)
from json_each(?1) wanted
left join later_job j on j.id = wanted.value`

	// Parameters: a list of scope, name, running and tat_us of each, as JSON.
	upsertGateStates = `
insert into later_gate_state (scope, name, running, tat_us)
select value ->> 0, cast(unhex(value ->> 1) as text), value -> 2, value ->> 3
from json_each(?1)
where true
on conflict (scope, name) do update
set running = excluded.running, tat_us = excluded.tat_us`

	// updateFenced has the workers of jobs lose their leases for good: 0 is nobody's token.
	//
	// Parameters: ids as JSON, now.
	updateFenced = `
update later_job
set lease_token = 0
where id in (select value from json_each(?1)) and lease_until < ?2`
)

// load reads the gates of scopes that have not been looked at yet.
func (a *admission) load(of later.ScopeOf, names ...string) error {
	var fresh []string
	for _, name := range names {
		scope := later.Scope{Of: of, Name: name}
		if _, known := a.gates[scope]; known {
			continue
		}
		limit := a.limits.Of(scope)
		if !limit.Holds() || of == later.ScopeTenant && name == "" {
			a.gates[scope] = nil
			continue
		}
		g := &gateState{scope: scope}
		g.Limit = limit
		a.gates[scope] = g
		fresh = append(fresh, name)
	}
	if len(fresh) == 0 {
		return nil
	}
	begun, err := a.readStates(of, fresh)
	if err != nil {
		return err
	}
	return a.readHeads(begun)
}

// readStates reads the gates of names. It returns which jobs the ordered ones have let in.
func (a *admission) readStates(of later.ScopeOf, names []string) (begun map[int64]*gateState, err error) {
	rows, err := a.q.query(selectGateStates, string(of), jsonNames(names), a.now)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	begun = map[int64]*gateState{}
	for rows.Next() {
		var name, running, leased string
		var tat *int64
		if err := rows.Scan(&name, &tat, &running, &leased); err != nil {
			return nil, err
		}
		g := a.gate(of, name)
		if tat != nil {
			g.TAT = time.UnixMicro(*tat)
		}
		if _, limited := g.Limit.Cap(); !limited {
			continue
		}
		if err := json.Unmarshal([]byte(leased), &[]any{&g.busy, &g.lost}); err != nil {
			return nil, err
		}
		if !g.Limit.Ordered {
			g.Running = slices.Clone(g.busy)
			continue
		}
		var ids []int64
		if err := json.Unmarshal([]byte(running), &ids); err != nil {
			return nil, err
		}
		for _, id := range ids {
			begun[id] = g
		}
	}
	return begun, rows.Err()
}

// readHeads completes ordered gates: what has begun there holds back the others until it has
// ended, whether it runs or not.
func (a *admission) readHeads(begun map[int64]*gateState) error {
	if len(begun) == 0 {
		return nil
	}
	rows, err := a.q.query(selectHeads, jsonIDs(slices.Sorted(maps.Keys(begun))), a.now)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var runAt *int64
		var runs, dead bool
		if err := rows.Scan(&id, &runAt, &runs, &dead); err != nil {
			return err
		}
		g := begun[id]
		switch {
		case runs:
		case runAt != nil:
			g.heads = append(g.heads, head{id: id, runAt: *runAt})
		case dead && g.Limit.OnDead == later.DeadBlocks:
			g.heads = append(g.heads, head{id: id, dead: true})
		default:
			continue
		}
		g.Running = append(g.Running, id)
	}
	return rows.Err()
}

// save stores what was let in, and fences those whose places were given to it.
func (a *admission) save(tx transaction) error {
	var states []any
	var fenced []int64
	for _, g := range a.gates {
		if g == nil || !g.let {
			continue
		}
		if most, limited := g.Limit.Cap(); limited && g.gave {
			over := min(max(len(g.busy)+len(g.lost)-most, 0), len(g.lost))
			fenced = append(fenced, g.lost[:over]...)
			g.lost = g.lost[over:]
		}
		g.let, g.gave = false, false
		running := g.Running
		if !g.Limit.Ordered {
			running = slices.Concat(g.lost, running)
		}
		states = append(states, stateRow(g.scope, running, g.TAT))
	}
	if len(fenced) > 0 {
		if _, err := tx.exec(updateFenced, jsonIDs(fenced), a.now); err != nil {
			return err
		}
	}
	return saveStates(tx, states)
}

// stateRow is a row for saveStates.
func stateRow(scope later.Scope, running []int64, tat time.Time) any {
	if running == nil {
		running = []int64{} // and not null
	}
	row := []any{scope.Of, hex.EncodeToString([]byte(scope.Name)), running, nil}
	if !tat.IsZero() {
		row[3] = tat.UnixMicro()
	}
	return row
}

func saveStates(tx transaction, states []any) error {
	if len(states) == 0 {
		return nil
	}
	list, err := json.Marshal(states)
	if err != nil {
		return err
	}
	_, err = tx.exec(upsertGateStates, string(list))
	return err
}

// jsonNames is a list of names as a parameter.
func jsonNames(names []string) string {
	text := []byte{'['}
	for i, name := range names {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '"')
		text = hex.AppendEncode(text, []byte(name))
		text = append(text, '"')
	}
	return string(append(text, ']'))
}

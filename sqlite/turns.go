package sqlite

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/later-queue/later"
)

// The tenants of a level that a claim looks at come from two lists, each in the order of
// their bytes, from a first tenant on:
//
//   - lanesAtOnce are those that have jobs which were due at once, and the empty one: a
//     loose scan over later_job_tenants.
//   - lanesDue are those that have jobs which were scheduled, retried or put off, and
//     have become due: all such jobs are read, from later_job_scheduled. Where there
//     are too many, these tenants are remembered: see [dueTenants].
//
// Together they have all that have something to claim, and a tenant whose jobs are all
// to come costs nothing. A list of all that have any job, due or not, is lanesAll: a loose
// scan over later_job_ready, that goes past each tenant in some 4 µs. A claim for certain
// tenants has a list of its own: lanesNamed.
//
// Parameters: queue, kinds as JSON, priority, now, SuspectCrashes, the first
// tenant, the last one (null: all), tenants wanted, share; and the names for the last one.
const (
	selectTurnsAtOnce = wantedKinds + lanesAtOnce + turnsOfLanes
	selectTurnsDue    = wantedKinds + lanesDue + turnsOfLanes
	selectTurnsNamed  = wantedKinds + lanesNamed + turnsOfLanes

	wantedKinds = `
with recursive wanted (kind) as materialized (
  select value from json_each(?2)
),`

	lanesAtOnce = `
lane (tenant) as (
  select case when ?6 = '' then '' else (
    select min((
      select j.tenant
      from later_job j indexed by later_job_tenants
      where j.queue = ?1 and j.kind = wanted.kind and j.priority = ?3 and j.tenant >= ?6
        and j.tenant <> '' and j.run_at <= j.created_at
      order by j.tenant
      limit 1))
    from wanted) end
  union all
  select (
    select min((
      select j.tenant
      from later_job j indexed by later_job_tenants
      where j.queue = ?1 and j.kind = wanted.kind and j.priority = ?3 and j.tenant > lane.tenant
        and j.tenant <> '' and j.run_at <= j.created_at
      order by j.tenant
      limit 1))
    from wanted)
  from lane
  where lane.tenant is not null and (?7 is null or lane.tenant < ?7)
)`

	// The limit is above what there is: see maxDue.
	lanesDue = `
lane (tenant) as (
  select distinct j.tenant
  from wanted
  cross join later_job j indexed by later_job_scheduled
  where j.queue = ?1 and j.kind = wanted.kind and j.run_at <= ?4 and j.run_at > j.created_at
    and j.priority = ?3 and j.tenant >= ?6
  order by j.tenant
  limit 1000000
)`

	lanesAll = `
lane (tenant) as (
  select (
    select min((
      select j.tenant
      from later_job j indexed by later_job_ready
      where j.queue = ?1 and j.kind = wanted.kind and j.priority = ?3 and j.tenant >= ?6
      order by j.tenant
      limit 1))
    from wanted)
  union all
  select (
    select min((
      select j.tenant
      from later_job j indexed by later_job_ready
      where j.queue = ?1 and j.kind = wanted.kind and j.priority = ?3 and j.tenant > lane.tenant
      order by j.tenant
      limit 1))
    from wanted)
  from lane
  where lane.tenant is not null and (?7 is null or lane.tenant < ?7)
)`

	// The limit keeps the order.
	lanesNamed = `
lane (tenant) as (
  select distinct cast(unhex(value) as text) as name
  from json_each(?10)
  where name >= ?6 and (?7 is null or name <= ?7)
  order by name
  limit 1000000
)`

	// turnsOfLanes lists the places of the first claimable jobs of each lane, at
	// most share of each kind, and ends when it has seen as many tenants as are
	// wanted that have any.
	turnsOfLanes = `
select turn.tenant, j.id, j.run_at, j.kind, octet_length(j.payload)
from (
  select lane.tenant
  from lane
  where lane.tenant is not null and (?7 is null or lane.tenant <= ?7)
    and not exists (
      select 1 from later_gate g where g.scope = 'tenant' and g.name = lane.tenant and g.paused_at is not null)
    and exists (
    select 1
    from wanted
    cross join later_job head indexed by later_job_ready
    where head.queue = ?1 and head.kind = wanted.kind and head.priority = ?3 and head.tenant = lane.tenant
      and run_at <= ?4
      and ` + isClaimable + `)
  limit ?8
) turn
cross join wanted
cross join later_job j on j.id in (
  select head.id
  from later_job head indexed by later_job_ready
  where head.queue = ?1 and head.kind = wanted.kind and head.priority = ?3 and head.tenant = turn.tenant
    and run_at <= ?4
    and ` + isClaimable + `
  order by head.run_at, head.id
  limit ?9)`
)

// countDue counts the jobs that have become due and have not ended, as far as
// maxDue. Parameters: queue, kinds as JSON, now, maxDue.
const countDue = `
select count(*)
from (
  select 1
  from json_each(?2) wanted
  cross join later_job j indexed by later_job_scheduled
  where j.queue = ?1 and j.kind = wanted.value and j.run_at <= ?3 and j.run_at > j.created_at
  limit ?4)`

// maxDue is how many jobs lanesDue may read. Chosen: at about 1 µs a job that is
// less than what a claim of a hundred jobs takes.
const maxDue = 1000

// turn is a tenant's part in a claim of a level.
type turn struct {
	tenant string
	jobs   []candidate // the first that it can have, in their order
	more   bool        // there may be more of them
}

// readShared returns limit jobs of a level with several tenants, or as many as
// there are: one of each tenant in turn, beginning behind the one at which the last
// claim ended. How many of each that takes is known when it is known how many
// tenants there are and what they have, so it may read the places of the jobs
// several times, each time of at least twice as many of each tenant.
func (s *Store) readShared(tx transaction, l level, key turnKey, limit int, budget *budget, now int64) ([]*claimedRow, error) {
	kinds, err := json.Marshal(l.kinds)
	if err != nil {
		return nil, err
	}
	walk, err := s.walkLevel(tx, l, string(kinds), nil, now)
	if err != nil {
		return nil, err
	}
	mark, marked := s.turns.latest(key)
	for share := 1; ; {
		turns, err := walk.read(mark.tenant, marked, limit, share)
		if err != nil {
			return nil, err
		}
		left := budget.copy()
		ids, last := deal(turns, limit, left)
		more := 0
		for _, t := range turns {
			if t.more {
				more++
			}
		}
		if missing := limit - len(ids); missing > 0 && more > 0 && !left.spent() {
			share = max(2*share, share+(missing+more-1)/more)
			continue
		}
		if len(ids) == 0 {
			return nil, nil
		}
		s.turns.ended(key, turnMark{tenant: last})
		budget.set(left)
		return readByID(tx, ids)
	}
}

// walk goes through the tenants of a level that have something to claim.
type walk struct {
	tx    transaction
	level level
	kinds string // as JSON
	names any    // of the only tenants that are wanted, as JSON; nil: all
	now   int64
	lists []string    // the statements that together have all of them
	due   *dueTenants // and the tenants of this list; nil: there is none
}

// walkLevel is a walk through a level. It is for the kinds named, or fewer.
func (s *Store) walkLevel(tx transaction, l level, kinds string, names any, now int64) (walk, error) {
	w := walk{tx: tx, level: l, kinds: kinds, names: names, now: now, lists: []string{selectTurnsAtOnce}}
	if names != nil {
		w.lists = []string{selectTurnsNamed}
		return w, nil
	}
	var due int
	err := tx.queryRow(countDue, l.queue, kinds, now, maxDue).Scan(&due)
	switch {
	case err != nil || due == 0:
	case due < maxDue:
		w.lists = append(w.lists, selectTurnsDue)
	default:
		w.due, err = s.dueTenantsOf(w)
	}
	return w, err
}

// read returns at most limit tenants in the order of their turns, with the first share jobs of
// each.
func (w walk) read(mark string, marked bool, limit, share int) ([]turn, error) {
	var turns []turn
	var err error
	if !marked {
		turns, err = w.between("", nil, limit, share)
	} else {
		// No tenant is between a name and the same name with a NUL.
		turns, err = w.between(mark+"\x00", nil, limit, share)
		if err == nil && len(turns) < limit {
			var before []turn
			before, err = w.between("", mark, limit-len(turns), share)
			turns = append(turns, before...)
		}
	}
	for i := range turns {
		turns[i].cut(share)
	}
	return turns, err
}

// between returns at most limit tenants from first to last, which may be nil for all, with the
// first share jobs of each kind of each.
func (w walk) between(first string, last any, limit, share int) ([]turn, error) {
	var turns []turn
	args := []any{w.level.queue, w.kinds, w.level.priority, w.now, later.SuspectCrashes, first, last, limit, share}
	if w.names != nil {
		args = append(args, w.names)
	}
	for _, list := range w.lists {
		more, err := readTurns(w.tx, list, args...)
		if err != nil {
			return nil, err
		}
		turns = append(turns, more...)
	}
	if w.due != nil {
		more, err := w.due.between(w, first, last, limit, share)
		if err != nil {
			return nil, err
		}
		turns = append(turns, more...)
	}
	if len(w.lists) > 1 || w.due != nil { // a tenant may be on both, each time with the same jobs
		slices.SortFunc(turns, func(a, b turn) int { return strings.Compare(a.tenant, b.tenant) })
		turns = slices.CompactFunc(turns, func(a, b turn) bool { return a.tenant == b.tenant })
	}
	return turns[:min(len(turns), limit)], nil
}

// readTurns runs one of the statements above.
func readTurns(tx transaction, query string, args ...any) ([]turn, error) {
	rows, err := tx.query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var turns []turn
	for rows.Next() {
		var tenant string
		var c candidate
		if err := rows.Scan(&tenant, &c.id, &c.runAt, &c.kind, &c.bytes); err != nil {
			return nil, err
		}
		if n := len(turns); n == 0 || turns[n-1].tenant != tenant {
			turns = append(turns, turn{tenant: tenant})
		}
		t := &turns[len(turns)-1]
		t.jobs = append(t.jobs, c)
	}
	return turns, rows.Err()
}

// cut sorts the jobs and leaves the first share of them: of each kind no more
// than that were read, so those behind them may not be the next.
func (t *turn) cut(share int) {
	slices.SortFunc(t.jobs, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.runAt, b.runAt), cmp.Compare(a.id, b.id))
	})
	t.more = len(t.jobs) >= share
	t.jobs = t.jobs[:min(len(t.jobs), share)]
}

// deal takes one job of each tenant in turn until it has limit, or all that budget
// allows. last is the tenant of the last one.
func deal(turns []turn, limit int, budget *budget) (ids []int64, last string) {
	left := slices.Clone(turns)
	for round := 0; len(left) > 0; round++ {
		more := left[:0]
		for _, t := range left {
			if len(ids) == limit || budget.spent() {
				return ids, last
			}
			ids, last = append(ids, t.jobs[round].id), t.tenant
			budget.spend(t.jobs[round].bytes)
			if len(t.jobs) > round+1 {
				more = append(more, t)
			}
		}
		left = more
	}
	return ids, last
}

// turnKey is where tenants take turns: each set of kinds has its own turns.
type turnKey struct {
	queue    string
	kinds    string
	priority int64
}

// maxTurns is how many levels a store remembers the turn of, some hundred bytes
// each; then it forgets them all. Chosen: far more than a worker claims from.
const maxTurns = 100_000

// turnMark is where the turns of a level have come to: the tenant that was last.
type turnMark struct {
	tenant string
	had    int // how many jobs it has had in its turn, if that is not over; else 0
}

// turnMarks remember at which tenants the claims of this process have ended. Only
// the writer's goroutine uses them. A claim whose transaction fails has moved them
// all the same: its tenants have their turn again after one round.
type turnMarks map[turnKey]turnMark

func (m turnMarks) latest(key turnKey) (mark turnMark, ok bool) {
	mark, ok = m[key]
	return mark, ok
}

func (m turnMarks) ended(key turnKey, mark turnMark) {
	if len(m) >= maxTurns {
		clear(m)
	}
	m[key] = mark
}

package sqlite

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/later-queue/later"
)

// selectTurns lists the places of the first claimable jobs of the tenants of a
// level: a loose scan over later_job_ready, from the first tenant on until it has
// seen as many as are wanted that have any. It comes to the tenants in the order
// of their bytes, and lists at most share jobs of each kind of each.
//
// A tenant with nothing to claim (its jobs are scheduled, or they run) costs two
// probes for each kind. An index of those that have something does not exist,
// because what is due changes by itself; so a level in which 10,000 tenants have
// scheduled jobs only costs that for each of them when a claim goes past them.
//
// Parameters: queue, kinds as JSON, priority, now, SuspectCrashes, the first
// tenant, the last one (null: all), tenants wanted, share.
const selectTurns = `
with recursive wanted (kind) as materialized (
  select value from json_each(?2)
),
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
)
select turn.tenant, j.id, j.run_at
from (
  select lane.tenant
  from lane
  where lane.tenant is not null and (?7 is null or lane.tenant <= ?7) and exists (
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
func (s *Store) readShared(tx transaction, l level, key turnKey, limit int, now int64) ([]*claimedRow, error) {
	for share := 1; ; {
		turns, err := s.readTurns(tx, l, key, limit, share, now)
		if err != nil {
			return nil, err
		}
		ids, last := deal(turns, limit)
		more := 0
		for _, t := range turns {
			if t.more {
				more++
			}
		}
		if missing := limit - len(ids); missing > 0 && more > 0 {
			share = max(2*share, share+(missing+more-1)/more)
			continue
		}
		if len(ids) == 0 {
			return nil, nil
		}
		s.turns.ended(key, last)
		return readClaimed(tx.query(selectByID, jsonIDs(ids)))
	}
}

// readTurns returns the tenants that have something to claim, in the order of
// their turns, at most limit of them, with at most share jobs each.
func (s *Store) readTurns(tx transaction, l level, key turnKey, limit, share int, now int64) ([]turn, error) {
	kinds, err := json.Marshal(l.kinds)
	if err != nil {
		return nil, err
	}
	read := func(turns []turn, first string, last any) ([]turn, error) {
		if len(turns) >= limit {
			return turns, nil
		}
		return appendTurns(turns, tx, share, l.queue, string(kinds), l.priority, now, later.SuspectCrashes, first, last, limit-len(turns), share)
	}
	latest, ok := s.turns.latest(key)
	if !ok {
		return read(nil, "", nil)
	}
	// No tenant is between a name and the same name with a NUL.
	turns, err := read(nil, latest+"\x00", nil)
	if err != nil {
		return nil, err
	}
	return read(turns, "", latest)
}

// appendTurns runs selectTurns with args.
func appendTurns(turns []turn, tx transaction, share int, args ...any) ([]turn, error) {
	rows, err := tx.query(selectTurns, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	begin := len(turns)
	for rows.Next() {
		var tenant string
		var c candidate
		if err := rows.Scan(&tenant, &c.id, &c.runAt); err != nil {
			return nil, err
		}
		if n := len(turns); n == begin || turns[n-1].tenant != tenant {
			turns = append(turns, turn{tenant: tenant})
		}
		t := &turns[len(turns)-1]
		t.jobs = append(t.jobs, c)
	}
	for i := begin; i < len(turns); i++ {
		turns[i].cut(share)
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

// deal takes one job of each tenant in turn until it has limit, or all. last is
// the tenant of the last one.
func deal(turns []turn, limit int) (ids []int64, last string) {
	left := slices.Clone(turns)
	for round := 0; len(left) > 0; round++ {
		more := left[:0]
		for _, t := range left {
			if len(ids) == limit {
				return ids, last
			}
			ids, last = append(ids, t.jobs[round].id), t.tenant
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

// turnMarks remember at which tenants the claims of this process have ended. Only
// the writer's goroutine uses them. A claim whose transaction fails has moved them
// all the same: its tenants have their turn again after one round.
type turnMarks map[turnKey]string

func (m turnMarks) latest(key turnKey) (tenant string, ok bool) {
	tenant, ok = m[key]
	return tenant, ok
}

func (m turnMarks) ended(key turnKey, tenant string) {
	if len(m) >= maxTurns {
		clear(m)
	}
	m[key] = tenant
}

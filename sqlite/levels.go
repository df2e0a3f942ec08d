package sqlite

import "slices"

// selectLevels lists the levels of a queue, each kind by itself, best priority
// first, with the first tenant there, whether its first job is due, and whether
// there is another tenant: a loose scan over later_job_ready, with three probes
// for each that there is, whatever waits in it. "union" and not "union all",
// because a kind that is named twice is one.
//
// Parameters: queue, kinds as JSON, now.
const selectLevels = `
with recursive level (kind, priority, tenant, run_at) as (
  select wanted.value, j.priority, j.tenant, j.run_at
  from json_each(?2) wanted
  cross join later_job j on j.id = (
    select head.id
    from later_job head indexed by later_job_ready
    where head.queue = ?1 and head.kind = wanted.value
    order by head.priority, head.tenant, head.run_at
    limit 1)
  union
  select level.kind, j.priority, j.tenant, j.run_at
  from level
  cross join later_job j on j.id = (
    select head.id
    from later_job head indexed by later_job_ready
    where head.queue = ?1 and head.kind = level.kind and head.priority > level.priority
    order by head.priority, head.tenant, head.run_at
    limit 1)
)
select level.priority, level.kind, level.tenant, level.run_at <= ?3, exists (
  select 1
  from later_job j indexed by later_job_ready
  where j.queue = ?1 and j.kind = level.kind and j.priority = level.priority and j.tenant > level.tenant)
from level
order by level.priority, level.kind`

// level is one (queue, priority) with something to look at for a claim.
type level struct {
	queue    string
	priority int64
	kinds    []string // in which there is something
	tenant   string   // the only one, unless the level is shared
	shared   bool     // by tenants
}

// readLevels returns the levels of a queue in which a job may be due, best
// priority first.
func readLevels(tx transaction, queue, kinds string, now int64) ([]level, error) {
	rows, err := tx.query(selectLevels, queue, kinds, now)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var levels []level
	for rows.Next() {
		var priority int64
		var kind, tenant string
		var due, shared bool
		if err := rows.Scan(&priority, &kind, &tenant, &due, &shared); err != nil {
			return nil, err
		}
		if !due && !shared {
			continue
		}
		if n := len(levels); n > 0 && levels[n-1].priority == priority {
			l := &levels[n-1]
			l.kinds = append(l.kinds, kind)
			l.shared = l.shared || shared || l.tenant != tenant
			continue
		}
		levels = append(levels, level{queue: queue, priority: priority, kinds: []string{kind}, tenant: tenant, shared: shared})
	}
	return levels, rows.Err()
}

// claimable returns at most limit jobs of a queue that may be claimed: by
// priority, and of a priority as its tenants' turns come; none of tenants that are
// paused. The caller sorts them.
func (s *Store) claimable(tx transaction, queue, kinds string, paused []string, fromLowest bool, limit int, budget *budget, now int64) ([]*claimedRow, error) {
	if limit <= 0 {
		return nil, nil
	}
	levels, err := readLevels(tx, queue, kinds, now)
	if err != nil {
		return nil, err
	}
	if fromLowest {
		slices.Reverse(levels)
	}
	var list []*claimedRow
	for _, l := range levels {
		if len(list) >= limit || budget.spent() {
			break
		}
		if !l.shared && slices.Contains(paused, l.tenant) {
			continue
		}
		more, err := s.readLevel(tx, l, kinds, limit-len(list), budget, now)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// readLevel returns at most limit jobs of a level, and moves the turn on. kinds
// are those that the claim wants, which have turns of their own.
func (s *Store) readLevel(tx transaction, l level, kinds string, limit int, budget *budget, now int64) ([]*claimedRow, error) {
	key := turnKey{l.queue, kinds, l.priority}
	if l.shared {
		return s.readShared(tx, l, key, limit, budget, now)
	}
	list, err := readLane(tx, l, limit, budget, now)
	if err == nil && len(list) > 0 {
		s.turns.ended(key, turnMark{tenant: l.tenant})
	}
	return list, err
}

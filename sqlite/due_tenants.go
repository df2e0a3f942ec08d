package sqlite

import (
	"slices"
	"time"

	"github.com/later-queue/later"
)

// selectTenantsToClaim are all tenants of a level that have something to claim: a loose scan over
// later_job_ready that goes past each tenant that has any job, due or not. It is made from time
// to time only. Parameters: those of turnsOfLanes up to the last tenant.
const selectTenantsToClaim = wantedKinds + lanesAll + `
select lane.tenant
from lane
where lane.tenant is not null
  and exists (
    select 1
    from wanted
    cross join later_job head indexed by later_job_ready
    where head.queue = ?1 and head.kind = wanted.kind and head.priority = ?3 and head.tenant = lane.tenant
      and run_at <= ?4
      and ` + isClaimable + `)`

// selectTenantsDue are the tenants of a level that have jobs which have become due since a time,
// as far as a number of jobs. Parameters: queue, kinds as JSON, priority, now, the time, limit.
const selectTenantsDue = `
select j.tenant, j.priority = ?3
from json_each(?2) wanted
cross join later_job j indexed by later_job_scheduled
where j.queue = ?1 and j.kind = wanted.value and j.run_at <= ?4 and j.run_at > j.created_at and j.run_at >= ?5
limit ?6`

const (
	// lookEach is how old the list of tenants gets before all are looked at again: the time that
	// [later.Runner.Claim] allows for what comes in behind claims.
	lookEach = 5 * time.Second
	// lookShare bounds what the looks take: one that took t is not repeated before 20 t.
	lookShare = 20
	// maxDueLevels is for how many levels tenants are remembered; then all are forgotten.
	// Chosen: far more than have so much to do at a time.
	maxDueLevels = 100
)

// dueTenants remember, for a level in which many jobs have become due that had been scheduled,
// retried or put off, whose they are. No index leads to the next tenant that has such a job, past
// those whose jobs are all to come; reading all that are due would take longer still.
//
// What has become due since the last claim is read by its time. What comes in behind that (given
// back, or lost) is found by the next look at all tenants.
type dueTenants struct {
	kinds   string   // which they are for, as JSON
	tenants []string // that may have something to claim, sorted
	until   int64    // what has become due up to here has been read
	looked  time.Time
	took    time.Duration
}

// dueTenantsOf returns those of the level of a walk, up to date. Only the writer's goroutine
// calls it.
func (s *Store) dueTenantsOf(w walk) (*dueTenants, error) {
	key := turnKey{w.level.queue, w.kinds, w.level.priority}
	d := s.dueTenants[key]
	if d == nil {
		if len(s.dueTenants) >= maxDueLevels {
			clear(s.dueTenants)
		}
		d = &dueTenants{kinds: w.kinds}
		s.dueTenants[key] = d
	}
	if !d.looked.IsZero() && w.now >= d.until && time.Since(d.looked) <= max(lookEach, lookShare*d.took) {
		complete, err := d.readOn(w)
		if complete || err != nil {
			return d, err
		}
	}
	return d, d.look(w)
}

// look reads all tenants.
func (d *dueTenants) look(w walk) error {
	start := time.Now()
	tenants, err := readNames(w.tx, selectTenantsToClaim, w.level.queue, w.kinds, w.level.priority, w.now, later.SuspectCrashes, "", nil)
	if err != nil {
		return err
	}
	d.tenants, d.until, d.looked, d.took = tenants, w.now, start, time.Since(start)
	return nil
}

// readOn adds the tenants whose jobs have become due since, unless these are too many.
func (d *dueTenants) readOn(w walk) (complete bool, err error) {
	rows, err := w.tx.query(selectTenantsDue, w.level.queue, w.kinds, w.level.priority, w.now, d.until, maxDue)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var tenant string
		var here bool
		if err := rows.Scan(&tenant, &here); err != nil {
			return false, err
		}
		if at, found := slices.BinarySearch(d.tenants, tenant); here && !found {
			d.tenants = slices.Insert(d.tenants, at, tenant)
		}
	}
	if n == maxDue || rows.Err() != nil {
		return false, rows.Err()
	}
	d.until = w.now
	return true, nil
}

// between is [walk.between] for these tenants. It forgets those that have nothing of any kind.
func (d *dueTenants) between(w walk, first string, last any, limit, share int) ([]turn, error) {
	var turns []turn
	for len(turns) < limit {
		from, _ := slices.BinarySearch(d.tenants, first)
		to := min(from+limit, len(d.tenants))
		if last != nil {
			end, found := slices.BinarySearch(d.tenants, last.(string))
			if found {
				end++
			}
			to = min(to, end)
		}
		if from >= to {
			break
		}
		names := d.tenants[from:to]
		more, err := readTurns(w.tx, selectTurnsNamed, w.level.queue, w.kinds, w.level.priority, w.now, later.SuspectCrashes,
			first, last, limit, share, jsonNames(names))
		if err != nil {
			return nil, err
		}
		first = names[len(names)-1] + "\x00"
		turns = append(turns, more...)
		if w.kinds == d.kinds {
			d.tenants = slices.Concat(d.tenants[:from], tenantsOf(more), d.tenants[to:])
		}
	}
	return turns, nil
}

func tenantsOf(turns []turn) []string {
	names := make([]string, len(turns))
	for i, t := range turns {
		names[i] = t.tenant
	}
	return names
}

func readNames(q querier, query string, args ...any) ([]string, error) {
	rows, err := q.query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

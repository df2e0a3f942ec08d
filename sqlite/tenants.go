package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/later-queue/later"
)

// tenantLanes are all places (queue, kind, priority) of later_job, found one after the other in
// later_job_ready: one probe for each that there is, whatever waits in it. (Without the plus, the
// index is used for the queue only.)
const tenantLanes = `
with recursive lane (queue, kind, priority) as (
  select j.queue, j.kind, j.priority
  from later_job j
  where j.id = (
    select head.id
    from later_job head indexed by later_job_ready
    where head.queue > ''
    order by head.queue, head.kind, head.priority
    limit 1)
  union all
  select j.queue, j.kind, j.priority
  from lane
  cross join later_job j on j.id = (
    select head.id
    from later_job head indexed by later_job_ready
    where (head.queue, head.kind, head.priority) > (+lane.queue, +lane.kind, +lane.priority)
    order by head.queue, head.kind, head.priority
    limit 1)
)`

// selectTenantLanes lists a page of tenants with the lanes that they have jobs in: of each place
// the first tenants behind ?1 (null: all), ?2 of them, with one probe each; then the first of all.
// A tenant among the first of all is among the first of each place where it has jobs.
const selectTenantLanes = tenantLanes + `, place (queue, kind, priority, tenant, nr) as (
  select lane.queue, lane.kind, lane.priority, j.tenant, 1
  from lane
  cross join later_job j on j.id = (
    select head.id
    from later_job head indexed by later_job_ready
    where head.queue = lane.queue and head.kind = lane.kind and head.priority = lane.priority
      and (?1 is null or head.tenant > ?1)
    order by head.tenant
    limit 1)
  union all
  select place.queue, place.kind, place.priority, j.tenant, place.nr + 1
  from place
  cross join later_job j on j.id = (
    select head.id
    from later_job head indexed by later_job_ready
    where head.queue = place.queue and head.kind = place.kind and head.priority = place.priority
      and head.tenant > place.tenant
    order by head.tenant
    limit 1)
  where place.nr < ?2
)
select tenant, queue, kind, priority
from place
where tenant in (select tenant from place group by tenant order by tenant limit ?2)
order by tenant`

// selectLanesOfTenants lists the lanes of the tenants ?1, as JSON, also of those that have none.
const selectLanesOfTenants = tenantLanes + `
select wanted.value, coalesce(lane.queue, ''), coalesce(lane.kind, ''), coalesce(lane.priority, 0)
from (select distinct value from json_each(?1)) wanted
left join lane on exists (
  select 1
  from later_job j indexed by later_job_ready
  where j.queue = lane.queue and j.kind = lane.kind and j.priority = lane.priority and j.tenant = wanted.value)
order by wanted.value`

// countLane counts the first jobs of a lane that are due. Parameters: queue, kind, priority,
// tenant, now, the most.
const countLane = `
select count(*), coalesce(sum(held), 0), min(case when not held then run_at end)
from (
  select run_at, coalesce(lease_until >= ?5, 0) as held
  from later_job indexed by later_job_ready
  where queue = ?1 and kind = ?2 and priority = ?3 and tenant = ?4 and run_at <= ?5
  order by run_at
  limit ?6)`

var _ later.TenantLister = (*Store)(nil)

// tenantLane is a place where a tenant has jobs.
type tenantLane struct {
	tenant, queue, kind string
	priority            int64
}

// Tenants implements [later.TenantLister].
func (s *Store) Tenants(ctx context.Context, f later.TenantFilter) ([]later.TenantCount, error) {
	counts := []later.TenantCount{}
	err := s.snapshot(ctx, func(r reader) error {
		now, err := now(r)
		if err != nil {
			return err
		}
		lanes, err := lanesOfTenants(r, f)
		if err != nil {
			return err
		}
		for _, lane := range lanes {
			if n := len(counts); n == 0 || counts[n-1].Tenant != lane.tenant {
				counts = append(counts, later.TenantCount{Tenant: lane.tenant})
			}
			if err := lane.count(r, now, &counts[len(counts)-1]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the jobs of tenants: %w", explain(err))
	}
	return counts, nil
}

// lanesOfTenants are the lanes of the tenants that f selects, by tenant.
func lanesOfTenants(r reader, f later.TenantFilter) (lanes []tenantLane, err error) {
	var rows *sql.Rows
	if f.Names != nil {
		names, _ := json.Marshal(f.Names) // a list of strings always encodes
		rows, err = r.query(selectLanesOfTenants, string(names))
	} else {
		rows, err = r.query(selectTenantLanes, f.After, limitOf(later.Filter{Limit: f.Limit}))
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var l tenantLane
		if err := rows.Scan(&l.tenant, &l.queue, &l.kind, &l.priority); err != nil {
			return nil, err
		}
		lanes = append(lanes, l)
	}
	return lanes, rows.Err()
}

func (l tenantLane) count(r reader, now int64, to *later.TenantCount) error {
	var n, running int
	var oldest sql.NullInt64
	err := r.queryRow(countLane, l.queue, l.kind, l.priority, l.tenant, now, later.MaxTenantCount+1).Scan(&n, &running, &oldest)
	if err != nil {
		return err
	}
	running = min(running, later.MaxTenantCount)
	to.More = to.More || n > later.MaxTenantCount
	to.Running += running
	to.Due += min(n, later.MaxTenantCount) - running
	if at := toOptionalTime(oldest); !at.IsZero() && (to.Oldest.IsZero() || at.Before(to.Oldest)) {
		to.Oldest = at
	}
	return nil
}

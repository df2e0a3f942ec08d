package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// countTenants counts the jobs of a page of tenants. It goes through the index job_ready, and reads
// a place (queue, priority, kind) with one probe, the first tenants of each with one probe for
// each of them, and the first jobs of the lanes that the page has. A tenant that is among the first of
// all is among the first of each place where it has jobs, so these are all of its lanes.
//
// Parameters: $1 the tenants that are wanted (null: a page of all), $2 the tenant behind which the page
// begins (null: none), $3 the most tenants of the page, $4 the most jobs of each lane.
const countTenants = `
with recursive place (queue, priority, kind) as (
  (
    select j.queue::text, j.priority, j.kind::text
    from {schema}.job j
    order by j.queue, j.priority, j.kind
    limit 1
  )
  union all
  select next.queue, next.priority, next.kind
  from place p
  cross join lateral (
    select j.queue::text as queue, j.priority, j.kind::text as kind
    from {schema}.job j
    where (j.queue, j.priority, j.kind) > (p.queue, p.priority, p.kind)
    order by j.queue, j.priority, j.kind
    limit 1
  ) next
), lane as (
  select p.queue, p.priority, p.kind, first.tenant
  from place p
  cross join lateral (
    with recursive turn (tenant) as (
      (
        select j.tenant::text
        from {schema}.job j
        where j.queue = p.queue and j.priority = p.priority and j.kind = p.kind
          and j.tenant >= coalesce($2::text || E'\x01', '') collate "C"
        order by j.tenant
        limit 1
      )
      union all
      select next.tenant
      from turn t
      cross join lateral (
        select j.tenant::text as tenant
        from {schema}.job j
        where j.queue = p.queue and j.priority = p.priority and j.kind = p.kind and j.tenant > t.tenant
        order by j.tenant
        limit 1
      ) next
    )
    select turn.tenant from turn limit $3
  ) first
  where $1::text[] is null
  union all
  select p.queue, p.priority, p.kind, n.tenant
  from place p
  cross join unnest($1::text[]) as n (tenant)
), page as (
  (
    select distinct lane.tenant
    from lane
    where $1::text[] is null
    order by lane.tenant
    limit $3
  )
  union
  select n.tenant from unnest($1::text[]) as n (tenant)
)
select page.tenant, coalesce(sum(counted.due), 0)::bigint, coalesce(sum(counted.running), 0)::bigint,
  coalesce(bool_or(counted.more), false), min(counted.oldest)
from page
left join lane on lane.tenant = page.tenant
cross join lateral (
  select count(*) filter (where first.nr <= $4 and not first.held) as due,
    count(*) filter (where first.nr <= $4 and first.held) as running,
    count(*) > $4 as more,
    min(first.run_at) filter (where not first.held) as oldest
  from (
    select j.run_at, coalesce(j.lease_until >= now(), false) as held, row_number() over () as nr
    from (
      select j.run_at, j.lease_until
      from {schema}.job j
      where j.queue = lane.queue and j.priority = lane.priority and j.kind = lane.kind and j.tenant = page.tenant
        and j.run_at <= now()
      order by j.run_at, j.id + 0
      limit $4 + 1
    ) j
  ) first
) counted
group by page.tenant
order by page.tenant`

var _ later.TenantLister = (*Store)(nil)

// Tenants implements [later.TenantLister].
func (s *Store) Tenants(ctx context.Context, f later.TenantFilter) ([]later.TenantCount, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = later.DefaultListLimit
	}
	args := []any{f.Names, f.After, int64(limit), int64(later.MaxTenantCount)}
	return query(ctx, s, statement{name: "count the jobs of tenants", sql: countTenants, args: args},
		func(row pgx.CollectableRow) (later.TenantCount, error) {
			var c later.TenantCount
			var due, running int64
			var oldest *time.Time
			err := row.Scan(&c.Tenant, &due, &running, &c.More, &oldest)
			c.Due, c.Running, c.Oldest = int(due), int(running), timeOrZero(oldest)
			return c, err
		})
}

package postgres

import "strings"

// nextLanes are the lanes of some queues in which something can be claimed, in the order in which a
// claim takes from them: level by level, and within a level from tenant to tenant, from the one
// behind the level's cursor on and around. It is read-only, and goes through the index
// job_ready: one probe for each kind finds the next tenant, another its first job. A tenant
// all of whose jobs lie in the future costs both, and is passed over.
//
// Of each lane it tells the first job that can be claimed. If it is asked to, it also gives lanes
// in which all that is due is running, cancelled or suspect, with null for run_at and id.
//
// Parameters: $1 queues, $2 the most lanes of each, $3 the most lanes of all, $4 kinds, $5
// SuspectCrashes, $6 unanswered tokens, and the cursors: $7 the numbers of their queues, $8
// priorities, $9 tenants; $10 whether to give lanes in which nothing can be claimed, $11 tenants
// that are held back; and where only some tenants are wanted, $12 these.
const nextLanes = `
select q.nr::int, t.priority::int, t.tenant, t.run_at, t.id, now(),
       extract(epoch from clock_timestamp() - statement_timestamp())::float8
from unnest($1::text[], $2::int[]) with ordinality as q (queue, room, nr)
cross join lateral (` + levels + `
  select l.priority, lane.tenant, first.run_at, first.id
  from level l
{lanes}  left join lateral (
    select one.run_at, one.id
    from unnest($4::text[]) as k (kind)
    cross join lateral (
      select j.run_at, j.id + 0 as id
      from {schema}.job j
      where j.queue = q.queue
        and j.priority = l.priority
        and j.kind = k.kind
        and j.tenant = lane.tenant
        and j.run_at <= now()
        and ` + claimable + `
      order by j.run_at, j.id + 0
      limit 1
    ) one
    order by one.run_at, one.id
    limit 1
  ) first on true
  where first.id is not null
    or $10 and exists (
      select from unnest($4::text[]) as k (kind)
      cross join lateral (
        select from {schema}.job j
        where j.queue = q.queue and j.priority = l.priority and j.kind = k.kind and j.tenant = lane.tenant
          and j.run_at <= now()
        limit 1
      ) one
    )
  limit q.room
) t
limit $3`

// laneTurns are the lanes of a level in the order of their turns.
const laneTurns = `  cross join lateral (
    with recursive turn (tenant, bound, around, stop) as (
      -- No tenant has a character like the one behind it here, so no tenant is between.
      select null collate "C", coalesce(cursor.tenant || E'\x01', '') collate "C", cursor.tenant is null, cursor.tenant collate "C"
      from (
        select (
          select c.tenant
          from unnest($7::int[], $8::int[], $9::text[]) as c (nr, priority, tenant)
          where c.nr = q.nr and c.priority = l.priority
        ) as tenant
      ) cursor
      union all
      select next.tenant, coalesce(next.tenant || E'\x01', '') collate "C", t.around or next.tenant is null, t.stop
      from turn t
      cross join lateral (
        select min(one.tenant) collate "C" as tenant
        from unnest($4::text[]) as k (kind)
        cross join lateral (
          select j.tenant::text collate "C" as tenant
          from {schema}.job j
          where j.queue = q.queue and j.priority = l.priority and j.kind = k.kind and j.tenant >= t.bound
          order by j.tenant
          limit 1
        ) one
      ) next
      where (next.tenant is not null or not t.around)
        and (not t.around or t.stop is null or next.tenant is null or next.tenant <= t.stop)
    )
    select turn.tenant from turn where turn.tenant is not null and not turn.tenant = any($11::text[])
  ) lane
`

// laneChoice are those of some tenants.
const laneChoice = `
  cross join lateral (
    select wanted.tenant
    from unnest($12::text[]) as wanted (tenant)
    cross join (
      select (
        select c.tenant
        from unnest($7::int[], $8::int[], $9::text[]) as c (nr, priority, tenant)
        where c.nr = q.nr and c.priority = l.priority
      ) as tenant
    ) cursor
    where not wanted.tenant = any($11::text[])
    order by coalesce(wanted.tenant collate "C" <= cursor.tenant collate "C", false), wanted.tenant collate "C"
  ) lane
`

// nextLanesSQL is the statement for a claim that begins at the best level or at the lowest, of all
// tenants or only some.
func nextLanesSQL(fromLowest, some bool) string {
	lanes := laneTurns
	if some {
		lanes = laneChoice
	}
	return downward(strings.Replace(nextLanes, "{lanes}", lanes, 1), fromLowest)
}

// downward has a statement go through the levels from the lowest to the best.
func downward(sql string, fromLowest bool) string {
	if fromLowest {
		return strings.Replace(sql, levels, levelsDown, -1)
	}
	return sql
}

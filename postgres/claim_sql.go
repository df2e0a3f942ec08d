package postgres

import (
	"strconv"
	"strings"
)

// The two statements of a claim: [quickClaim] and, where marks are kept, [carefulClaim].
// Both go through the index job_ready (which has id + 0). A probe finds a queue's next
// level, and within it each kind is a lane of its own, so that the rows of kinds that
// the worker does not know are never read. A lane's future jobs lie behind its due ones,
// so none of them is read either.
//
// The rows that are taken are locked, and no others. The update goes by ctid: no row
// can change under it, because it is locked, and a version newer than the statement's
// snapshot is not found and waits for the next claim. Only rows that had a lease are read
// once more, for what is told about the lost worker.
//
// Parameters of both: $1 queues, $2 the most of each, $3 the most of all, $4 kinds,
// $5 SuspectCrashes, $6 worker, $7 token, $8 lease in microseconds, $9 whether there is a
// log, $10 unanswered tokens.

const (
	// unanswered tells a row that an earlier claim of the same worker has leased,
	// whose answer was lost: nobody has seen the job.
	unanswered = `coalesce(j.lease_token = any($10::bigint[]), false)`
	// lost tells a row whose worker was lost.
	lost = `(j.lease_until is not null and not ` + unanswered + `)`
	// doomed tells one for which that was the only attempt.
	doomed = `(j.max_attempts = 1 and (j.crashes > 0 or ` + lost + `))`
	// claimable is what a claim takes of the rows that are due: jobs that nobody has,
	// and those whose worker was lost but that are no suspects yet.
	claimable = `j.cancel_at is null
    and (j.expires_at is null or j.expires_at > now())
    and (j.lease_until is null or j.lease_until < now() or ` + unanswered + `)
    and j.crashes + ` + lost + `::int < $5`
)

// laneRows are the rows of one lane that can be claimed.
const laneRows = `
  select j.ctid, j.run_at, j.id + 0 as id, j.lease_until is not null as lost
  from {schema}.job j
  where j.queue = {queue}
    and j.priority = {priority}
    and j.kind = ($4::text[])[{kind}]
    and j.run_at <= now()
    and {behind}
    and ` + claimable

// oneLane takes jobs of a level for a worker with one kind.
const oneLane = laneRows + laneOrder + `
  limit {limit}
  for update skip locked`

const laneOrder = `
  order by j.run_at, j.id + 0`

// mergedLanes takes jobs of a level for a worker with several kinds: {lanes} is
// laneRows for each, united. They are merged as they are read, and each row is locked as
// it is taken, so that no more is read than is taken, but for one row of each lane, and
// what others have locked. (Reading a share of each lane and merging these, in rounds,
// read twice as much and cost the server 1.5 times the CPU.)
const mergedLanes = `
  select taken.ctid, taken.lost
  from (
    select lanes.ctid
    from ({lanes}
    ) lanes
    order by lanes.run_at, lanes.id
  ) due
  cross join lateral (
    select j.ctid, j.lease_until is not null as lost
    from {schema}.job j
    where j.ctid = due.ctid
      and ` + claimable + `
    for update skip locked
  ) taken
  limit {limit}`

// takenRows is oneLane or mergedLanes for so many kinds.
func takenRows(kinds int, names ...string) string {
	sql := strings.Replace(oneLane, "{kind}", "1", 1)
	if kinds != 1 {
		lanes := make([]string, kinds)
		for i := range lanes {
			lanes[i] = "(" + strings.Replace(laneRows+laneOrder, "{kind}", strconv.Itoa(i+1), 1) + ")"
		}
		sql = strings.Replace(mergedLanes, "{lanes}", strings.Join(lanes, " union all "), 1)
	}
	return strings.NewReplacer(names...).Replace(sql)
}

// takeRows leases what was picked.
const takeRows = `
  set lease_until  = now() + $8::bigint * interval '1 microsecond',
      lease_token  = $7,
      lease_holder = $6,
      claimed_at   = case when not ` + doomed + ` then now() end,
      crashes      = least(j.crashes, 999999) + ` + lost + `::int,
      attempt      = case when ` + doomed + ` or ` + unanswered + ` then j.attempt else least(j.attempt, 2147483646) + 1 end`

// logLost writes the attempts of lost workers into the log.
const logLost = `
  insert into {schema}.job_log
    (job_id, started_at, finished_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, claimed_at, now(), attempt, queue, kind, tenant, 'lost', lease_holder, ''
  from old
  where $9`

// oldLeases are the leases that have ended of the rows at {lost}.
const oldLeases = `
  select j.id, j.lease_until, j.lease_holder, j.claimed_at, j.attempt, j.queue, j.kind, j.tenant
  from {schema}.job j
  where j.ctid = any(array({lost}))
    and not ` + unanswered

// claimFacts come with each job: when the claim began and the row was made, and the
// lease that was lost. What was lost is looked up by the job's id, and only for the few
// that ever were (jsonb finds a key by halving): a killed worker may leave thousands.
const claimFacts = `now(), statement_timestamp(), clock_timestamp(),
  case when j.crashes > 0 then (
    (select jsonb_object_agg(o.id, jsonb_build_object('until', (extract(epoch from o.lease_until) * 1000000)::bigint, 'holder', o.lease_holder)) from old o)
    -> j.id::text)::text
  end`

// quickClaim is the claim as long as no marks are kept. It goes from level to level
// and from queue to queue only as long as there is something wanted.
const quickClaim = `
with picked as materialized (
  select t.ctid, t.lost
  from unnest($1::text[], $2::int[]) as q (queue, room)
  cross join lateral (
    with recursive level (priority) as (
      select (
        select j.priority
        from {schema}.job j
        where j.queue = q.queue
        order by j.priority
        limit 1
      )
      union all
      select (
        select j.priority
        from {schema}.job j
        where j.queue = q.queue and j.priority > l.priority
        order by j.priority
        limit 1
      )
      from level l
      where l.priority is not null
    )
    select taken.ctid, taken.lost
    from level l
    cross join lateral ({taken}
    ) taken
    where l.priority is not null
    limit q.room
  ) t
  limit $3
),
old as materialized (` + oldLeases + `
),
logged as (` + logLost + `
)
update {schema}.job j` + takeRows + `
where j.ctid = any(array(select p.ctid from picked p))
returning ` + recordColumns + `, ` + claimFacts

// quickClaimSQL is quickClaim for a worker with so many kinds.
func quickClaimSQL(kinds int) string {
	return strings.NewReplacer(
		"{taken}", takenRows(kinds, "{queue}", "q.queue", "{priority}", "l.priority", "{behind}", "true", "{limit}", "q.room"),
		"{lost}", "select p.ctid from picked p where p.lost",
	).Replace(quickClaim)
}

// carefulClaim also tells how far it has come and how long that took, and can begin
// behind marks. Further parameters: the marks ($11 to $14: the numbers of their queues,
// priorities, run_at, id) and $15, which queues are blind.
//
// remaining is what all queues together may still give, room what this queue may. A
// level starts behind its mark, if it has one ([marks]), and then counts as there
// without being looked for; for a blind queue no others are looked for. picked are the
// rows that were taken of it, lost those of them that had a lease.
//
// One row of its answer has what was seen, the others have the jobs.
const carefulClaim = `
with recursive level (nr, priority, room, remaining, asked, picked, lost) as (
  select 1, -32769, ($2::int[])[1], $3::int, 0, '{}'::tid[], '{}'::tid[]
  union all
  select n.nr, n.priority, n.room, n.remaining, n.asked, coalesce(taken.picked, '{}'), coalesce(taken.lost, '{}')
  from level l
  cross join lateral (
    select l.room - cardinality(l.picked) as room,
           l.remaining - cardinality(l.picked) as remaining
  ) rest
  cross join lateral (
    select min(m.priority) as priority
    from unnest($11::int[], $12::int[]) as m (nr, priority)
    where m.nr = l.nr and m.priority > l.priority
  ) marked
  cross join lateral (
    select coalesce(
      (
        select j.priority::int
        from {schema}.job j
        where j.queue = ($1::text[])[l.nr]
          and j.priority > l.priority
          and j.priority < coalesce(marked.priority, 32768)
          and rest.room > 0
          and not ($15::bool[])[l.nr]
        order by j.priority
        limit 1
      ),
      case when rest.room > 0 then marked.priority end
    ) as priority
    offset 0 -- so that it is looked up once
  ) next
  cross join lateral (
    select l.nr, next.priority, rest.room, rest.remaining,
           least(rest.room, rest.remaining) as asked
    where next.priority is not null
    union all
    select l.nr + 1, -32769, ($2::int[])[l.nr + 1], rest.remaining, 0
    where next.priority is null
  ) n
  left join lateral (
    select m.run_at, m.id
    from unnest($11::int[], $12::int[], $13::timestamptz[], $14::bigint[]) as m (nr, priority, run_at, id)
    where m.nr = n.nr and m.priority = n.priority
  ) mark on true
  left join lateral (
    select array_agg(t.ctid) as picked, array_agg(t.ctid) filter (where t.lost) as lost
    from ({taken}
    ) t
    offset 0 -- so that it is done once
  ) taken on true
  where rest.remaining > 0 and n.nr <= cardinality($1::text[])
),
old as materialized (` + oldLeases + `
),
logged as (` + logLost + `
),
claimed as (
  update {schema}.job j` + takeRows + `
  where j.ctid = any(array(select unnest(l.picked) from level l))
  returning ` + recordColumns + `
)
select ` + recordColumns + `, ` + claimFacts + `, seen.*
from (values (true), (false)) as part (summary)
left join (
  select array_agg(l.nr), array_agg(l.priority), array_agg(l.asked), array_agg(cardinality(l.picked))
  from level l
) seen on part.summary
left join claimed j on not part.summary`

// carefulClaimSQL is carefulClaim for a worker with so many kinds.
func carefulClaimSQL(kinds int) string {
	return strings.NewReplacer(
		"{taken}", takenRows(kinds, "{queue}", "($1::text[])[n.nr]", "{priority}", "n.priority",
			"{behind}", "(j.run_at, j.id + 0) > (coalesce(mark.run_at, '-infinity'), coalesce(mark.id, 0))",
			"{limit}", "n.asked"),
		"{lost}", "select unnest(l.lost) from level l",
	).Replace(carefulClaim)
}

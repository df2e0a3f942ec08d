package postgres

import (
	"strconv"
	"strings"
)

// The statements of a claim: [quickClaimSQL] and, where tenants take turns, marks are kept or limits
// are set, [nextLanes] and [laneClaimSQL]. All go through the index job_ready (which has id + 0). A probe
// finds a queue's next level, and within it each kind is read by itself, so that the rows of
// kinds that the worker does not know are never read. A tenant's future jobs lie behind its
// due ones, so none of them is read either.
//
// The rows that are taken are locked, and no others. The update goes by ctid: no row
// can change under it, because it is locked, and a version newer than the statement's
// snapshot is not found and waits for the next claim. Only rows that had a lease are read
// once more, for what is told about the lost worker.
//
// Parameters of the two that claim: $1 queues, $2 the most of each, $3 the most of all, $4
// kinds, $5 SuspectCrashes, $6 unanswered tokens, $7 token, $8 lease in microseconds, $9
// whether there is a log, $10 worker, $11 the version of the gates that the claim goes by.

const (
	// unanswered tells a row that an earlier claim of the same worker has leased,
	// whose answer was lost: nobody has seen the job.
	unanswered = `coalesce(j.lease_token = any($6::bigint[]), false)`
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

// kindRows are the rows of one kind in a lane that can be claimed.
const kindRows = `
  select j.ctid, j.run_at, j.id + 0 as id, j.lease_until is not null as lost
  from {schema}.job j
  where j.queue = {queue}
    and j.priority = {priority}
    and j.kind = ($4::text[])[{kind}]
    and j.tenant = {tenant}
    and j.run_at <= now()
    and {behind}
    and ` + claimable

// oneKind takes jobs of a lane for a worker with one kind.
const oneKind = kindRows + rowOrder + `
  limit {limit}
  for update skip locked`

const rowOrder = `
  order by j.run_at, j.id + 0`

// mergedKinds takes jobs of a lane for a worker with several kinds: {kinds} is
// kindRows for each, united. They are merged as they are read, and each row is locked as
// it is taken, so that no more is read than is taken, but for one row of each kind, and
// what others have locked. (Reading a share of each kind and merging these, in rounds,
// read twice as much and cost the server 1.5 times the CPU.)
const mergedKinds = `
  select taken.ctid, taken.lost
  from (
    select kinds.ctid
    from ({kinds}
    ) kinds
    order by kinds.run_at, kinds.id
  ) due
  cross join lateral (
    select j.ctid, j.lease_until is not null as lost
    from {schema}.job j
    where j.ctid = due.ctid
      and ` + claimable + `
    for update skip locked
  ) taken
  limit {limit}`

// takenRows is oneKind or mergedKinds for so many kinds.
func takenRows(kinds int, names ...string) string {
	sql := strings.Replace(oneKind, "{kind}", "1", 1)
	if kinds != 1 {
		parts := make([]string, kinds)
		for i := range parts {
			parts[i] = "(" + strings.Replace(kindRows+rowOrder, "{kind}", strconv.Itoa(i+1), 1) + ")"
		}
		sql = strings.Replace(mergedKinds, "{kinds}", strings.Join(parts, " union all "), 1)
	}
	return strings.NewReplacer(names...).Replace(sql)
}

// takeRows leases what was picked.
const takeRows = `
  set lease_until  = now() + $8::bigint * interval '1 microsecond',
      lease_token  = $7,
      lease_holder = $10,
      claimed_at   = case when not ` + doomed + ` then now() end,
      crashes      = least(j.crashes, 999999) + ` + lost + `::int,
      attempt      = case when ` + doomed + ` or ` + unanswered + ` then j.attempt else least(j.attempt, 2147483646) + 1 end,
      unique_key   = case when j.unique_until = 'started' then null else j.unique_key end`

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

// levels are the levels of the queue q, found one after the other, as far as something is
// wanted.
const levels = `
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
    )`

// levelsDown are the same, the lowest first.
var levelsDown = strings.NewReplacer("order by j.priority", "order by j.priority desc", "j.priority > l.priority", "j.priority < l.priority").
	Replace(levels)

// quickPicked are what a claim takes as long as no job has a tenant and no marks are kept. It
// goes from level to level and from queue to queue only as long as there is something wanted.
const quickPicked = `
  select t.ctid, t.lost
  from {where}unnest($1::text[], $2::int[]) as q (queue, room)
  cross join lateral (` + levels + `
    select taken.ctid, taken.lost
    from level l
    cross join lateral ({taken}
    ) taken
    where l.priority is not null
    limit q.room
  ) t
  limit $3`

// lanePicked are what a claim takes of lanes in their order, each from behind its mark.
// Further parameters: the lanes ($12 the numbers of their queues, $13 priorities, $14
// tenants, $15 the most of each, $16 and $17 the marks' run_at and id).
const lanePicked = `
  select t.ctid, t.lost
  from ` + freshGates + `unnest($1::text[], $2::int[]) with ordinality as q (queue, room, nr)
  cross join lateral (
    select taken.ctid, taken.lost
    from unnest($12::int[], $13::int[], $14::text[], $15::int[], $16::timestamptz[], $17::bigint[])
      as l (nr, priority, tenant, room, run_at, id)
    cross join lateral ({taken}
    ) taken
    where l.nr = q.nr
    limit q.room
  ) t
  limit $3`

// chosenPicked are some jobs, $12 their ids, as far as they are of these queues and kinds.
const chosenPicked = `
  select t.ctid, t.lost
  from ` + freshGates + `unnest($12::bigint[]) as chosen (id)
  cross join lateral (
    select j.ctid, j.lease_until is not null as lost
    from {schema}.job j
    where j.id = chosen.id
      and j.queue = any($1::text[])
      and j.kind = any($4::text[])
      and j.run_at <= now()
      and ` + claimable + `
    for update skip locked
  ) t
  where $2::int[] is not null
  limit $3`

// claim leases what {picked} gives.
const claim = `
with {with}picked as materialized ({picked}
),
old as materialized (` + oldLeases + `
),
logged as (` + logLost + `
){update}`

const claimUpdate = `
update {schema}.job j` + takeRows + `
where j.ctid = any(array(select p.ctid from picked p))
returning ` + recordColumns

// The claim that asks whether any job of these queues and kinds has a tenant takes nothing
// if there is one. One more row, without a job, tells.
const (
	anyTenant = `asked as materialized (
  select exists (
    select from unnest($1::text[]) as q (queue)
    cross join lateral (` + levels + `
      select from level l
      cross join unnest($4::text[]) as k (kind)
      cross join lateral (
        select from {schema}.job j
        where j.queue = q.queue and j.priority = l.priority and j.kind = k.kind and j.tenant > ''
        limit 1
      ) one
    ) t
  ) as tenants, (` + readGateVersion + `) as version
),
`
	whereNoTenant = `(select from asked where not asked.tenants and asked.version = $11) as none
  cross join `
	updateAndTell = `,
claimed as (` + claimUpdate + `
)
select ` + recordColumns + `, ` + claimFacts + `, asked.tenants, asked.version
from (values (true), (false)) as part (summary)
left join asked on part.summary
left join claimed j on not part.summary`
)

// The statements for a worker with so many kinds.

// quickClaimSQL and the like with Down begin at the lowest level.
func quickClaimSQL(kinds int) string {
	return quickSQL(kinds, "", freshGates, claimUpdate+", "+claimFacts)
}

func tenantClaimSQL(kinds int) string {
	return quickSQL(kinds, anyTenant, whereNoTenant, updateAndTell)
}

func quickDownSQL(kinds int) string  { return downward(quickClaimSQL(kinds), true) }
func tenantDownSQL(kinds int) string { return downward(tenantClaimSQL(kinds), true) }

func quickSQL(kinds int, with, where, update string) string {
	return claimSQL(with, strings.Replace(quickPicked, "{where}", where, 1), update, takenRows(kinds,
		"{queue}", "q.queue", "{priority}", "l.priority", "{tenant}", "''", "{behind}", "true", "{limit}", "q.room"))
}

func laneClaimSQL(kinds int) string {
	return claimSQL("", lanePicked, claimUpdate+", "+claimFacts, takenRows(kinds,
		"{queue}", "q.queue", "{priority}", "l.priority", "{tenant}", "l.tenant",
		"{behind}", "(j.run_at, j.id + 0) > (l.run_at, l.id)", "{limit}", "l.room"))
}

func chosenClaimSQL(int) string { return claimSQL("", chosenPicked, claimUpdate+", "+claimFacts, "") }

func claimSQL(with, picked, update, taken string) string {
	picked = strings.Replace(picked, "{taken}", taken, 1)
	return strings.NewReplacer("{with}", with, "{picked}", picked, "{update}", update,
		"{lost}", "select p.ctid from picked p where p.lost").Replace(claim)
}

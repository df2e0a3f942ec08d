package postgres

// admissionIdle is after how long the server ends an admission whose process says nothing: it may be
// stopped or cut off, and others wait for the limits that it has locked. A shorter setting of the role or the
// database holds on. Chosen: far longer than a round trip.
const admissionIdle = "5s"

const (
	// boundIdle sets $1 for the transaction.
	boundIdle = `
select set_config('idle_in_transaction_session_timeout', $1, true)
where current_setting('idle_in_transaction_session_timeout')::interval not between interval '1 ms' and $1::interval`

	// lockKey is the lock of a limit. A lock of the transaction needs no session, and no
	// row that an old snapshot could keep versions of.
	lockKey = `hashtextextended('{schema}/' || g.scope || '/' || g.name, 0)`

	// lockGates takes the locks that are free, and leaves their numbers in a setting.
	// Parameters: $1 scopes, $2 names.
	lockGates = `
select set_config('later.locked', coalesce(string_agg(got.nr::text, ','), ''), true)
from (
  select g.nr
  from unnest($1::text[], $2::text[]) with ordinality as g (scope, name, nr)
  where pg_try_advisory_xact_lock(` + lockKey + `)
) got`

	// awaitGates takes them all.
	awaitGates = `
select set_config('later.locked', coalesce(string_agg(got.nr::text, ','), ''), true)
from (
  select g.nr, pg_advisory_xact_lock(` + lockKey + `)
  from unnest($1::text[], $2::text[]) with ordinality as g (scope, name, nr)
) got`

	// readStates reads, of the gates that {which} selects, what they remember: a row for each
	// job that fills a place, or one without a job. Parameters: $1 scopes, $2 names, $3 whether
	// they are ordered, $4 whether a dead job blocks, $5 SuspectCrashes, $6 unanswered tokens, $7
	// whether they are caps. The others remember who was let in lately, for claims whose answer
	// was lost.
	readStates = `
with state as materialized (
  select g.nr, g.ordered, g.blocks, g.capped, s.seq, s.running, s.tat
  from unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[], $7::boolean[]) with ordinality
    as g (scope, name, ordered, blocks, capped, nr)
  left join lateral (
    select s.seq, s.running, s.tat
    from {schema}.gate_state s
    where s.scope = g.scope and s.name = g.name
    order by s.seq desc
    limit 1
  ) s on true
  where {which}
)
select state.nr::int, coalesce(state.seq, 0), state.tat, now(), had.id, had.stands, had.run_at, had.due, had.queue, had.kind, had.tenant,
       case when not state.capped then state.running end
from state
left join lateral (
  select one.*
  from unnest(state.running) as let (id)
  cross join lateral (
    (
      select j.id,
        case
          when j.lease_until is null then 'waits'
          when j.claimed_at is null then 'doomed' -- its lease is for ending it
          when j.lease_until < now() then 'ended'
          when ` + unanswered + ` then 'unseen'
          else 'runs'
        end as stands,
        j.run_at, j.run_at <= now() and ` + claimable + ` as due, j.queue::text as queue,
        j.kind::text as kind, j.tenant::text as tenant
      from {schema}.job j
      where j.id = let.id
    )
    union all
    (
      select d.id, 'dead', d.run_at, false, d.queue::text, d.kind::text, d.tenant::text
      from {schema}.dead_job d
      where state.blocks and d.id = let.id
    )
  ) one
  where case when state.capped then state.ordered or one.stands not in ('waits', 'dead', 'doomed') else one.stands = 'unseen' end
) had on state.capped or cardinality($6::bigint[]) > 0
order by state.nr`

	// fenceEnded takes their leases from $2 of the jobs whose leases have ended, so that what
	// their workers do later counts no more. That a lease was lost is seen as before.
	fenceEnded = `
with ended as materialized (
  select j.ctid, j.id
  from unnest($1::bigint[]) as had (id)
  cross join lateral (
    select j.ctid, j.id
    from {schema}.job j
    where j.id = had.id and j.lease_until < now()
    for update skip locked
  ) j
  limit $2
),
fenced as (
  update {schema}.job j
  set lease_token = 0
  where j.ctid = any(array(select ended.ctid from ended))
)
select id from ended`

	// writeStates puts new states above those of $3 and deletes these. Parameters: $1 scopes, $2
	// names, $3 the seq of the state before (0: none), $4 who runs, $5 theoretical arrival times.
	writeStates = `
with new as materialized (
  select *
  from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::timestamptz[]) as new (scope, name, seq, running, tat)
),
gone as (
  delete from {schema}.gate_state s
  using new
  where s.scope = new.scope and s.name = new.name and s.seq = new.seq
)
insert into {schema}.gate_state (scope, name, seq, running, tat)
select scope, name, seq + 1, running::bigint[], tat
from new`
)

// isLocked selects the gates that lockGates got.
const isLocked = `g.nr = any(string_to_array(nullif(current_setting('later.locked', true), ''), ',')::bigint[])`

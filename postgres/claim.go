package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// claimJobs walks from one (queue, priority) to the next, in the order of the
// queues that were asked for, and takes from each what may still be taken: two
// probes of the index job_ready for a level, and then exactly the rows that it
// takes. A level's future jobs lie behind its due ones, so none is read.
//
// left is what all queues together may still give, room what this queue may.
// picked are the rows of the level, locked. The update goes by ctid; no row of
// picked can change under it, because it is locked, and a version newer than
// the statement's snapshot is not found and waits for the next claim.
const claimJobs = `
with recursive level (nr, priority, room, remaining, picked) as (
  select 1, -32769, ($2::int[])[1], $3::int, '{}'::tid[]
  union all
  select n.nr, n.priority, n.room, n.remaining,
    array(
      select j.ctid
      from {schema}.job j
      where j.queue = ($1::text[])[n.nr]
        and j.priority = n.priority
        and j.run_at <= now()
        and j.kind = any($4::text[])
        and j.cancel_at is null
        and (j.expires_at is null or j.expires_at > now())
        and (j.lease_until is null or j.lease_until < now())
        and j.crashes + (j.lease_until is not null)::int < $5
      order by j.run_at, j.id
      limit greatest(least(n.room, n.remaining), 0)
      for update skip locked)
  from level l
  cross join lateral (
    select l.room - cardinality(l.picked) as room,
           l.remaining - cardinality(l.picked) as remaining
  ) rest
  cross join lateral (
    select (
      select j.priority
      from {schema}.job j
      where j.queue = ($1::text[])[l.nr] and j.priority > l.priority and rest.room > 0
      order by j.priority
      limit 1
    ) as priority
    offset 0 -- so that it is looked up once
  ) next
  cross join lateral (
    select l.nr, next.priority::int as priority, rest.room, rest.remaining
    where next.priority is not null
    union all
    select l.nr + 1, -32769, ($2::int[])[l.nr + 1], rest.remaining
    where next.priority is null
  ) n
  where rest.remaining > 0 and n.nr <= cardinality($1::text[])
),
old as materialized (
  select j.ctid, j.attempt, j.lease_until, j.lease_holder, j.claimed_at,
         j.max_attempts = 1 and (j.crashes > 0 or j.lease_until is not null) as doomed
  from {schema}.job j
  where j.ctid = any(array(select unnest(l.picked) from level l))
),
claimed as (
  update {schema}.job j
  set lease_until  = now() + $8::bigint * interval '1 microsecond',
      lease_token  = $7,
      lease_holder = $6,
      claimed_at   = case when not old.doomed then now() end,
      crashes      = j.crashes + (old.lease_until is not null)::int,
      attempt      = case when old.doomed then j.attempt else least(j.attempt, 2147483646) + 1 end
  from old
  where j.ctid = old.ctid
  returning ` + recordColumns + `, old.doomed,
    old.lease_until as old_until, old.lease_holder as old_holder, old.claimed_at as old_claimed_at,
    old.attempt as old_attempt
),
lost as (
  insert into {schema}.job_log
    (job_id, started_at, finished_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, old_claimed_at, old_until, old_attempt, queue, kind, tenant, 'lost', old_holder, ''
  from claimed
  where $9 and old_until is not null
)
select ` + recordColumns + `, case when j.doomed then 'lost' else '' end, j.old_until, j.old_holder
from claimed j`

// Claim implements [later.Worker].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	queues, limits := make([]string, len(req.Queues)), make([]int32, len(req.Queues))
	order := make(map[string]int, len(req.Queues))
	for i, q := range req.Queues {
		queues[i], limits[i] = q.Queue, int32(min(q.Limit, maxClaim))
		order[q.Queue] = i
	}
	jobs, err := query(ctx, s, statement{
		name: fmt.Sprintf("claim %d jobs", req.Limit),
		sql:  claimJobs,
		args: []any{
			queues, limits, int32(min(req.Limit, maxClaim)), req.Kinds, int32(later.SuspectCrashes),
			req.Worker, req.Token, micros(req.Lease), !s.config.NoLog,
		},
	}, s.scanClaimed(req.Token))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b *later.Claimed) int {
		return cmp.Or(cmp.Compare(order[a.Queue], order[b.Queue]), compareReady(a, b))
	})
	return jobs, nil
}

// maxClaim bounds one claim; more could not be run within any lease.
const maxClaim = 100_000

// compareReady is the order in which jobs of one queue are run.
func compareReady(a, b *later.Claimed) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
}

// scanClaimed scans recordColumns, the doom, and the end and the holder of the
// lease that was lost.
func (s *Store) scanClaimed(token int64) pgx.RowToFunc[*later.Claimed] {
	return func(row pgx.CollectableRow) (*later.Claimed, error) {
		var r recordRow
		var lostAt *time.Time
		var lostWorker *string
		c := &later.Claimed{}
		if err := row.Scan(append(r.dest(), (*string)(&c.Doom), &lostAt, &lostWorker)...); err != nil {
			return nil, err
		}
		c.Record = r.record(s)
		c.Lease = later.Lease{ID: c.ID, Token: token}
		c.LostAt = timeOrZero(lostAt)
		if lostWorker != nil {
			c.LostWorker = *lostWorker
		}
		return c, nil
	}
}

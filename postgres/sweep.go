package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/later-queue/later"
)

// sweepJobs finds what claims leave: by the partial index job_doomed what was
// cancelled or lost, and by job_expires what has expired, and, if it is wanted, one
// suspect. Each has its own index, so each is a branch of its own; a row that
// two of them find is locked once and updated once.
const sweepJobs = `
with doomed as materialized (
  select j.ctid, j.id
  from {schema}.job j
  where (j.crashes > 0 or j.cancel_at is not null)
    and (j.lease_until is null or j.lease_until < now())
    and (j.cancel_at is not null
      or j.crashes + (j.lease_until is not null)::int >= $2
      or j.max_attempts = 1 and j.crashes + (j.lease_until is not null)::int >= $3)
  order by j.id
  limit $1
  for update skip locked
),
expired as materialized (
  select j.ctid, j.id
  from {schema}.job j
  where j.expires_at <= now()
    and (j.lease_until is null or j.lease_until < now())
  order by j.expires_at
  limit $1
  for update skip locked
),
suspect as materialized (
  select j.ctid, j.id
  from {schema}.job j
  where $4
    and j.crashes > 0
    and j.crashes + (j.lease_until is not null)::int between $3 and $2 - 1
    and j.max_attempts > 1
    and j.queue = any($5::text[])
    and j.kind = any($6::text[])
    and j.run_at <= now()
    and j.cancel_at is null
    and (j.expires_at is null or j.expires_at > now())
    and (j.lease_until is null or j.lease_until < now())
  order by j.priority, j.run_at, j.id
  limit 1
  for update skip locked
),
old as materialized (
  select j.ctid, j.attempt, j.lease_until, j.lease_holder, j.claimed_at,
    case
      when j.cancel_at is not null then 'cancelled'
      when j.expires_at <= now() then 'expired'
      when picked.doomed then 'lost'
      else ''
    end as doom
  from (
    select ends.ctid, true as doomed
    from (
      select ctid, id from doomed
      union
      select ctid, id from expired
      order by id
      limit $1
    ) ends
    union all
    select ctid, false from suspect
  ) picked
  join {schema}.job j on j.ctid = picked.ctid
),
claimed as (
  update {schema}.job j
  set lease_until  = now() + $9::bigint * interval '1 microsecond',
      lease_token  = $8,
      lease_holder = $7,
      claimed_at   = case when old.doom = '' then now() end,
      crashes      = j.crashes + (old.lease_until is not null)::int,
      attempt      = case when old.doom = '' then least(j.attempt, 2147483646) + 1 else j.attempt end
  from old
  where j.ctid = old.ctid
  returning ` + recordColumns + `, old.doom,
    old.lease_until as old_until, old.lease_holder as old_holder, old.claimed_at as old_claimed_at,
    old.attempt as old_attempt
),
lost as (
  insert into {schema}.job_log
    (job_id, started_at, finished_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, old_claimed_at, old_until, old_attempt, queue, kind, tenant, 'lost', old_holder, ''
  from claimed
  where $10 and old_until is not null
)
select ` + recordColumns + `, j.doom, j.old_until, j.old_holder
from claimed j`

// Sweep implements [later.Worker].
func (s *Store) Sweep(ctx context.Context, req later.SweepRequest) ([]*later.Claimed, error) {
	jobs, err := query(ctx, s, statement{
		name: "sweep",
		sql:  sweepJobs,
		args: []any{
			int32(min(req.Limit, maxClaim)), int32(later.CrashLimit), int32(later.SuspectCrashes),
			req.Suspect, req.Queues, req.Kinds, req.Worker, req.Token, micros(req.Lease), !s.config.NoLog,
		},
	}, s.scanClaimed(req.Token))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b *later.Claimed) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, nil
}

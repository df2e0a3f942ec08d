package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// sweepJobs finds what claims leave: through the partial index job_doomed what was
// cancelled or lost, and through job_expires what has expired. Nothing in crashed
// fits any other index, so that no plan can take one. Then it locks what it
// wants, and goes on with the rows as the locks returned them.
const sweepJobs = `
with crashed as materialized (
  select j.ctid, j.id, j.priority, j.run_at, j.queue, j.kind, j.max_attempts,
         j.cancel_at is not null as cancelled,
         coalesce(j.expires_at <= now(), false) as expired,
         j.crashes + (j.lease_until is not null)::int as losses
  from {schema}.job j
  where (j.crashes > 0 or j.cancel_at is not null)
    and (j.lease_until is null or j.lease_until < now())
),
expired as materialized (
  select j.ctid, j.id
  from {schema}.job j
  where j.expires_at <= now()
    and (j.lease_until is null or j.lease_until < now())
  order by j.expires_at
  limit $1
),
ends as (
  select c.ctid, c.id
  from crashed c
  where c.cancelled or c.losses >= $2 or c.max_attempts = 1 and c.losses >= $3
  union
  select e.ctid, e.id
  from expired e
  order by id
  limit $1
),
suspect as (
  select c.ctid
  from crashed c
  where $4
    and not c.cancelled and not c.expired and c.max_attempts > 1
    and c.losses between $3 and $2 - 1
    and c.queue = any($5::text[])
    and c.kind = any($6::text[])
    and c.run_at <= now()
  order by c.priority, c.run_at, c.id
  limit 1
),
old as materialized (
  select j.ctid, j.attempt, j.lease_until, j.lease_holder, j.claimed_at,
    case
      when j.cancel_at is not null then 'cancelled'
      when j.expires_at <= now() then 'expired'
      when j.crashes + (j.lease_until is not null)::int >= $2 or j.max_attempts = 1 then 'lost'
      else ''
    end as doom
  from {schema}.job j
  where j.ctid = any(array(select ctid from ends union all select ctid from suspect))
    and (j.lease_until is null or j.lease_until < now())
  for update skip locked
),
claimed as (
  update {schema}.job j
  set lease_until  = now() + $9::bigint * interval '1 microsecond',
      lease_token  = $8,
      lease_holder = $7,
      claimed_at   = case when old.doom = '' then now() end,
      crashes      = least(j.crashes, 999999) + (old.lease_until is not null)::int,
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
	}, func(row pgx.CollectableRow) (*later.Claimed, error) {
		var r claimedRow
		if err := row.Scan(r.dest()...); err != nil {
			return nil, err
		}
		return r.claimed(s, req.Token), nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b *later.Claimed) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, nil
}

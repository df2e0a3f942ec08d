package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// sweepJobs finds what claims leave, each reason through an index of its own:
// what was cancelled through job_cancelled, what has expired through job_expires, what
// was lost too often through job_crashed, and jobs of one attempt through
// job_crashed_only. Each look is in its index's order and ends when it has
// enough, so that a hundred thousand rows of one reason cost as much as a
// hundred. Only rows that are still leased are passed over one by one. Suspects come
// through job_suspect, the first of each queue and kind. Then it locks what it
// wants, and goes on with the rows as the locks returned them.
var sweepJobs = `
with cancelled as materialized (
  select j.ctid, j.id
  from {schema}.job j
  where j.cancel_at is not null
    and (j.lease_until is null or j.lease_until < now())
  order by j.cancel_at
  limit $1
),
expired as materialized (
  select j.ctid, j.id
  from {schema}.job j
  where j.expires_at <= now()
    and (j.lease_until is null or j.lease_until < now())
  order by j.expires_at
  limit $1
),
crashed as materialized (
  select j.ctid, j.id
  from {schema}.job j
  where j.crashes > 0
    and j.crashes >= $2 - 1
    and j.crashes + (j.lease_until is not null)::int >= $2
    and (j.lease_until is null or j.lease_until < now())
  order by j.crashes, j.id + 0
  limit $1
),
crashed_only as materialized (
  select j.ctid, j.id
  from {schema}.job j
  where j.crashes > 0
    and j.max_attempts = 1
    and j.crashes + (j.lease_until is not null)::int >= $3
    and (j.lease_until is null or j.lease_until < now())
  order by j.id + 0
  limit $1
),
ends as (
  select ctid, id from cancelled
  union
  select ctid, id from expired
  union
  select ctid, id from crashed
  union
  select ctid, id from crashed_only
  order by id
  limit $1
),
suspect as (` + sweptSuspect + `),
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
  select id, old_claimed_at, now(), old_attempt, queue, kind, tenant, 'lost', old_holder, ''
  from claimed
  where $10 and old_until is not null
)
select ` + recordColumns + `, j.doom, j.old_until, j.old_holder
from claimed j`

// Sweep implements [later.Runner]. A suspect that is under a limit is not among what one statement
// gives: see [Store.admitSuspect].
func (s *Store) Sweep(ctx context.Context, req later.SweepRequest) ([]*later.Claimed, error) {
	set := &gateSet{}
	if req.Suspect {
		var err error
		if set, err = s.readGates(ctx); err != nil { // what was known may have changed
			return nil, err
		}
	}
	args := s.sweepArgs(set, req)
	if set.limits.Any() {
		args[3] = false
	}
	jobs, err := query(ctx, s, statement{name: "sweep", sql: sweepJobs, args: args}, s.sweptRow(req))
	if err != nil {
		return nil, err
	}
	if req.Suspect && args[3] == false {
		suspect, err := s.admitSuspect(ctx, set, req)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, suspect...)
	}
	slices.SortFunc(jobs, func(a, b *later.Claimed) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, nil
}

func (s *Store) sweepArgs(set *gateSet, req later.SweepRequest) []any {
	return []any{
		int32(min(req.Limit, maxClaim)), int32(later.CrashLimit), int32(later.SuspectCrashes),
		req.Suspect, set.openNames(later.ScopeQueue, req.Queues), set.openNames(later.ScopeKind, req.Kinds),
		req.Worker, req.Token, micros(req.Lease), !s.config.NoLog, append([]string{}, set.tenants...), req.Tenants, (*int64)(nil), set.version,
	}
}

// sweptRow reads a row of sweepJobs.
func (s *Store) sweptRow(req later.SweepRequest) pgx.RowToFunc[*later.Claimed] {
	return func(row pgx.CollectableRow) (*later.Claimed, error) {
		var r recordRow
		c := &later.Claimed{}
		var lostAt *time.Time
		var holder *string
		if err := row.Scan(append(r.dest(), &c.Doom, &lostAt, &holder)...); err != nil {
			return nil, err
		}
		c.Record, c.LostAt = r.record(s), timeOrZero(lostAt)
		c.Lease = later.Lease{ID: c.ID, Token: req.Token}
		if holder != nil {
			c.LostWorker = *holder
		}
		return c, nil
	}
}

package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// settleDone ends attempts that all succeeded, which is what most batches are.
// It goes through the primary key in the order of its input, which is sorted, so
// that two batches lock in the same order.
const settleDone = `
with removed as (
  delete from {schema}.job j
  using unnest($1::bigint[], $2::bigint[]) as i (id, token)
  where j.id = i.id and j.lease_token = i.token
  returning j.id, j.claimed_at, j.attempt, j.queue, j.kind, j.tenant, j.lease_holder
),
logged as (
  insert into {schema}.job_log (job_id, started_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, claimed_at, attempt, queue, kind, tenant, 'done', lease_holder, ''
  from removed
  where $3
)
select id from removed`

// settleJobs ends attempts in every way. held locks the rows, in the order of
// their ids, and has them as they are after whatever was waited for; what is
// not there any more, or has another token, is in none of the parts.
const settleJobs = `
with held as materialized (
  select j.id, j.claimed_at, j.attempt, j.lease_token, j.lease_holder,
         i.outcome, i.delay_us, i.reason, i.error, i.errors
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[])
    as i (id, token, outcome, delay_us, reason, error, errors)
  join {schema}.job j on j.id = i.id and j.lease_token = i.token
  order by j.id
  for update of j
),
removed as (
  delete from {schema}.job j
  using held h
  where j.id = h.id and j.lease_token = h.lease_token
    and h.outcome in ('done', 'cancelled', 'expired', 'dead')
  returning ` + recordColumns + `, j.claimed_at, j.lease_holder,
    h.outcome, h.reason, h.error, h.errors as new_errors
),
buried as (
  insert into {schema}.dead_job
    (id, run_at, created_at, expires_at, attempt, max_attempts, timeout_ms, crashes, generation, priority,
     queue, kind, tenant, reason, error, payload, headers, errors, checkpoint)
  select id, run_at, created_at, expires_at, attempt, max_attempts, timeout_ms, crashes, generation, priority,
         queue, kind, tenant, reason, error, payload, headers, new_errors::json, checkpoint
  from removed
  where outcome = 'dead'
  -- Only if somebody copied a dead job back by hand and left it here as well.
  on conflict (id) do update set
    run_at = excluded.run_at, created_at = excluded.created_at, expires_at = excluded.expires_at,
    died_at = excluded.died_at, attempt = excluded.attempt, max_attempts = excluded.max_attempts,
    timeout_ms = excluded.timeout_ms, crashes = excluded.crashes, generation = excluded.generation,
    priority = excluded.priority, queue = excluded.queue, kind = excluded.kind, tenant = excluded.tenant,
    reason = excluded.reason, error = excluded.error, payload = excluded.payload,
    headers = excluded.headers, errors = excluded.errors, checkpoint = excluded.checkpoint
),
kept as (
  update {schema}.job j
  set run_at = case
        when h.outcome = 'released' then j.run_at
        else least(now() + h.delay_us * interval '1 microsecond', '9999-12-31 23:59:59.999999+00')
      end,
      attempt = case when h.outcome = 'retry' then j.attempt else greatest(j.attempt - 1, 0) end,
      errors  = case when h.outcome = 'retry' then h.errors::json else j.errors end,
      lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
  from held h
  where j.id = h.id and j.lease_token = h.lease_token
    and h.outcome in ('retry', 'snoozed', 'released')
  returning j.id, h.claimed_at, h.attempt, j.queue, j.kind, j.tenant, h.outcome, h.lease_holder, h.error
),
logged as (
  insert into {schema}.job_log (job_id, started_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, claimed_at, attempt, queue, kind, tenant, outcome, lease_holder, error
  from removed
  where $8
  union all
  select id, claimed_at, attempt, queue, kind, tenant, outcome, lease_holder, error
  from kept
  where $8 and outcome <> 'released'
)
select id from removed
union all
select id from kept`

// Settle implements [later.Worker].
func (s *Store) Settle(ctx context.Context, settlements []later.Settlement) (refused []later.Lease, err error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	st, err := s.settleStatement(settlements)
	if err != nil {
		return nil, err
	}
	settled, err := query(ctx, s, st, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	if len(settled) == len(settlements) {
		return nil, nil
	}
	accepted := make(map[int64]bool, len(settled))
	for _, id := range settled {
		accepted[id] = true
	}
	for _, end := range settlements {
		if !accepted[end.Lease.ID] {
			refused = append(refused, end.Lease)
		}
	}
	return refused, nil
}

func (s *Store) settleStatement(settlements []later.Settlement) (statement, error) {
	name := fmt.Sprintf("settle %d jobs", len(settlements))
	settlements = slices.Clone(settlements)
	slices.SortFunc(settlements, func(a, b later.Settlement) int { return cmp.Compare(a.Lease.ID, b.Lease.ID) })

	n := len(settlements)
	ids, tokens := make([]int64, n), make([]int64, n)
	outcomes, delays := make([]string, n), make([]int64, n)
	reasons, texts, errors := make([]string, n), make([]string, n), make([]*string, n)
	allDone := true
	for i, end := range settlements {
		switch end.Outcome {
		case later.OutcomeDone, later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased,
			later.OutcomeDead, later.OutcomeCancelled, later.OutcomeExpired:
		default:
			return statement{}, fmt.Errorf("%s: %q is not an outcome that ends an attempt", name, end.Outcome)
		}
		ids[i], tokens[i] = end.Lease.ID, end.Lease.Token
		outcomes[i], delays[i], reasons[i] = string(end.Outcome), micros(end.Delay), string(end.Reason)
		// A text that cannot be stored would keep the whole batch from ending.
		texts[i] = later.CleanText(end.Error, later.MaxErrorBytes)
		allDone = allDone && end.Outcome == later.OutcomeDone && end.Error == ""
		if len(end.Errors) > 0 {
			data, err := json.Marshal(end.Errors)
			if err != nil {
				return statement{}, fmt.Errorf("%s: errors of job %d: %w", name, end.Lease.ID, err)
			}
			text := string(data)
			errors[i] = &text
		}
	}
	if allDone {
		return statement{name: name, sql: settleDone, args: []any{ids, tokens, !s.config.NoLog}}, nil
	}
	return statement{name: name, sql: settleJobs, args: []any{
		ids, tokens, outcomes, delays, reasons, texts, errors, !s.config.NoLog,
	}}, nil
}

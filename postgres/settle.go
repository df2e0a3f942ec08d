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

// In the statements below, $1 are the jobs' ids in ascending order and the other
// arrays belong to them, so that width_bucket, which searches by halving, finds a
// job's place in them. A join would be plainer, but a plan that was made for a
// small table might then read all of a large one. The primary key gives the
// rows in the order of their ids, so that no two batches lock crosswise.

// heldBy is the fence.
const heldBy = `j.id = any($1::bigint[]) and j.lease_token = ($2::bigint[])[width_bucket(j.id, $1::bigint[])]`

// settleDone ends attempts that all succeeded, which is what most batches are.
const settleDone = `
with removed as (
  delete from {schema}.job j
  where ` + heldBy + `
  returning j.id, j.claimed_at, j.attempt, j.queue, j.kind, j.tenant, j.lease_holder
),
logged as (
  insert into {schema}.job_log (job_id, started_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, claimed_at, attempt, queue, kind, tenant, 'done', lease_holder, ''
  from removed
  where $3
)
select id from removed`

// settleJobs ends attempts in every way. held locks the rows and has them as they
// are after whatever was waited for; of what is not there any more, or has another
// token, it has none.
const settleJobs = `
with held as materialized (
  select j.id, j.claimed_at, j.attempt, j.queue, j.kind, j.tenant, j.lease_holder,
         ($3::text[])[width_bucket(j.id, $1::bigint[])] as outcome,
         ($6::text[])[width_bucket(j.id, $1::bigint[])] as error
  from {schema}.job j
  where ` + heldBy + `
  for update
),
removed as (
  delete from {schema}.job j
  where j.id = any(array(select h.id from held h where h.outcome in ('done', 'cancelled', 'expired')))
  returning j.id
),
died as (
  delete from {schema}.job j
  where j.id = any(array(select h.id from held h where h.outcome = 'dead'))
  returning ` + recordColumns + `, j.unique_key, j.unique_until,
    ($5::text[])[width_bucket(j.id, $1::bigint[])] as reason,
    ($6::text[])[width_bucket(j.id, $1::bigint[])] as error,
    ($7::text[])[width_bucket(j.id, $1::bigint[])]::json as new_errors
),
buried as (
  insert into {schema}.dead_job
    (id, run_at, created_at, expires_at, attempt, max_attempts, timeout_ms, failures, crashes, generation, priority,
     queue, kind, tenant, reason, error, payload, headers, errors, checkpoint, unique_key, unique_until)
  select id, run_at, created_at, expires_at, attempt, max_attempts, timeout_ms,
         least(failures, 2147483646) + (reason <> 'lost')::int, crashes, generation, priority,
         queue, kind, tenant, reason, error, payload, headers, new_errors, checkpoint, unique_key, unique_until
  from died
  -- Only if somebody copied a dead job back by hand and left it here as well.
  on conflict (id) do update set
    run_at = excluded.run_at, created_at = excluded.created_at, expires_at = excluded.expires_at,
    died_at = excluded.died_at, attempt = excluded.attempt, max_attempts = excluded.max_attempts,
    timeout_ms = excluded.timeout_ms, failures = excluded.failures, crashes = excluded.crashes,
    generation = excluded.generation,
    priority = excluded.priority, queue = excluded.queue, kind = excluded.kind, tenant = excluded.tenant,
    reason = excluded.reason, error = excluded.error, payload = excluded.payload,
    headers = excluded.headers, errors = excluded.errors, checkpoint = excluded.checkpoint,
    unique_key = excluded.unique_key, unique_until = excluded.unique_until
),
retried as (
  update {schema}.job j
  set run_at = least(
        now() + ($4::bigint[])[width_bucket(j.id, $1::bigint[])] * interval '1 microsecond',
        '9999-12-31 23:59:59.999999+00'),
      errors = ($7::text[])[width_bucket(j.id, $1::bigint[])]::json,
      failures = least(j.failures, 2147483646) + 1, crashes = 0,
      lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
  where j.id = any(array(select h.id from held h where h.outcome = 'retry'))
  returning j.id
),
snoozed as (
  update {schema}.job j
  set run_at = least(
        now() + ($4::bigint[])[width_bucket(j.id, $1::bigint[])] * interval '1 microsecond',
        '9999-12-31 23:59:59.999999+00'),
      attempt = greatest(j.attempt - 1, 0), crashes = 0,
      lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
  where j.id = any(array(select h.id from held h where h.outcome = 'snoozed'))
  returning j.id
),
released as (
  update {schema}.job j
  set attempt = greatest(j.attempt - 1, 0),
      lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
  where j.id = any(array(select h.id from held h where h.outcome = 'released'))
  returning j.id, {schema}.wake(j.queue::text)
),
logged as (
  insert into {schema}.job_log (job_id, started_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, claimed_at, attempt, queue, kind, tenant, outcome, lease_holder, error
  from held
  where $8 and outcome <> 'released'
)
select id from removed
union all
select id from died
union all
select id from retried
union all
select id from snoozed
union all
select id from released`

// Settle implements [later.Runner].
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
	if s.holding.ended(settlements) {
		s.ear.wakeAll()
	}
	if slices.ContainsFunc(settlements, func(end later.Settlement) bool { return end.Outcome == later.OutcomeReleased }) {
		s.rotations.forget()
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

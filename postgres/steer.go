package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// Each statement locks the job first and then goes by what the lock returned:
// the row as it is after whatever was waited for.

const cancelJob = `
with target as materialized (
  select id, coalesce(lease_until >= now(), false) as running
  from {schema}.job
  where id = $1
  for update
),
asked as (
  update {schema}.job j
  set cancel_at = coalesce(j.cancel_at, now())
  from target t
  where j.id = t.id and t.running
  returning true as running
),
removed as (
  delete from {schema}.job j
  using target t
  where j.id = t.id and not t.running
  returning j.*
),
logged as (` + logRemoved + `)
select running from asked
union all
select false from removed`

// logRemoved logs the jobs of removed with the outcome $2, after the loss of the
// lease that one still had, if $3.
const logRemoved = `
  insert into {schema}.job_log
    (job_id, started_at, finished_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, claimed_at, lease_until, attempt, queue, kind, tenant, 'lost', lease_holder, ''
  from removed
  where $3 and lease_until is not null
  union all
  select id, null, now(), attempt, queue, kind, tenant, $2, '', ''
  from removed
  where $3`

// Cancel implements [later.Operator].
func (s *Store) Cancel(ctx context.Context, id int64) (running bool, err error) {
	defer s.steered()
	name := fmt.Sprintf("cancel job %d", id)
	found, err := query(ctx, s, statement{
		name: name, sql: cancelJob, args: []any{id, string(later.OutcomeCancelled), !s.config.NoLog}, plain: true,
	}, pgx.RowTo[bool])
	if err != nil {
		return false, err
	}
	if len(found) == 0 {
		return false, fmt.Errorf("%s: %w", name, later.ErrNotFound)
	}
	return found[0], nil
}

const deleteJob = `
with target as materialized (
  select id, coalesce(lease_until >= now(), false) as running
  from {schema}.job
  where id = $1
  for update
),
removed as (
  delete from {schema}.job j
  using target t
  where j.id = t.id and not t.running
  returning j.*
),
logged as (` + logRemoved + `),
dropped as (
  delete from {schema}.dead_job d
  where d.id = $1 and not exists (select from target)
  returning d.*
),
logged_dead as (` + logDropped + `)
select running from target
union all
select false from dropped`

// logDropped logs the dead jobs of dropped with the outcome $2, if $3.
const logDropped = `
  insert into {schema}.job_log (job_id, attempt, queue, kind, tenant, outcome, worker, error)
  select id, attempt, queue, kind, tenant, $2, '', ''
  from dropped
  where $3`

// Delete implements [later.Operator].
func (s *Store) Delete(ctx context.Context, id int64) error {
	defer s.steered()
	return s.steer(ctx, statement{
		name: fmt.Sprintf("delete job %d", id), sql: deleteJob, args: []any{id, string(later.OutcomeDeleted), !s.config.NoLog},
	})
}

// retryJob leaves a job that is due already where it is: it keeps its place. A dead one
// goes only when it is back: not when somebody else holds its key.
const retryJob = `
with target as materialized (
  select id, coalesce(lease_until >= now(), false) as running
  from {schema}.job
  where id = $1
  for update
),
hurried as (
  update {schema}.job j
  set run_at = now()
  from target t
  where j.id = t.id and not t.running and j.run_at > now()
  returning {schema}.wake(j.queue::text)
),
dead as materialized (
  select d.*
  from {schema}.dead_job d
  where d.id = $1 and not exists (select from target)
  for update
),
revived as (` + reviveDead + `),
removed as (` + removeRevived + `)
select case when running then 'running' else 'waits' end from target
union all
select case when exists (select from revived) then 'revived' else 'held' end from dead`

// reviveDead brings the jobs of dead back, but for those whose key is held, by another of
// them perhaps.
const reviveDead = `
  insert into {schema}.job
    (id, created_at, max_attempts, timeout_ms, generation, priority, queue, kind, tenant,
     payload, headers, errors, checkpoint, unique_key, unique_until)
  overriding system value
  select id, created_at, max_attempts, timeout_ms, least(generation, 2147483646) + 1, priority, queue, kind, tenant,
         payload, headers, errors, checkpoint, unique_key, unique_until
  from dead
  on conflict do nothing
  returning id`

const removeRevived = `
  delete from {schema}.dead_job d
  using revived
  where d.id = revived.id`

// Retry implements [later.Operator].
func (s *Store) Retry(ctx context.Context, id int64) error {
	defer s.steered()
	name := fmt.Sprintf("retry job %d", id)
	for try := 1; ; try++ {
		found, err := query(ctx, s, statement{name: name, sql: retryJob, args: []any{id}, plain: true}, pgx.RowTo[string])
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return fmt.Errorf("%s: %w", name, later.ErrNotFound)
		case found[0] == "running":
			return fmt.Errorf("%s: %w", name, later.ErrRunning)
		case found[0] != "held":
			return nil
		}
		held, err := s.keyHeld(ctx, later.Filter{IDs: []int64{id}})
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case held != nil:
			return fmt.Errorf("%s: %w", name, held)
		case try == maxTries: // the key is taken and freed again all the time
			return fmt.Errorf("%s: %w", name, later.ErrKeyHeld)
		}
	}
}

// steer runs a statement whose one row says whether the job is running.
func (s *Store) steer(ctx context.Context, st statement) error {
	st.plain = true
	found, err := query(ctx, s, st, pgx.RowTo[bool])
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("%s: %w", st.name, later.ErrNotFound)
	case found[0]:
		return fmt.Errorf("%s: %w", st.name, later.ErrRunning)
	}
	return nil
}

// retryDead and dropDead lock the dead jobs that a filter selects, the lowest ids
// first. One that waits again under the same id, because somebody has copied it
// by hand, is not retried, and neither is one whose key is held.
const retryDead = `
with dead as materialized (
  select j.*
  from {schema}.dead_job j
  where $1 in ('', 'dead')
    and ` + deadFilter + `
    and not exists (select from {schema}.job w where w.id = j.id)
    and not exists (
      select from {schema}.job w where w.tenant = j.tenant and w.kind = j.kind and w.unique_key = j.unique_key)
  order by j.id
  limit $9
  for update of j
),
revived as (` + reviveDead + `),
removed as (` + removeRevived + `)
select dead.id in (select id from revived) from dead`

// RetryDead implements [later.Operator].
func (s *Store) RetryDead(ctx context.Context, f later.Filter) (int, error) {
	defer s.steered()
	const name = "retry dead jobs"
	f.State = later.StateDead
	for try := 1; ; try++ {
		picked, err := query(ctx, s, statement{name: name, sql: retryDead, args: filterArgs(f), plain: true}, pgx.RowTo[bool])
		if err != nil {
			return 0, err
		}
		n := 0
		for _, revived := range picked {
			if revived {
				n++
			}
		}
		if n > 0 {
			return n, nil
		}
		if len(picked) > 0 && try < maxTries {
			continue // their keys were taken at this moment: are there others?
		}
		held, err := s.keyHeld(ctx, f)
		if err == nil && held != nil {
			err = held
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return 0, nil
	}
}

const dropDead = `
with picked as materialized (
  select j.id
  from {schema}.dead_job j
  where $1 in ('', 'dead')
    and ` + deadFilter + `
  order by j.id
  limit $9
  for update
),
dropped as (
  delete from {schema}.dead_job d
  using picked
  where d.id = picked.id
  returning d.*
),
logged as (
  insert into {schema}.job_log (job_id, attempt, queue, kind, tenant, outcome, worker, error)
  select id, attempt, queue, kind, tenant, 'deleted', '', ''
  from dropped
  where $10
)
select id from dropped`

// DropDead implements [later.Operator].
func (s *Store) DropDead(ctx context.Context, f later.Filter) (int, error) {
	return s.eachDead(ctx, statement{name: "drop dead jobs", sql: dropDead, args: []any{!s.config.NoLog}}, f)
}

func (s *Store) eachDead(ctx context.Context, st statement, f later.Filter) (int, error) {
	defer s.steered()
	f.State = later.StateDead
	st.args, st.plain = append(filterArgs(f), st.args...), true
	ids, err := query(ctx, s, st, pgx.RowTo[int64])
	return len(ids), err
}

// steered has the workers of this process look again at what limits hold back: it may have
// waited for a job that a person has dealt with.
func (s *Store) steered() {
	s.holding.reset()
	s.gates.mu.Lock()
	known := s.gates.known
	s.gates.mu.Unlock()
	if known != nil && known.limits.Any() {
		s.ear.wakeAll()
	}
}

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

const countJobs = `select queue, state, count, oldest from {schema}.status order by queue, state`

// Status implements [later.Operator].
func (s *Store) Status(ctx context.Context) ([]later.StatusRow, error) {
	return query(ctx, s, statement{name: "status", sql: countJobs, plain: true},
		func(row pgx.CollectableRow) (later.StatusRow, error) {
			var r later.StatusRow
			var oldest *time.Time
			err := row.Scan(&r.Queue, &r.State, &r.Count, &oldest)
			r.Oldest = timeOrZero(oldest)
			return r, err
		})
}

// listedColumns are recordColumns without the two that can be large, if $10 says
// so: they stay where they are, out of the row.
var listedColumns = strings.NewReplacer(
	"j.payload", "case when not $10 then j.payload end",
	"j.checkpoint", "case when not $10 then j.checkpoint end",
).Replace(recordColumns)

// listJobs reads backwards through the two primary keys until it has enough.
var listJobs = `
select ` + listedColumns + `,
  j.state, j.lease_holder, j.claimed_at, j.lease_until, j.cancel_at, j.died_at, j.reason,
  coalesce(j.unique_key, ''), coalesce(j.unique_until = 'started', false), now()
from (
  (
    select waiting.*
    from (
      select ` + recordColumns + `,
        j.lease_holder, j.claimed_at, j.lease_until, j.cancel_at, null::timestamptz as died_at, '' as reason,
        j.unique_key, j.unique_until,
        case
          when j.lease_until >= now() then 'running'
          when j.lease_until < now() then 'lost'
          when j.run_at <= now() then 'ready'
          when j.attempt > 0 then 'retry'
          else 'scheduled'
        end as state
      from {schema}.job j
      where ($2 = '' or j.queue = $2)
        and ($3 = '' or j.kind = $3)
        and ($4::text is null or j.tenant = $4)
        and (cardinality($5::bigint[]) = 0 or j.id = any($5))
        and ($6::bigint = 0 or j.id < $6)
    ) waiting
    where ($1 = '' or waiting.state = $1)
      and $7 = '' and $8 = ''
    order by waiting.id desc
    limit $9
  )
  union all
  (
    select ` + recordColumns + `,
      null, null, null, null, j.died_at, j.reason, j.unique_key, j.unique_until, 'dead' as state
    from {schema}.dead_job j
    where $1 in ('', 'dead')
      and ` + deadFilter + `
    order by j.id desc
    limit $9
  )
) j
order by j.id desc, j.state = 'dead'
limit $9`

// deadFilter selects dead jobs by $2 to $8; $1 is the state.
const deadFilter = `($2 = '' or j.queue = $2)
      and ($3 = '' or j.kind = $3)
      and ($4::text is null or j.tenant = $4)
      and (cardinality($5::bigint[]) = 0 or j.id = any($5))
      and ($6::bigint = 0 or j.id < $6)
      and ($7 = '' or strpos(j.error, $7) > 0)
      and ($8 = '' or j.reason = $8)`

// filterArgs are $1 to $9.
func filterArgs(f later.Filter) []any {
	ids := f.IDs
	if ids == nil {
		ids = []int64{}
	}
	limit := f.Limit
	if limit <= 0 {
		limit = later.DefaultListLimit
	}
	return []any{string(f.State), f.Queue, f.Kind, f.Tenant, ids, f.Before, f.ErrorLike, string(f.Reason), int64(limit)}
}

// List implements [later.Operator].
func (s *Store) List(ctx context.Context, f later.Filter) ([]*later.JobInfo, error) {
	return query(ctx, s, statement{name: "list jobs", sql: listJobs, args: append(filterArgs(f), f.NoPayload), plain: true}, s.scanInfo)
}

func (s *Store) scanInfo(row pgx.CollectableRow) (*later.JobInfo, error) {
	var r recordRow
	var worker *string
	var claimedAt, leaseUntil, cancelAt, diedAt *time.Time
	var untilStarted bool
	info := &later.JobInfo{}
	dest := append(r.dest(), &info.State, &worker, &claimedAt, &leaseUntil, &cancelAt, &diedAt, (*string)(&info.DeadReason),
		&info.UniqueKey, &untilStarted, &info.Now)
	if err := row.Scan(dest...); err != nil {
		return nil, err
	}
	if untilStarted && info.UniqueKey != "" {
		info.UniqueUntil = later.UntilStarted
	}
	info.Record = r.record(s)
	if worker != nil {
		info.Worker = *worker
	}
	info.ClaimedAt, info.LeaseUntil = timeOrZero(claimedAt), timeOrZero(leaseUntil)
	info.CancelAt, info.DiedAt, info.Now = timeOrZero(cancelAt), timeOrZero(diedAt), info.Now.UTC()
	return info, nil
}

// maxLogOfFind is how many finished attempts Find returns ([later.JobInfo]).
const maxLogOfFind = 100

// readLog relies on the BRIN index on job_id of each day's partition.
const readLog = `
select job_id, attempt, queue, kind, tenant, outcome, worker, started_at, finished_at, error, now()
from {schema}.job_log
where job_id = $1
order by finished_at desc, attempt desc
limit $2`

// Find implements [later.Operator].
func (s *Store) Find(ctx context.Context, id int64) (*later.JobInfo, error) {
	name := fmt.Sprintf("find job %d", id)
	infos, err := s.List(ctx, later.Filter{IDs: []int64{id}, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var now time.Time
	entries, err := query(ctx, s, statement{
		name: name, sql: readLog, args: []any{id, maxLogOfFind}, plain: true,
	}, func(row pgx.CollectableRow) (later.LogEntry, error) {
		var e later.LogEntry
		var started *time.Time
		err := row.Scan(&e.JobID, &e.Attempt, &e.Queue, &e.Kind, &e.Tenant, (*string)(&e.Outcome), &e.Worker,
			&started, &e.FinishedAt, &e.Error, &now)
		e.StartedAt, e.FinishedAt = timeOrZero(started), e.FinishedAt.UTC()
		return e, err
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(entries)
	switch {
	case len(infos) > 0:
		infos[0].Log = entries
		return infos[0], nil
	case len(entries) > 0:
		last := entries[len(entries)-1]
		return &later.JobInfo{State: later.StateEnded, Now: now.UTC(), Log: entries, Record: later.Record{
			ID: id, Queue: last.Queue, Kind: last.Kind, Tenant: last.Tenant, Attempt: last.Attempt,
		}}, nil
	}
	return nil, fmt.Errorf("%s: %w", name, later.ErrNotFound)
}

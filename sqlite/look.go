package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/later-queue/later"
)

// jobState is the state of a row of later_job; ?1 is now. The view later_status
// says the same.
const jobState = `
  case
    when lease_until >= ?1 then 'running'
    when lease_until is not null then 'lost'
    when run_at <= ?1 then 'ready'
    when attempt > 0 then 'retry'
    else 'scheduled'
  end`

const selectStatus = `
with job (queue, state, run_at) as (
  select queue, ` + jobState + `, run_at
  from later_job
  union all
  select queue, 'dead', null
  from later_dead_job
)
select queue, state, count(*), case when state in ('ready', 'lost') then min(run_at) end
from job
group by queue, state
order by queue, state`

// Status implements [later.Operator].
func (s *Store) Status(ctx context.Context) ([]later.StatusRow, error) {
	var list []later.StatusRow
	err := s.snapshot(ctx, func(r reader) error {
		now, err := now(r)
		if err != nil {
			return err
		}
		rows, err := r.query(selectStatus, now)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var row later.StatusRow
			var oldest sql.NullInt64
			if err := rows.Scan(&row.Queue, &row.State, &row.Count, &oldest); err != nil {
				return err
			}
			row.Oldest = toOptionalTime(oldest)
			list = append(list, row)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("status: %w", explain(err))
	}
	return list, nil
}

// maxLog is how many finished attempts Find returns at most ([later.JobInfo]).
const maxLog = 100

const (
	selectJob = `
select ` + jobColumns + `, ` + jobState + `
from later_job
where id = ?2`

	selectDead = `
select ` + deadColumns + `
from later_dead_job
where id = ?`

	selectLog = `
select ` + logColumns + `
from later_job_log
where job_id = ?
order by id desc
limit ?`
)

// Find implements [later.Operator].
func (s *Store) Find(ctx context.Context, id int64) (*later.JobInfo, error) {
	var info *later.JobInfo
	err := s.snapshot(ctx, func(r reader) (err error) {
		info, err = find(r, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find job %d: %w", id, explain(err))
	}
	return info, nil
}

func find(r reader, id int64) (*later.JobInfo, error) {
	now, err := now(r)
	if err != nil {
		return nil, err
	}
	log, err := readLog(r, id)
	if err != nil {
		return nil, err
	}
	info, err := scanJob(r.queryRow(selectJob, now, id), now)
	if errors.Is(err, sql.ErrNoRows) {
		info, err = scanDead(r.queryRow(selectDead, id), now)
	}
	if errors.Is(err, sql.ErrNoRows) {
		if len(log) == 0 {
			return nil, later.ErrNotFound
		}
		last := log[len(log)-1]
		info, err = &later.JobInfo{State: later.StateEnded, Now: toTime(now), Record: later.Record{
			ID: id, Queue: last.Queue, Kind: last.Kind, Tenant: last.Tenant, Attempt: last.Attempt,
		}}, nil
	}
	if err != nil {
		return nil, err
	}
	info.Log = log
	return info, nil
}

func readLog(r reader, id int64) ([]later.LogEntry, error) {
	rows, err := r.query(selectLog, id, maxLog)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var log []later.LogEntry
	for rows.Next() {
		var e later.LogEntry
		var worker, text sql.NullString
		var startedAt sql.NullInt64
		var finishedAt int64
		err := rows.Scan(&e.JobID, &e.Attempt, &e.Queue, &e.Kind, &e.Tenant, &e.Outcome, &worker, &startedAt, &finishedAt, &text)
		if err != nil {
			return nil, err
		}
		e.Worker, e.Error = worker.String, text.String
		e.StartedAt, e.FinishedAt = toOptionalTime(startedAt), toTime(finishedAt)
		log = append(log, e)
	}
	slices.Reverse(log)
	return log, rows.Err()
}

// scanner is a row: *sql.Row or *sql.Rows.
type scanner interface{ Scan(targets ...any) error }

func scanJob(row scanner, now int64) (*later.JobInfo, error) {
	var r jobRow
	info := &later.JobInfo{Now: toTime(now)}
	if err := row.Scan(append(r.targets(), &info.State)...); err != nil {
		return nil, err
	}
	info.Record = r.value()
	info.Worker = r.leaseHolder.String
	info.ClaimedAt, info.LeaseUntil, info.CancelAt = toOptionalTime(r.claimedAt), toOptionalTime(r.leaseUntil), toOptionalTime(r.cancelAt)
	return info, nil
}

func scanDead(row scanner, now int64) (*later.JobInfo, error) {
	var r recordRow
	var diedAt int64
	var text sql.NullString
	info := &later.JobInfo{Now: toTime(now), State: later.StateDead}
	if err := row.Scan(append(r.targets(), &diedAt, &info.DeadReason, &text)...); err != nil {
		return nil, err
	}
	info.Record, info.DiedAt = r.value(), toTime(diedAt)
	return info, nil
}

const (
	// Parameters: now, state, queue, kind, tenant, ids as JSON, before, limit;
	// null selects all.
	selectJobs = `
select ` + jobColumns + `, ` + jobState + `
from later_job
where (?2 is null or ?2 = ` + jobState + `)
  and (?3 is null or queue = ?3)
  and (?4 is null or kind = ?4)
  and (?5 is null or tenant = ?5)
  and (?6 is null or id in (select value from json_each(?6)))
  and (?7 is null or id < ?7)
order by id desc
limit ?8`

	// deadFilter takes the parameters 1 to 7: queue, kind, tenant, ids as JSON,
	// before, part of the error, reason; null selects all.
	deadFilter = `(?1 is null or queue = ?1)
  and (?2 is null or kind = ?2)
  and (?3 is null or tenant = ?3)
  and (?4 is null or id in (select value from json_each(?4)))
  and (?5 is null or id < ?5)
  and (?6 is null or instr(coalesce(error, ''), ?6) > 0)
  and (?7 is null or reason = ?7)`

	selectDeadJobs = `
select ` + deadColumns + `
from later_dead_job
where ` + deadFilter + `
order by id desc
limit ?8`
)

// List implements [later.Operator].
func (s *Store) List(ctx context.Context, f later.Filter) ([]*later.JobInfo, error) {
	var list []*later.JobInfo
	err := s.snapshot(ctx, func(r reader) error {
		now, err := now(r)
		if err != nil {
			return err
		}
		if f.State != later.StateDead && f.ErrorLike == "" && f.Reason == "" {
			rows, err := r.query(selectJobs, now, orNull(string(f.State)), orNull(f.Queue), orNull(f.Kind), f.Tenant, idsOrNull(f.IDs), beforeOrNull(f.Before), limitOf(f))
			if err != nil {
				return err
			}
			if list, err = scanAll(rows, now, list, scanJob); err != nil {
				return err
			}
		}
		if f.State == "" || f.State == later.StateDead {
			rows, err := r.query(selectDeadJobs, append(deadArgs(f), limitOf(f))...)
			if err != nil {
				return err
			}
			if list, err = scanAll(rows, now, list, scanDead); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", explain(err))
	}
	slices.SortFunc(list, func(a, b *later.JobInfo) int { return int(min(max(b.ID-a.ID, -1), 1)) })
	return list[:min(len(list), limitOf(f))], nil
}

func scanAll(rows *sql.Rows, now int64, list []*later.JobInfo, scan func(scanner, int64) (*later.JobInfo, error)) ([]*later.JobInfo, error) {
	defer rows.Close()
	for rows.Next() {
		info, err := scan(rows, now)
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, rows.Err()
}

// deadArgs are the parameters of deadFilter.
func deadArgs(f later.Filter) []any {
	return []any{orNull(f.Queue), orNull(f.Kind), f.Tenant, idsOrNull(f.IDs), beforeOrNull(f.Before), orNull(f.ErrorLike), orNull(string(f.Reason))}
}

func limitOf(f later.Filter) int {
	if f.Limit <= 0 {
		return later.DefaultListLimit
	}
	return f.Limit
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func beforeOrNull(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

func idsOrNull(ids []int64) any {
	if len(ids) == 0 {
		return nil
	}
	text, _ := json.Marshal(ids) // numbers always encode
	return string(text)
}

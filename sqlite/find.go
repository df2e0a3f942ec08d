package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/later-queue/later"
)

// maxLog is how many finished attempts Find returns at most ([later.JobInfo]).
const maxLog = 100

const (
	selectJob = `
select ` + jobColumns + `, ` + keyColumns + `, ` + jobState + `
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
	var k keyRow
	info := &later.JobInfo{Now: toTime(now)}
	if err := row.Scan(append(r.targets(), &k.key, &k.until, &info.State)...); err != nil {
		return nil, err
	}
	info.Record = r.value()
	k.show(info)
	info.Worker = r.leaseHolder.String
	info.ClaimedAt, info.LeaseUntil, info.CancelAt = toOptionalTime(r.claimedAt), toOptionalTime(r.leaseUntil), toOptionalTime(r.cancelAt)
	return info, nil
}

func scanDead(row scanner, now int64) (*later.JobInfo, error) {
	var r recordRow
	var diedAt int64
	var text sql.NullString
	var k keyRow
	info := &later.JobInfo{Now: toTime(now), State: later.StateDead}
	if err := row.Scan(append(r.targets(), &diedAt, &info.DeadReason, &text, &k.key, &k.until)...); err != nil {
		return nil, err
	}
	k.show(info)
	info.Record, info.DiedAt = r.value(), toTime(diedAt)
	return info, nil
}

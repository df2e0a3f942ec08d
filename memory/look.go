package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/later-queue/later"
)

// maxLogOfFind is how many finished attempts Find returns ([later.JobInfo]).
const maxLogOfFind = 100

// Status implements [later.Operator].
func (s *Store) Status(ctx context.Context) ([]later.StatusRow, error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	defer unlock()
	type key struct {
		queue string
		state later.State
	}
	counts := map[key]*later.StatusRow{}
	count := func(queue string, state later.State, runAt time.Time) {
		row := counts[key{queue, state}]
		if row == nil {
			row = &later.StatusRow{Queue: queue, State: state}
			counts[key{queue, state}] = row
		}
		row.Count++
		waiting := state == later.StateReady || state == later.StateLost
		if waiting && (row.Oldest.IsZero() || runAt.Before(row.Oldest)) {
			row.Oldest = runAt
		}
	}
	for _, j := range s.jobs {
		count(j.Queue, stateOf(j, now), j.RunAt)
	}
	for _, d := range s.dead {
		count(d.Queue, later.StateDead, time.Time{})
	}
	rows := make([]later.StatusRow, 0, len(counts))
	for _, row := range counts {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b later.StatusRow) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.State, b.State))
	})
	return rows, nil
}

// Find implements [later.Operator].
func (s *Store) Find(ctx context.Context, id int64) (*later.JobInfo, error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("find job %d: %w", id, err)
	}
	defer unlock()
	log := s.log[id]
	log = log[max(len(log)-maxLogOfFind, 0):]
	var info *later.JobInfo
	switch {
	case s.jobs[id] != nil:
		info = jobInfo(s.jobs[id], now)
	case s.dead[id] != nil:
		info = deadInfo(s.dead[id], now)
	case len(log) > 0:
		last := log[len(log)-1]
		info = &later.JobInfo{State: later.StateEnded, Now: now, Record: later.Record{
			ID: id, Queue: last.Queue, Kind: last.Kind, Tenant: last.Tenant, Attempt: last.Attempt,
		}}
	default:
		return nil, fmt.Errorf("find job %d: %w", id, later.ErrNotFound)
	}
	info.Log = slices.Clone(log)
	return info, nil
}

// List implements [later.Operator].
func (s *Store) List(ctx context.Context, f later.Filter) ([]*later.JobInfo, error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	defer unlock()
	ids := s.selected(f, now)
	infos := make([]*later.JobInfo, 0, min(len(ids), limitOf(f)))
	for _, id := range ids[:cap(infos)] {
		if d := s.dead[id]; d != nil {
			infos = append(infos, deadInfo(d, now))
			continue
		}
		infos = append(infos, jobInfo(s.jobs[id], now))
	}
	if f.NoPayload {
		for _, info := range infos {
			info.Payload, info.Checkpoint = nil, nil
		}
	}
	return infos, nil
}

// selected are the ids of all that f selects, whatever its limit, newest first.
func (s *Store) selected(f later.Filter, now time.Time) []int64 {
	var ids []int64
	for id, j := range s.jobs {
		if selects(f, &j.Record, stateOf(j, now)) && f.ErrorLike == "" && f.Reason == "" {
			ids = append(ids, id)
		}
	}
	for id, d := range s.dead {
		if selects(f, &d.Record, later.StateDead) && strings.Contains(lastError(d), f.ErrorLike) &&
			(f.Reason == "" || f.Reason == d.reason) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
	return ids
}

func selects(f later.Filter, r *later.Record, state later.State) bool {
	return (f.State == "" || f.State == state) &&
		(f.Queue == "" || f.Queue == r.Queue) &&
		(f.Kind == "" || f.Kind == r.Kind) &&
		(f.Tenant == nil || *f.Tenant == r.Tenant) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, r.ID)) &&
		(f.Before == 0 || r.ID < f.Before)
}

func limitOf(f later.Filter) int {
	if f.Limit <= 0 {
		return later.DefaultListLimit
	}
	return f.Limit
}

func lastError(d *deadJob) string {
	if len(d.Errors) == 0 {
		return ""
	}
	return d.Errors[len(d.Errors)-1].Error
}

func stateOf(j *job, now time.Time) later.State {
	switch {
	case j.holds(now):
		return later.StateRunning
	case j.lease != nil:
		return later.StateLost
	case !j.RunAt.After(now):
		return later.StateReady
	case j.Attempt > 0:
		return later.StateRetry
	default:
		return later.StateScheduled
	}
}

func jobInfo(j *job, now time.Time) *later.JobInfo {
	info := &later.JobInfo{Record: copyRecord(j.Record), State: stateOf(j, now), CancelAt: j.cancelAt, Now: now, UniqueKey: j.key}
	if j.key != "" {
		info.UniqueUntil = j.until
	}
	if j.lease != nil {
		info.Worker, info.ClaimedAt, info.LeaseUntil = j.lease.holder, j.lease.claimedAt, j.lease.until
	}
	return info
}

func deadInfo(d *deadJob, now time.Time) *later.JobInfo {
	info := &later.JobInfo{
		Record: copyRecord(d.Record), State: later.StateDead,
		DiedAt: d.diedAt, DeadReason: d.reason, Now: now, UniqueKey: d.key,
	}
	if d.key != "" {
		info.UniqueUntil = d.until
	}
	return info
}

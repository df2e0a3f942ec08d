package memory

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/later-queue/later"
)

// Insert implements [later.Inserter].
func (s *Store) Insert(ctx context.Context, jobs []later.NewJob) ([]later.Enqueued, error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("insert %d jobs: %w", len(jobs), err)
	}
	defer unlock()
	done := make([]later.Enqueued, len(jobs))
	for i, n := range jobs {
		if n.Unique != nil {
			done[i] = s.insertUnique(n, now)
			continue
		}
		done[i].ID = s.insert(n, now).ID
	}
	return done, nil
}

func (s *Store) insert(n later.NewJob, now time.Time) *job {
	s.lastID++
	j := newJob(s.lastID, n, now)
	s.add(j, now)
	return j
}

func newJob(id int64, n later.NewJob, now time.Time) *job {
	j := &job{Record: later.Record{
		ID: id, Queue: n.Queue, Priority: n.Priority, Tenant: n.Tenant, Kind: n.Kind,
		Payload: copyBytes(n.Payload), RunAt: now.Add(n.Delay), MaxAttempts: n.MaxAttempts,
		Timeout: n.Timeout, ExpiresAt: n.ExpiresAt.UTC().Round(0), CreatedAt: now,
	}}
	if !n.RunAt.IsZero() && n.RunAt.After(now) {
		j.RunAt = n.RunAt.UTC().Round(0)
	}
	j.RunAt = inTime(j.RunAt)
	if n.ExpiresIn > 0 {
		j.ExpiresAt = inTime(now.Add(n.ExpiresIn))
	}
	if len(n.Headers) > 0 {
		j.Headers = maps.Clone(n.Headers)
	}
	if u := n.Unique; u != nil && u.Until != later.ForWindow {
		j.key, j.until = u.Key, u.Until
	}
	return j
}

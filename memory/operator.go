package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// Retry implements [later.Operator].
func (s *Store) Retry(ctx context.Context, id int64) error {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("retry job %d: %w", id, err)
	}
	defer unlock()
	if d := s.dead[id]; d != nil {
		if holder := s.holderOf(d); holder != nil {
			return fmt.Errorf("retry: %w", &later.KeyHeldError{Job: id, Key: d.key, Holder: holder.ID, Count: 1})
		}
		s.revive(d, now)
		return nil
	}
	j, err := s.idle(id, now)
	if err != nil {
		return fmt.Errorf("retry job %d: %w", id, err)
	}
	if j.RunAt.After(now) { // a job that waits already keeps its place
		s.move(j, now, now)
	}
	return nil
}

// revive brings a dead job back.
func (s *Store) revive(d *deadJob, now time.Time) {
	delete(s.dead, d.ID)
	j := &job{Record: d.Record, key: d.key, until: d.until}
	j.Attempt, j.Failures, j.Crashes, j.RunAt, j.ExpiresAt = 0, 0, 0, now, time.Time{}
	j.Generation++
	s.add(j, now)
}

// idle returns a job that waits.
func (s *Store) idle(id int64, now time.Time) (*job, error) {
	j := s.jobs[id]
	if j == nil {
		return nil, later.ErrNotFound
	}
	if j.holds(now) {
		return nil, later.ErrRunning
	}
	return j, nil
}

// Cancel implements [later.Operator].
func (s *Store) Cancel(ctx context.Context, id int64) (running bool, err error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return false, fmt.Errorf("cancel job %d: %w", id, err)
	}
	defer unlock()
	j := s.jobs[id]
	if j == nil {
		return false, fmt.Errorf("cancel job %d: %w", id, later.ErrNotFound)
	}
	if j.holds(now) {
		if j.cancelAt.IsZero() {
			j.cancelAt = now
		}
		return true, nil
	}
	s.end(j, later.OutcomeCancelled, now)
	return false, nil
}

// Delete implements [later.Operator].
func (s *Store) Delete(ctx context.Context, id int64) error {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("delete job %d: %w", id, err)
	}
	defer unlock()
	if d := s.dead[id]; d != nil {
		s.drop(d, now)
		return nil
	}
	j, err := s.idle(id, now)
	if err != nil {
		return fmt.Errorf("delete job %d: %w", id, err)
	}
	s.end(j, later.OutcomeDeleted, now)
	return nil
}

// end removes a job that is not running.
func (s *Store) end(j *job, outcome later.Outcome, now time.Time) {
	if j.lease != nil {
		s.record(&j.Record, j.lease, later.OutcomeLost, now, "")
	}
	s.record(&j.Record, nil, outcome, now, "")
	s.remove(j)
}

func (s *Store) drop(d *deadJob, now time.Time) {
	s.record(&d.Record, nil, later.OutcomeDeleted, now, "")
	delete(s.dead, d.ID)
	s.freed(&d.Record)
}

// RetryDead implements [later.Operator].
func (s *Store) RetryDead(ctx context.Context, f later.Filter) (int, error) {
	var held *later.KeyHeldError
	n, err := s.eachDead(ctx, "retry", f, func(d *deadJob, now time.Time) bool {
		if holder := s.holderOf(d); holder != nil {
			if held == nil {
				held = &later.KeyHeldError{Job: d.ID, Key: d.key, Holder: holder.ID}
			}
			held.Count++
			return false
		}
		s.revive(d, now)
		return true
	})
	if n == 0 && err == nil && held != nil {
		err = fmt.Errorf("retry dead jobs: %w", held)
	}
	return n, err
}

// DropDead implements [later.Operator].
func (s *Store) DropDead(ctx context.Context, f later.Filter) (int, error) {
	return s.eachDead(ctx, "drop", f, func(d *deadJob, now time.Time) bool {
		s.drop(d, now)
		return true
	})
}

// eachDead calls act, which reports whether it did anything, until it has done so as
// often as f.Limit says.
func (s *Store) eachDead(ctx context.Context, verb string, f later.Filter, act func(*deadJob, time.Time) bool) (done int, err error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return 0, fmt.Errorf("%s dead jobs: %w", verb, err)
	}
	defer unlock()
	f.State = later.StateDead
	ids := s.selected(f, now)
	slices.Reverse(ids)
	for _, id := range ids {
		if done == limitOf(f) {
			break
		}
		if act(s.dead[id], now) {
			done++
		}
	}
	return done, nil
}

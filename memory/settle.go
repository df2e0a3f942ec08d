package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/later-queue/later"
)

// Settle implements [later.Runner].
func (s *Store) Settle(ctx context.Context, settlements []later.Settlement) (refused []later.Lease, err error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("settle %d jobs: %w", len(settlements), err)
	}
	defer unlock()
	for _, end := range settlements {
		if err := checkOutcome(end.Outcome); err != nil {
			return nil, err // before the first change: all or none
		}
	}
	for _, end := range settlements {
		j := s.held(end.Lease)
		if j == nil {
			refused = append(refused, end.Lease)
			continue
		}
		if end.Outcome != later.OutcomeReleased {
			s.record(&j.Record, j.lease, end.Outcome, now, end.Error)
		}
		s.settle(j, end, now)
	}
	return refused, nil
}

func checkOutcome(o later.Outcome) error {
	switch o {
	case later.OutcomeDone, later.OutcomeCancelled, later.OutcomeExpired, later.OutcomeDead,
		later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased:
		return nil
	}
	return fmt.Errorf("settle: %q is not an outcome that ends an attempt", o)
}

func (s *Store) settle(j *job, end later.Settlement, now time.Time) {
	switch end.Outcome {
	case later.OutcomeDone, later.OutcomeCancelled, later.OutcomeExpired:
		s.remove(j)
	case later.OutcomeDead:
		s.remove(j)
		j.Errors = copyErrors(end.Errors)
		if end.Reason != later.DeadLost {
			j.Failures++
		}
		s.dead[j.ID] = &deadJob{Record: j.Record, key: j.key, until: j.until, diedAt: now, reason: end.Reason}
	case later.OutcomeRetry:
		j.Errors, j.Crashes = copyErrors(end.Errors), 0
		s.giveBack(j)
		j.Failures = min(j.Failures, later.UnlimitedAttempts-1) + 1
		s.move(j, inTime(now.Add(end.Delay)), now)
	case later.OutcomeSnoozed:
		j.Attempt, j.Crashes = max(j.Attempt-1, 0), 0
		s.giveBack(j)
		s.move(j, inTime(now.Add(end.Delay)), now)
	case later.OutcomeReleased:
		j.Attempt = max(j.Attempt-1, 0)
		s.giveBack(j)
		s.wake(j.Queue, j.RunAt, now)
	}
}

// giveBack ends the lease of a job that stays.
func (s *Store) giveBack(j *job) {
	j.lease = nil
	delete(s.leased, j.ID)
	s.freed(&j.Record)
}

// Renew implements [later.Runner].
func (s *Store) Renew(ctx context.Context, leases []later.Lease, d time.Duration) (later.Renewed, error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return later.Renewed{}, fmt.Errorf("renew %d leases: %w", len(leases), err)
	}
	defer unlock()
	var renewed later.Renewed
	for _, l := range leases {
		j := s.held(l)
		if j == nil {
			renewed.Lost = append(renewed.Lost, l)
			continue
		}
		j.lease.until = now.Add(d)
		if !j.cancelAt.IsZero() {
			renewed.Cancelled = append(renewed.Cancelled, l)
		}
	}
	return renewed, nil
}

// CancelRequests implements [later.Runner].
func (s *Store) CancelRequests(ctx context.Context, leases []later.Lease) ([]later.Lease, error) {
	_, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("cancel requests of %d leases: %w", len(leases), err)
	}
	defer unlock()
	var wanted []later.Lease
	for _, l := range leases {
		if j := s.held(l); j != nil && !j.cancelAt.IsZero() {
			wanted = append(wanted, l)
		}
	}
	return wanted, nil
}

// Checkpoint implements [later.Runner].
func (s *Store) Checkpoint(ctx context.Context, l later.Lease, data json.RawMessage) error {
	_, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("checkpoint job %d: %w", l.ID, err)
	}
	defer unlock()
	j := s.held(l)
	if j == nil {
		return later.ErrLeaseLost
	}
	j.Checkpoint = copyBytes(data)
	return nil
}

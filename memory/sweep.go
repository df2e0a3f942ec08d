package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// Sweep implements [later.Runner]. It looks at every job.
func (s *Store) Sweep(ctx context.Context, req later.SweepRequest) ([]*later.Claimed, error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	defer unlock()
	var doomed []*job
	var suspect *job
	gates := s.gatesAt(now)
	for _, j := range s.jobs {
		switch {
		case j.holds(now):
		case doomOf(j, now) != later.DoomNone:
			doomed = append(doomed, j)
		case req.Suspect && isSuspect(j, req, now) && (suspect == nil || before(j, suspect)) && !s.isPaused(j) && gates.lets(j):
			suspect = j
		}
	}
	slices.SortFunc(doomed, func(a, b *job) int { return cmp.Compare(a.ID, b.ID) })
	doomed = doomed[:min(len(doomed), req.Limit)]

	take := taking{now: now, worker: req.Worker, token: req.Token, lease: req.Lease}
	var claimed []*later.Claimed
	for _, j := range doomed {
		claimed = append(claimed, s.take(j, take, doomOf(j, now)))
	}
	if suspect != nil && gates.let(suspect) {
		claimed = append(claimed, s.take(suspect, take, later.DoomNone))
	}
	return claimed, nil
}

// doomOf says why a job that is not running is to be ended, if it is.
func doomOf(j *job, now time.Time) later.Doom {
	switch {
	case !j.cancelAt.IsZero():
		return later.DoomCancelled
	case j.expired(now):
		return later.DoomExpired
	default:
		return lostForGood(j, now)
	}
}

func isSuspect(j *job, req later.SweepRequest, now time.Time) bool {
	return j.Crashes+j.lost(now) >= later.SuspectCrashes && !j.RunAt.After(now) &&
		slices.Contains(req.Queues, j.Queue) && slices.Contains(req.Kinds, j.Kind) &&
		(req.Tenants == nil || slices.Contains(req.Tenants, j.Tenant))
}

func before(a, b *job) bool {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID)) < 0
}

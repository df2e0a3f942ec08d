package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/turns"
)

// Claim implements [later.Runner].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	defer unlock()
	take := taking{now: now, worker: req.Worker, token: req.Token, lease: req.Lease, unanswered: req.Unanswered}
	var claimed []*later.Claimed
	try := func(j *job) bool {
		switch {
		case !slices.Contains(req.Kinds, j.Kind) || s.isPaused(j):
			return false
		case take.again(j) && j.cancelAt.IsZero() && !j.expired(now):
			claimed = append(claimed, s.takeAgain(j, take))
		case claimable(j, now):
			claimed = append(claimed, s.take(j, take, lostForGood(j, now)))
		default:
			return false
		}
		return true
	}
	queues, kinds := make([]string, len(req.Queues)), strings.Join(req.Kinds, ",")
	for i, want := range req.Queues {
		queues[i] = want.Queue
		q := s.ready[want.Queue]
		if q == nil {
			continue
		}
		full := len(claimed) + min(want.Limit, req.Limit-len(claimed))
		for _, l := range q.levels {
			if len(claimed) >= full {
				break
			}
			key := turnKey{want.Queue, kinds, l.priority}
			if last := l.deal(now, s.turns[key], full-len(claimed), try); last.set {
				s.turns[key] = last
			}
		}
	}
	turns.Sort(claimed, queues, turns.Order{FromLowest: req.FromLowest})
	return claimed, nil
}

// turnKey is where tenants take turns: each set of kinds has its own turns.
type turnKey struct {
	queue    string
	kinds    string
	priority int16
}

// claimable reports whether a claim may take a due job of a wanted kind.
func claimable(j *job, now time.Time) bool {
	return !j.holds(now) && j.cancelAt.IsZero() && !j.expired(now) &&
		j.Crashes+j.lost(now) < later.SuspectCrashes
}

// lostForGood is DoomLost for a job that was lost too often to be run again.
// One attempt that was lost was the only one of a job with MaxAttempts 1.
func lostForGood(j *job, now time.Time) later.Doom {
	losses := j.Crashes + j.lost(now)
	if losses >= later.CrashLimit || j.MaxAttempts == 1 && losses > 0 {
		return later.DoomLost
	}
	return later.DoomNone
}

// taking is what a claim and a sweep lease with.
type taking struct {
	now    time.Time
	worker string
	token  int64
	lease  time.Duration

	unanswered []int64
}

// again reports whether j is leased by a claim whose answer was lost.
func (t taking) again(j *job) bool {
	return j.lease != nil && slices.Contains(t.unanswered, j.lease.token)
}

// takeAgain gives j as the claim would have given it whose answer was lost.
func (s *Store) takeAgain(j *job, t taking) *later.Claimed {
	c := &later.Claimed{Lease: later.Lease{ID: j.ID, Token: t.token}, Now: t.now}
	if j.MaxAttempts == 1 && j.Crashes > 0 {
		c.Doom = later.DoomLost
	}
	j.lease = &lease{token: t.token, holder: t.worker, claimedAt: t.now, until: t.now.Add(t.lease)}
	c.Record = copyRecord(j.Record)
	return c
}

// take leases j, after counting the loss of the lease that it still had.
func (s *Store) take(j *job, t taking, doom later.Doom) *later.Claimed {
	c := &later.Claimed{Lease: later.Lease{ID: j.ID, Token: t.token}, Doom: doom, Now: t.now}
	if j.lease != nil {
		c.LostWorker, c.LostAt = j.lease.holder, j.lease.until
		s.record(&j.Record, j.lease, later.OutcomeLost, t.now, "")
		j.Crashes++
	}
	if doom == later.DoomNone {
		j.Attempt = min(j.Attempt, later.UnlimitedAttempts-1) + 1
	}
	j.lease = &lease{token: t.token, holder: t.worker, claimedAt: t.now, until: t.now.Add(t.lease), doomed: doom != later.DoomNone}
	if j.until == later.UntilStarted {
		s.freeKey(j)
		j.key = ""
	}
	c.Record = copyRecord(j.Record)
	return c
}

// Sweep implements [later.Runner]. It looks at every job.
func (s *Store) Sweep(ctx context.Context, req later.SweepRequest) ([]*later.Claimed, error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	defer unlock()
	var doomed []*job
	var suspect *job
	for _, j := range s.jobs {
		switch {
		case j.holds(now):
		case doomOf(j, now) != later.DoomNone:
			doomed = append(doomed, j)
		case req.Suspect && isSuspect(j, req, now) && !s.isPaused(j) && (suspect == nil || before(j, suspect)):
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
	if suspect != nil {
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
		slices.Contains(req.Queues, j.Queue) && slices.Contains(req.Kinds, j.Kind)
}

func before(a, b *job) bool {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID)) < 0
}

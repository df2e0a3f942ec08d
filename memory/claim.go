package memory

import (
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
	c := &claim{
		store: s, req: req, gates: s.gatesAt(now), ofKind: map[string]int{},
		taking: taking{now: now, worker: req.Worker, token: req.Token, lease: req.Lease, unanswered: req.Unanswered},
	}
	queues, kinds := make([]string, len(req.Queues)), strings.Join(req.Kinds, ",")
	for i, want := range req.Queues {
		queues[i] = want.Queue
		q := s.ready[want.Queue]
		if q == nil {
			continue
		}
		full := len(c.claimed) + min(want.Limit, req.Limit-len(c.claimed))
		levels := slices.Clone(q.levels)
		if req.FromLowest {
			slices.Reverse(levels)
		}
		for _, l := range levels {
			if len(c.claimed) >= full || c.enough() {
				break
			}
			key := turnKey{want.Queue, kinds, l.priority}
			if next := l.deal(now, s.turns[key], full-len(c.claimed), s.limits.Weight, c.offer); next.set {
				s.turns[key] = next
			}
		}
	}
	turns.Sort(c.claimed, queues, turns.Order{FromLowest: req.FromLowest, Weight: s.limits.Weight})
	s.rememberHeld(queues, req.Kinds, c.gates.again, now)
	return c.claimed, nil
}

// claim is one call of Claim.
type claim struct {
	taking
	store   *Store
	req     later.ClaimRequest
	gates   *gates
	claimed []*later.Claimed
	ofKind  map[string]int
	limited int // of the jobs that were claimed, those under a limit
	bytes   int // of their payloads
}

// offer claims j if it can be had.
func (c *claim) offer(j *job) verdict {
	seenByNobody := c.again(j) && j.cancelAt.IsZero() && !j.expired(c.now)
	if !c.wants(j) || !seenByNobody && !claimable(j, c.now) {
		return passed
	}
	limited := c.gates.over(j)
	switch {
	case len(limited) == 0:
	case c.limited >= c.free():
		return c.refuse(j)
	case seenByNobody && j.holds(c.now): // it has its places
	case !c.gates.let(j):
		return c.refuse(j)
	}
	if len(limited) > 0 {
		c.limited++
	}
	c.ofKind[j.Kind]++
	if seenByNobody {
		c.claimed = append(c.claimed, c.store.takeAgain(j, c.taking))
	} else {
		c.claimed = append(c.claimed, c.store.take(j, c.taking, lostForGood(j, c.now)))
	}
	if c.bytes += len(j.Payload); c.enough() {
		return takenLast
	}
	return taken
}

// enough reports whether the claim has as many bytes as were asked for.
func (c *claim) enough() bool { return c.req.MaxBytes > 0 && c.bytes >= c.req.MaxBytes }

// wants reports whether j is of what was asked for, and not paused.
func (c *claim) wants(j *job) bool {
	if !slices.Contains(c.req.Kinds, j.Kind) || c.req.Tenants != nil && !slices.Contains(c.req.Tenants, j.Tenant) {
		return false
	}
	if most, bounded := c.req.MostOfKind[j.Kind]; bounded && c.ofKind[j.Kind] >= most {
		return false
	}
	return !c.store.isPaused(j)
}

// free is how many jobs under limits may be claimed.
func (c *claim) free() int {
	if c.req.Free == 0 {
		return c.req.Limit
	}
	return c.req.Free
}

// refuse is the verdict on a job that its limits, or Free, hold back: a lane of a thousand such
// jobs is not looked through.
func (c *claim) refuse(j *job) verdict {
	if len(c.unanswered) == 0 && (c.limited >= c.free() && c.gates.overLane(j) || c.gates.shut(j)) {
		return laneShut
	}
	return passed
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
	c := &later.Claimed{Lease: later.Lease{ID: j.ID, Token: t.token}, Now: t.now, Limited: s.isLimited(&j.Record)}
	if j.MaxAttempts == 1 && j.Crashes > 0 {
		c.Doom = later.DoomLost
	}
	j.lease = &lease{token: t.token, holder: t.worker, claimedAt: t.now, until: t.now.Add(t.lease)}
	s.leased[j.ID] = j
	c.Record = copyRecord(j.Record)
	return c
}

// take leases j, after counting the loss of the lease that it still had.
func (s *Store) take(j *job, t taking, doom later.Doom) *later.Claimed {
	c := &later.Claimed{Lease: later.Lease{ID: j.ID, Token: t.token}, Doom: doom, Now: t.now, Limited: s.isLimited(&j.Record)}
	if j.lease != nil {
		c.LostWorker, c.LostAt = j.lease.holder, j.lease.until
		s.record(&j.Record, j.lease, later.OutcomeLost, t.now, "")
		j.Crashes++
	}
	if doom == later.DoomNone {
		j.Attempt = min(j.Attempt, later.UnlimitedAttempts-1) + 1
	}
	j.lease = &lease{token: t.token, holder: t.worker, claimedAt: t.now, until: t.now.Add(t.lease), doomed: doom != later.DoomNone}
	s.leased[j.ID] = j
	if j.until == later.UntilStarted {
		s.freeKey(j)
		j.key = ""
	}
	c.Record = copyRecord(j.Record)
	return c
}

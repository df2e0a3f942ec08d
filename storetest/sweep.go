package storetest

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

func testSweep(t *testing.T, open Open) {
	t.Run("a sweep leaves jobs that a claim takes", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueMany(3, raw(`{}`), later.Options{ExpiresIn: long})
		w.enqueue(later.Options{Delay: long})
		w.endLease(w.claim(1)[0])
		w.sweepNone(true)
		w.claim(3)
		w.claimNone()
	})

	// kept. Case 94: a deadline that passes while the job waits ends it as
	// expired, without a start.
	t.Run("a job that expired while waiting is doomed and charged nothing", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.expired(later.Options{})
		before := w.find(id)
		c := w.sweepOne(false, later.DoomExpired)
		sameRecord(t, "swept", c.Record, before.Record)
		equal(t, "id", c.Lease.ID, id)
		w.claimNone()
		w.sweepNone(true) // it is under a lease now
		w.settle(end(c, later.OutcomeExpired))
		w.gone(id)
		equalSlices(t, "outcomes", w.outcomes(id), []later.Outcome{later.OutcomeExpired})
	})

	// Case 94: also one that failed before and waits for its next attempt.
	t.Run("a job that expired while waiting for its retry is doomed", func(t *testing.T) {
		w := newWorld(t, open)
		c := w.claimExpiring()
		s := end(c, later.OutcomeRetry)
		s.Delay = long
		w.settle(s)
		w.pass(c.ID, c.ExpiresAt.Add(clockStep))
		w.claimNone()
		doomed := w.sweepOne(false, later.DoomExpired)
		equal(t, "attempt", doomed.Attempt, 1)
		equal(t, "errors", len(doomed.Errors), 1)
	})

	// alone: a running job is its worker's, whatever the time.
	t.Run("a running job that has expired is left to its worker", func(t *testing.T) {
		w := newWorld(t, open)
		c := w.claimExpiring()
		w.pass(c.ID, c.ExpiresAt.Add(clockStep))
		w.sweepNone(true)
		w.settle(end(c, later.OutcomeDone))
	})

	// counted: an expiry does not hide that a worker was lost.
	t.Run("a job that expired under a lost worker is doomed with its loss counted", func(t *testing.T) {
		w := newWorld(t, open)
		c := w.claimExpiring()
		w.pass(c.ID, c.ExpiresAt.Add(clockStep))
		w.endLease(c)
		w.claimNone()
		doomed := w.sweepOne(false, later.DoomExpired)
		equal(t, "crashes", doomed.Crashes, 1)
		equal(t, "attempt", doomed.Attempt, 1)
		equal(t, "lost worker", doomed.LostWorker, worker)
		equalSlices(t, "outcomes", w.outcomes(c.ID), []later.Outcome{later.OutcomeLost})
	})

	t.Run("a job that was cancelled while it ran is doomed when its worker is lost", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		w.cancel(id, true)
		w.sweepNone(true) // its worker is asked, not robbed
		w.endLease(c)
		w.claimNone()
		doomed := w.sweepOne(false, later.DoomCancelled)
		equal(t, "attempt", doomed.Attempt, 1)
		equal(t, "crashes", doomed.Crashes, 1)
		w.refusesAll(c, "the sweeper holds the job")
		w.settle(end(doomed, later.OutcomeCancelled))
		w.gone(id)
	})

	// A cancel and a failure can cross: the worker settles before it is asked.
	t.Run("a cancelled job that was settled for another attempt is doomed", func(t *testing.T) {
		for _, outcome := range []later.Outcome{later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased} {
			t.Run(string(outcome), func(t *testing.T) {
				w := newWorld(t, open)
				id := w.enqueue(later.Options{})
				c := w.claimOne()
				w.cancel(id, true)
				s := end(c, outcome)
				s.Delay = long
				w.settle(s)
				w.claimNone()
				doomed := w.sweepOne(false, later.DoomCancelled)
				equal(t, "crashes", doomed.Crashes, 0)
				w.settle(end(doomed, later.OutcomeCancelled))
				w.gone(id)
			})
		}
	})

	t.Run("doomed jobs of any kind and queue are swept", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueueArgs(later.RawArgs{JobKind: "removed", Payload: []byte(`{}`)}, later.Options{Queue: "abandoned", ExpiresIn: short})
		w.pass(id, w.find(id).ExpiresAt.Add(clockStep))
		equal(t, "id", w.sweepOne(false, later.DoomExpired).ID, id)
	})

	t.Run("a sweep takes at most its limit of the doomed, and the next one goes on", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(25, raw(`{}`), later.Options{ExpiresIn: short})
		w.pass(ids[24], w.find(ids[24]).ExpiresAt.Add(clockStep))
		seen := map[int64]bool{}
		for _, want := range []int{10, 10, 5, 0} {
			jobs := w.sweepWith(seek(10, true))
			equal(t, "swept", len(jobs), want)
			for _, c := range jobs {
				equal(t, "swept twice", seen[c.ID], false)
				seen[c.ID] = true
			}
		}
	})

	t.Run("a suspect comes beside the doomed, not in their stead", func(t *testing.T) {
		w := newWorld(t, open)
		suspect := w.suspect()
		w.expired(later.Options{})
		w.expired(later.Options{})
		jobs := w.sweepWith(seek(1, true))
		equal(t, "swept", len(jobs), 2)
		for _, c := range jobs {
			equal(t, "is the suspect", c.ID == suspect, c.Doom == later.DoomNone)
		}
	})

	// found. Case 71: rows that the sweep may not touch, all of which look as
	// if it might, do not hide the one that it may.
	t.Run("one doomed job behind 10,000 running ones is found by the first sweep", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(10_000, raw(`{}`), later.Options{ExpiresIn: long})
		w.enqueueMany(1000, raw(`{}`), later.Options{ExpiresIn: long, Delay: long})
		running := w.claim(len(ids))
		for _, c := range running[:100] {
			w.cancel(c.ID, true)
		}
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		w.cancel(id, true)
		w.endLease(c)
		jobs := w.sweepWith(seek(1, true))
		equalSlices(t, "ids", idsOf(jobs), []int64{id})
	})
}

// claimExpiring claims a job that will expire soon. A machine that is too slow
// for that gets another try with twice the time.
func (w *world) claimExpiring() *later.Claimed {
	w.t.Helper()
	return w.claimExpiringFor("")
}

func (w *world) claimExpiringFor(tenant string) *later.Claimed {
	w.t.Helper()
	for expiry := 50 * time.Millisecond; expiry < patience; expiry *= 2 {
		id := w.enqueue(later.Options{Tenant: tenant, ExpiresIn: expiry})
		if jobs := w.claimWith(ask(1)); len(jobs) == 1 {
			return jobs[0]
		}
		w.pass(id, w.find(id).ExpiresAt.Add(clockStep))
		w.settle(end(w.sweepOne(false, later.DoomExpired), later.OutcomeExpired))
	}
	w.t.Fatalf("no job could be claimed before it expired")
	return nil
}

// cancel asks to cancel job id, and fails unless it was running or not as said.
func (w *world) cancel(id int64, running bool) {
	w.t.Helper()
	got, err := w.store.Cancel(w.ctx, id)
	if err != nil {
		w.t.Fatalf("Cancel %d: %v", id, err)
	}
	if got != running {
		w.t.Fatalf("Cancel %d: got running %v, want %v", id, got, running)
	}
}

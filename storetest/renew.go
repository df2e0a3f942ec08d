package storetest

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

func testRenew(t *testing.T, open Open) {
	// alone. Case 64: a job that outlives its first lease starts once.
	t.Run("a renewed lease holds past its first end", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		req := ask(1)
		req.Lease = 50 * time.Millisecond
		c := w.claimWith(req)[0]
		first := w.find(id).LeaseUntil
		equal(t, "leases lost", len(w.renew(long, c.Lease).Lost), 0)
		w.pass(id, first.Add(clockStep))
		w.claimNone()
		w.sweepNone(true)
		info := w.state(id, later.StateRunning)
		equal(t, "attempt", info.Attempt, 1)
		equal(t, "crashes", info.Crashes, 0)
	})

	t.Run("a renewal moves the lease's end to that time from now", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		before := w.find(id)
		w.renew(3*long, c.Lease)
		after := w.find(id)
		between(t, "lease until", after.LeaseUntil, before.Now.Add(3*long), after.Now.Add(3*long))
		w.renew(long/2, c.Lease) // also back
		last := w.find(id)
		between(t, "lease until, shorter", last.LeaseUntil, after.Now.Add(long/2), last.Now.Add(long/2))
		equalTimes(t, "claimed at", last.ClaimedAt, before.ClaimedAt)
		sameRecord(t, "record", last.Record, before.Record)
	})

	// alone. Case 82: jobs that wait in memory are renewed with the others.
	t.Run("one call renews many leases", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(200, raw(`{}`), later.Options{})
		req := ask(200)
		req.Lease = 50 * time.Millisecond
		var leases []later.Lease
		for _, c := range w.claimWith(req) {
			leases = append(leases, c.Lease)
		}
		first := w.find(ids[0]).LeaseUntil
		equal(t, "leases lost", len(w.renew(long, leases...).Lost), 0)
		w.pass(ids[0], first.Add(clockStep))
		w.claimNone()
	})

	t.Run("a renewal tells which leases are lost and which jobs are to stop", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueMany(3, raw(`{}`), later.Options{})
		jobs := w.claim(3)
		w.settle(end(jobs[0], later.OutcomeReleased))
		if running, err := w.store.Cancel(w.ctx, jobs[1].ID); !running || err != nil {
			t.Fatalf("Cancel: got %v, %v, want a running job", running, err)
		}
		renewed := w.renew(long, jobs[0].Lease, jobs[1].Lease, jobs[2].Lease)
		equalSlices(t, "lost", renewed.Lost, []later.Lease{jobs[0].Lease})
		equalSlices(t, "cancelled", renewed.Cancelled, []later.Lease{jobs[1].Lease})
		// A cancelled one is renewed all the same: its handler still runs.
		w.claim(1) // the released one
		w.claimNone()
		w.sweepNone(true)
	})

	// kept. Case 86: a renewal that comes late but before anybody else is good.
	t.Run("a lease that has ended and that nobody took is renewed", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		c := w.lose()
		equal(t, "leases lost", len(w.renew(long, c.Lease).Lost), 0)
		info := w.state(c.ID, later.StateRunning)
		equal(t, "crashes", info.Crashes, 0)
		w.claimNone()
		w.settle(end(c, later.OutcomeDone))
		w.gone(c.ID)
	})

	t.Run("no leases are nothing to do", func(t *testing.T) {
		w := newWorld(t, open)
		renewed := w.renew(long)
		equal(t, "lost", len(renewed.Lost)+len(renewed.Cancelled), 0)
		requests, err := w.store.CancelRequests(w.ctx, nil)
		if len(requests) != 0 || err != nil {
			t.Errorf("CancelRequests: got %v, %v, want nothing", requests, err)
		}
	})

	t.Run("a checkpoint stays with the job until it is done", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		equal(t, "checkpoint of a new job", string(c.Checkpoint), "")
		save := func(c *later.Claimed, data string) {
			t.Helper()
			if err := w.store.Checkpoint(w.ctx, c.Lease, []byte(data)); err != nil {
				t.Fatalf("Checkpoint: %v", err)
			}
		}
		save(c, `{"row":1}`)
		save(c, `{"row": 9007199254740993, "row":2}`)
		const want = `{"row": 9007199254740993, "row":2}`
		equal(t, "checkpoint found", string(w.find(id).Checkpoint), want)
		w.endLease(c) // a crash is what it is for
		c = w.claimOne()
		equal(t, "checkpoint after a crash", string(c.Checkpoint), want)
		w.settle(end(c, later.OutcomeRetry))
		c = w.claimOne()
		equal(t, "checkpoint after a failure", string(c.Checkpoint), want)
		w.settle(end(c, later.OutcomeDead))
		equal(t, "checkpoint of the dead", string(w.find(id).Checkpoint), want)
		if err := w.store.Retry(w.ctx, id); err != nil {
			t.Fatal(err)
		}
		equal(t, "checkpoint after a retry from the dead", string(w.claimOne().Checkpoint), want)
	})
}

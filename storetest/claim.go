package storetest

import (
	"slices"
	"testing"

	"github.com/later-queue/later"
)

func testClaim(t *testing.T, open Open) {
	// alone, counted: what a claim hands out is what the row says.
	// found, counted. Case 149: a claim whose answer was lost is safe to repeat,
	// also for a job that may be started only once.
	t.Run("a claim takes what an unanswered one has leased, as if for the first time", func(t *testing.T) {
		for _, attempts := range []int{1, 5} {
			w := newWorld(t, open)
			id := w.enqueue(later.Options{MaxAttempts: attempts})
			first := w.claimOne()
			w.claimNone()
			var again []*later.Claimed
			w.eventually("the job is claimed again", func() bool {
				req := ask(1)
				req.Unanswered = []int64{later.NewToken(), first.Lease.Token}
				again = w.claimWith(req)
				return len(again) == 1
			})
			c := again[0]
			equal(t, "doom", c.Doom, later.DoomNone)
			equal(t, "attempt", c.Attempt, 1)
			equal(t, "crashes", c.Crashes, 0)
			equal(t, "lost worker", c.LostWorker, "")
			equalSlices(t, "refused of the unanswered claim", w.trySettle(end(first, later.OutcomeDone)), []later.Lease{first.Lease})
			w.settle(end(c, later.OutcomeDone))
			equalSlices(t, "outcomes", w.outcomes(id), []later.Outcome{later.OutcomeDone})
		}
	})

	t.Run("a claim leases the job and counts the attempt", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		before := w.find(id)
		req := ask(1)
		jobs := w.claimWith(req)
		if len(jobs) != 1 {
			t.Fatalf("got %d jobs, want 1", len(jobs))
		}
		c := jobs[0]
		want := before.Record
		want.Attempt = 1
		sameRecord(t, "claimed", c.Record, want)
		equal(t, "lease", c.Lease, later.Lease{ID: id, Token: req.Token})
		equal(t, "doom", c.Doom, later.DoomNone)
		equal(t, "lost worker", c.LostWorker, "")
		equal(t, "lost at is zero", c.LostAt.IsZero(), true)

		info := w.state(id, later.StateRunning)
		sameRecord(t, "found", info.Record, want)
		equal(t, "worker", info.Worker, worker)
		between(t, "claimed at", info.ClaimedAt, before.Now, info.Now)
		equalTimes(t, "lease until", info.LeaseUntil, info.ClaimedAt.Add(long))
	})

	t.Run("an empty store has nothing to claim", func(t *testing.T) {
		w := newWorld(t, open)
		w.claimNone()
	})

	// alone. Case 64.
	t.Run("a job under a lease is not handed out again", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		w.claimOne()
		w.claimNone()
		w.sweepNone(true)
	})

	t.Run("a job whose time has not come is not claimed", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{Delay: long})
		w.claimNone()
	})

	// kept. Case 142: a kind that nobody knows is left alone, visible, and can
	// be cancelled.
	t.Run("jobs of an unknown kind stay as they are", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(100, later.RawArgs{JobKind: "removed", Payload: []byte(`{}`)}, later.Options{})
		before := w.find(ids[0])
		w.claimNone()
		w.sweepNone(true)
		if err := w.store.Maintain(w.ctx); err != nil {
			t.Fatal(err)
		}
		sameInfo(t, "job", w.find(ids[0]), before)
		slices.Reverse(ids)
		equalSlices(t, "jobs listed", listed(w.list(later.Filter{Kind: "removed", State: later.StateReady})), ids)
		for _, id := range ids {
			if running, err := w.store.Cancel(w.ctx, id); running || err != nil {
				t.Fatalf("Cancel: got %v, %v", running, err)
			}
		}
		equal(t, "jobs left", len(w.list(later.Filter{})), 0)
	})

	t.Run("jobs of another queue are left", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{Queue: "other"})
		w.claimNone()
	})

	t.Run("a claim without queues or kinds gets nothing", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		req := ask(10)
		req.Queues = nil
		equal(t, "jobs without queues", len(w.claimWith(req)), 0)
		req = ask(10)
		req.Kinds = nil
		equal(t, "jobs without kinds", len(w.claimWith(req)), 0)
	})

	// Case 82: no more is claimed than there are free slots.
	t.Run("a claim takes no more than each queue's limit and its own", func(t *testing.T) {
		w := newWorld(t, open)
		var ids []int64
		for _, q := range []string{"a", "b", "c"} {
			ids = append(ids, w.enqueueMany(5, raw(`{}`), later.Options{Queue: q})...)
		}
		req := ask(6)
		req.Queues = []later.QueueLimit{{Queue: "b", Limit: 3}, {Queue: "none", Limit: 3}, {Queue: "a", Limit: 2}, {Queue: "c", Limit: 5}}
		got := idsOf(w.claimWith(req))
		want := append(append(slices.Clone(ids[5:8]), ids[0:2]...), ids[10])
		equalSlices(t, "ids", got, want)
	})

	t.Run("a claim takes less than its limit when there is less", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(3, raw(`{}`), later.Options{})
		equalSlices(t, "ids", idsOf(w.claimWith(ask(1000))), ids)
	})

	// Case 94: what is not worth running any more is not run.
	t.Run("a job that has expired is not claimed", func(t *testing.T) {
		w := newWorld(t, open)
		w.expired(later.Options{})
		w.claimNone()
	})

	t.Run("a job that has not expired yet is claimed", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{ExpiresIn: long})
		equal(t, "id", w.claimOne().ID, id)
	})

	// found. Case 71: rows that may not be touched do not hide the one that may.
	t.Run("one job behind 10,000 of other kinds is found by the first claim", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueMany(10_000, later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}, later.Options{})
		id := w.enqueue(later.Options{})
		equalSlices(t, "ids", idsOf(w.claimWith(ask(1))), []int64{id})
	})

	// found. Case 71.
	t.Run("one job behind 10,000 running ones is found by the first claim", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueMany(10_000, raw(`{}`), later.Options{})
		id := w.enqueue(later.Options{})
		w.claim(10_000)
		equalSlices(t, "ids", idsOf(w.claimWith(ask(1))), []int64{id})
	})
}

// expired enqueues a job and waits until it has expired.
func (w *world) expired(opts later.Options) int64 {
	w.t.Helper()
	opts.ExpiresIn = short
	id := w.enqueue(opts)
	w.pass(id, w.find(id).ExpiresAt.Add(clockStep))
	return id
}

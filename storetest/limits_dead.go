package storetest

import (
	"testing"

	"github.com/later-queue/later"
)

// testOrderedDead is OnDead. Case 128.
func testOrderedDead(t *testing.T, open Open) {
	blocks := later.Limit{Ordered: true, OnDead: later.DeadBlocks}
	for _, way := range limitWays() {
		t.Run("a dead job lets the next one run, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, inOrder)
			ids := w.enqueueFor("acme", 3)
			w.endAs(later.OutcomeDead, w.claim(1)...)
			equal(t, "running", len(w.standing(way.of).Running), 0)
			next := w.claim(1)[0]
			equal(t, "id", next.ID, ids[1])
			w.retry(ids[0]) // it waits for its turn as any other
			w.claimNone()
			w.putOff(next, later.OutcomeRetry, long)
			w.claimNone()
			equalSlices(t, "who the others wait for", w.standing(way.of).Running, ids[1:2])
		})

		for name, act := range map[string]struct {
			do    func(w *world, id int64)
			again bool // the dead job comes next
		}{
			"retried":              {func(w *world, id int64) { w.retry(id) }, true},
			"retried with others":  {func(w *world, _ int64) { w.retryDead(1) }, true},
			"deleted":              {func(w *world, id int64) { w.delete(id) }, false},
			"dropped with others":  {func(w *world, _ int64) { w.dropDead(1) }, false},
			"let by for the order": {func(w *world, _ int64) { w.limit(way.set, inOrder) }, false},
			"let by for a cap":     {func(w *world, _ int64) { w.limit(way.set, atMost(1)) }, false},
			"let by for no limit":  {func(w *world, _ int64) { w.unlimit(way.set) }, false},
		} {
			// in order.
			t.Run("a dead job that blocks holds back the others until it is "+name+", of a "+way.name, func(t *testing.T) {
				w := newWorld(t, open)
				w.limit(way.set, blocks)
				ids := w.enqueueFor("acme", 3)
				w.endAs(later.OutcomeDead, w.claim(1)...)
				better := w.enqueueBetter(-1)
				before := w.find(ids[1])
				w.claimNone()
				w.sweepNone(true)
				sameInfo(t, "a job behind it", w.find(ids[1]), before)
				equalSlices(t, "who the others wait for", w.standing(way.of).Running, ids[:1])
				act.do(w, ids[0])
				next := w.claim(1)[0]
				want := better
				if act.again {
					want = ids[0]
				}
				equal(t, "id of the next", next.ID, want)
				if name == "let by for no limit" {
					return
				}
				w.claimNone()
				w.endAs(later.OutcomeDone, next)
				if act.again {
					equal(t, "id of the one after", w.claim(1)[0].ID, better)
				}
			})
		}
	}

	t.Run("a dead job blocks its own scope only", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(everyTenant, blocks)
		w.enqueueFor("a", 2)
		w.endAs(later.OutcomeDead, w.claim(1)...)
		b := w.enqueueFor("b", 1)
		equalSlices(t, "ids", idsOf(w.claim(1)), b)
		w.claimNone()
	})

	t.Run("a job that was lost too often blocks as any other dead one", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("acme"), blocks)
		id := w.enqueue(later.Options{Tenant: "acme", MaxAttempts: 1})
		w.endLease(w.claimThis(id))
		next := w.enqueueFor("acme", 1)[0]
		var doomed *later.Claimed
		w.eventually("a claim or a sweep finds it", func() bool {
			for _, c := range append(w.claimWith(ask(10)), w.sweepWith(seek(10, true))...) {
				doomed = c
			}
			return doomed != nil
		})
		equal(t, "id", doomed.ID, id)
		equal(t, "doom", doomed.Doom, later.DoomLost)
		w.claimNone()
		w.endAs(later.OutcomeDead, doomed)
		w.claimNone()
		w.delete(id)
		equal(t, "id of the next", w.claim(1)[0].ID, next)
	})

	t.Run("a job that was dead before the order was set blocks nobody", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueFor("acme", 2)
		w.endAs(later.OutcomeDead, w.claim(1)...)
		w.limit(tenant("acme"), blocks)
		w.claim(1)
	})

	t.Run("a dead job that its rate holds back when it is retried is still the next", func(t *testing.T) {
		w := newWorld(t, open)
		limit := slow(2)
		limit.Ordered, limit.OnDead = true, later.DeadBlocks
		w.limit(tenant("acme"), limit)
		ids := w.enqueueFor("acme", 2)
		w.endAs(later.OutcomeRetry, w.claim(1)...)
		w.endAs(later.OutcomeDead, w.claim(1)...)
		w.retry(ids[0])
		w.claimNone()
		limit.Rate.Burst = 3
		w.limit(tenant("acme"), limit)
		equal(t, "id", w.claim(1)[0].ID, ids[0])
		w.claimNone()
	})
}

// retryDead retries the n dead jobs that there are.
func (w *world) retryDead(n int) {
	w.t.Helper()
	if got, err := w.store.RetryDead(w.ctx, later.Filter{}); got != n || err != nil {
		w.t.Fatalf("RetryDead: got %d, %v, want %d", got, err, n)
	}
}

func (w *world) dropDead(n int) {
	w.t.Helper()
	if got, err := w.store.DropDead(w.ctx, later.Filter{}); got != n || err != nil {
		w.t.Fatalf("DropDead: got %d, %v, want %d", got, err, n)
	}
}

package storetest

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

// testHeldDue is what NextDue says of jobs that limits hold back.
func testHeldDue(t *testing.T, open Open) {
	for _, way := range limitWays() {
		t.Run("what a full scope holds back is looked for within a second, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(1))
			w.enqueueFor("acme", 2)
			w.notDue()
			first := w.claim(1)
			w.claimNone()
			w.heldFor(0, time.Second)
			w.endAs(later.OutcomeDone, first...)
			w.endAs(later.OutcomeDone, w.claim(1)...)
			w.claimNone()
			w.notDue()
		})

		t.Run("what a rate holds back is due when the rate lets it, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, slow(2))
			w.enqueueFor("acme", 3)
			w.claim(2)
			w.claimNone()
			w.heldFor(long-patience, long)
			w.enqueue(later.Options{Delay: long / 2}) // something is due before
			w.heldFor(long/2-patience, long/2)
			w.limit(way.set, slow(9))
			w.claim(1)
			w.claimNone()
		})

		t.Run("what waits for the next attempt of another is due when that is, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, inOrder)
			w.enqueueFor("acme", 2)
			w.putOff(w.claim(1)[0], later.OutcomeRetry, long)
			w.claimNone()
			w.heldFor(long-patience, long)
		})

		t.Run("what waits for one that runs in order is looked for within a second, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, inOrder)
			w.enqueueFor("acme", 2)
			w.claim(1)
			w.claimNone()
			w.heldFor(0, time.Second)
		})

		t.Run("jobs for which there is no slot are not held back, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(5))
			w.enqueueFor("acme", 2)
			req := ask(10)
			req.Free = -1
			equal(t, "jobs", len(w.claimWith(req)), 0)
			w.notDue()
		})
	}

	t.Run("of several that are held back the first counts", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("a"), slow(1))
		w.limit(tenant("b"), later.Limit{Rate: later.Rate{N: 1, Period: 2 * long}})
		w.enqueueFor("a", 2)
		w.enqueueFor("b", 2)
		w.claim(2)
		w.claimNone()
		w.heldFor(long-patience, long)
		w.limit(tenant("c"), atMost(0))
		w.enqueueFor("c", 1)
		w.claimNone()
		w.heldFor(0, time.Second)
	})

	t.Run("of other queues and kinds nothing is held back", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("acme"), atMost(0))
		w.enqueueFor("acme", 1)
		w.claimNone()
		for _, names := range [][2][]string{{{"mail"}, {kind}}, {{queue}, {"other"}}} {
			if in, ok, err := w.store.NextDue(w.ctx, names[0], names[1]); ok || err != nil {
				t.Errorf("NextDue(%q, %q): got %v, %v, %v, want none", names[0], names[1], in, ok, err)
			}
		}
	})

	t.Run("a limit that holds back nothing names no time", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("acme"), both(atMost(3), slow(3)))
		w.enqueueFor("acme", 2)
		w.claim(2)
		w.claimNone()
		w.notDue()
	})
}

// heldFor fails unless the next job is due after more than least, and after most or less.
func (w *world) heldFor(least, most time.Duration) {
	w.t.Helper()
	in, ok, err := w.store.NextDue(w.ctx, []string{queue}, []string{kind})
	if err != nil || !ok || in <= least || in > most {
		w.t.Fatalf("NextDue: got %v, %v, %v, want more than %v and at most %v", in, ok, err, least, most)
	}
}

// testLimitWake is about who waits for jobs that limits hold back.
func testLimitWake(t *testing.T, open Open) {
	for i, way := range limitWays() {
		// woken.
		t.Run("who waits is woken when there may be a place, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			watch := w.watch(t, queue)
			w.limit(way.set, later.Limit{Ordered: true, OnDead: later.DeadBlocks})
			ids := w.enqueueFor("acme", 10)
			acts := []limitAct{
				{"the end of one that ran", func() { w.endAs(later.OutcomeDone, w.claim(1)...) }},
				{"the death of one that ran", func() { w.endAs(later.OutcomeDead, w.claim(1)...) }},
				{"the end of a dead job that blocks", func() { w.delete(ids[1]) }},
				{"the death of another", func() { w.endAs(later.OutcomeDead, w.claim(1)...) }},
				{"the drop of dead jobs", func() { w.dropDead(1) }},
				{"a change of the limit", func() { w.limit(way.set, atMost(1)) }},
				{"a failure of one that ran", func() { w.putOff(w.claim(1)[0], later.OutcomeRetry, long) }},
				{"a snooze of one that ran", func() { w.putOff(w.claim(1)[0], later.OutcomeSnoozed, long) }},
				{"the end of the limit", func() { w.unlimit(way.set) }},
				{"a pause", func() { w.pause(way.of, "") }},
			}
			if i > 0 { // each takes time, and for one of the ways it is enough to try all
				acts = acts[:1]
			}
			for _, act := range acts {
				w.waitsCalmly(watch)
				act.do()
				w.wokenBy(watch, act.name)
				watch.Busy()
			}
		})
	}
}

// limitAct is what may let a job go that was held back.
type limitAct struct {
	name string
	do   func()
}

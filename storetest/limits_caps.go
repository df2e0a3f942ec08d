package storetest

import (
	"fmt"
	"testing"

	"github.com/later-queue/later"
)

// testCaps is MaxRunning.
func testCaps(t *testing.T, open Open) {
	for _, way := range limitWays() {
		// capped. Case 119: an orderly end frees the place at once.
		t.Run("no more run than may, and the next one starts when one has ended, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(3))
			w.enqueueFor("acme", 20)
			running := w.claim(3)
			w.claimNone()
			for _, outcome := range everyOutcome {
				w.endAs(outcome, running[0])
				running = append(running[1:], w.claim(1)...)
				w.claimNone()
			}
		})

		// untouched. Case 122.
		t.Run("who is held back is not written to, and is at its first attempt when it runs, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(1))
			ids := w.enqueueFor("acme", 8)
			first := w.claim(1)[0]
			var before []*later.JobInfo
			for _, id := range ids[1:] {
				before = append(before, w.find(id))
			}
			for range 20 {
				w.claimNone()
				w.sweepNone(true)
			}
			for i, id := range ids[1:] {
				sameInfo(t, fmt.Sprintf("job %d", id), w.find(id), before[i])
			}
			w.endAs(later.OutcomeDone, first)
			for i := range ids[1:] {
				c := w.claim(1)[0]
				want := before[i].Record
				want.Attempt = 1
				sameRecord(t, "claimed", c.Record, want)
				w.claimNone()
				w.endAs(later.OutcomeDone, c)
			}
		})

		// Case 130: 0 is a pause.
		t.Run("where none may run none does, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(0))
			w.enqueueFor("acme", 3)
			w.claimNone()
			w.limit(way.set, atMost(2))
			w.claim(2)
			w.claimNone()
		})

		t.Run("a suspect counts and is counted, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			id := w.suspectFor("acme")
			w.limit(way.set, atMost(1))
			w.enqueueFor("acme", 2)
			first := w.claim(1)[0]
			before := w.find(id)
			w.sweepNone(true)
			sameInfo(t, "the suspect that is held back", w.find(id), before)
			w.endAs(later.OutcomeDone, first)
			suspect := w.sweepOne(true, later.DoomNone)
			equal(t, "id", suspect.ID, id)
			equal(t, "the suspect is said to be limited", suspect.Limited, true)
			w.claimNone()
			w.endAs(later.OutcomeDone, suspect)
			w.claim(1)
		})

		// found. Case 125.
		t.Run("a suspect is found behind one that is held back, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.suspectFor("acme")
			id, req := w.beside(way)
			for range later.SuspectCrashes {
				w.endLease(w.claimThis(id))
			}
			w.limit(way.set, atMost(0))
			sweep := seek(10, true)
			sweep.Kinds, sweep.Queues = req.Kinds, []string{queue, "other"}
			equalSlices(t, "ids", idsOf(w.sweepWith(sweep)), []int64{id})
		})

		t.Run("a job that is being ended takes up no place, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(1))
			w.expired(later.Options{Tenant: "acme"})
			w.sweepOne(false, later.DoomExpired)
			w.enqueueFor("acme", 2)
			w.claim(1)
			w.claimNone()
		})

		t.Run("what is to be ended ends though none may run, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(0))
			id := w.expired(later.Options{Tenant: "acme"})
			w.endAs(later.OutcomeExpired, w.sweepOne(true, later.DoomExpired))
			w.gone(id)
			waits := w.enqueueFor("acme", 1)[0]
			w.cancel(waits, false)
			w.gone(waits)
		})

		t.Run("what runs under a limit says so, and nothing else does, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.enqueueFor("acme", 2)
			equal(t, "limited before", w.claim(1)[0].Limited, false)
			w.limit(way.set, atMost(5))
			equal(t, "limited", w.claim(1)[0].Limited, true)
			other := later.Options{Queue: "elsewhere"}
			id := w.enqueueArgs(later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}, other)
			equal(t, "another is limited", w.claimThis(id).Limited, false)
		})
	}

	t.Run("a weight alone is no limit", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("acme"), later.Limit{Weight: 7})
		w.enqueueFor("acme", 1)
		equal(t, "limited", w.claim(1)[0].Limited, false)
	})

	// capped.
	t.Run("a job starts only when all its limits let it", func(t *testing.T) {
		w := newWorld(t, open)
		args := func(kind string) later.RawArgs { return later.RawArgs{JobKind: kind, Payload: []byte(`{}`)} }
		w.limit(later.Scope{Of: later.ScopeQueue, Name: queue}, atMost(6))
		w.limit(later.Scope{Of: later.ScopeKind, Name: kind}, atMost(4))
		w.limit(tenant("a"), atMost(2))
		for _, of := range []string{"a", "b", "c"} {
			w.enqueueMany(10, args(kind), later.Options{Tenant: of})
			w.enqueueMany(10, args("other"), later.Options{Tenant: of})
		}
		req := ask(100)
		req.Kinds = []string{kind, "other"}
		var jobs []*later.Claimed
		w.eventually("the queue is full", func() bool {
			req.Token = later.NewToken()
			jobs = append(jobs, w.claimWith(req)...)
			return len(jobs) >= 6
		})
		equal(t, "jobs", len(jobs), 6)
		ofKind, ofTenant := map[string]int{}, map[string]int{}
		for _, c := range jobs {
			ofKind[c.Kind]++
			ofTenant[c.Tenant]++
		}
		if ofKind[kind] > 4 || ofTenant["a"] > 2 {
			t.Errorf("got %v and %v, want at most 4 of kind %s, and 2 of tenant a", ofKind, ofTenant, kind)
		}
	})

	t.Run("a kind's limit is over all queues", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(later.Scope{Of: later.ScopeKind, Name: kind}, atMost(3))
		req := ask(10)
		req.Queues = append(req.Queues, later.QueueLimit{Queue: "mail", Limit: 10})
		for _, q := range req.Queues {
			w.enqueueMany(2, raw(`{}`), later.Options{Queue: q.Queue})
		}
		var jobs []*later.Claimed
		w.eventually("three run", func() bool {
			req.Token = later.NewToken()
			jobs = append(jobs, w.claimWith(req)...)
			return len(jobs) >= 3
		})
		equal(t, "jobs", len(jobs), 3)
		req.Token = later.NewToken()
		equal(t, "more jobs", len(w.claimWith(req)), 0)
	})

	t.Run("a pause holds back what a limit lets, and a limit what goes on", func(t *testing.T) {
		w := newWorld(t, open)
		acme := tenant("acme")
		w.limit(acme, atMost(2))
		w.enqueueFor("acme", 5)
		w.pause(acme, "")
		w.claimNone()
		w.resume(acme)
		jobs := w.claim(2)
		w.claimNone()
		w.pause(acme, "")
		w.endAs(later.OutcomeDone, jobs...)
		w.claimNone()
		w.unlimit(acme)
		w.claimNone()
		w.resume(acme)
		w.claim(3)
	})
}

// suspectFor has a tenant's job be lost until it is a suspect.
func (w *world) suspectFor(tenant string) int64 {
	w.t.Helper()
	id := w.enqueueFor(tenant, 1)[0]
	for range later.SuspectCrashes {
		w.endLease(w.claimThis(id))
	}
	return id
}

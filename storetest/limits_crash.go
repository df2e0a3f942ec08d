package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/later-queue/later"
)

// testLimitCrash says what becomes of the places of workers that were lost.
func testLimitCrash(t *testing.T, open Open) {
	for _, way := range limitWays() {
		// capped, fenced. Case 119.
		t.Run("a lost worker's place is another's when its lease has ended, and not its own any more, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(1))
			lost := w.claimFor("acme", 0)
			better := w.enqueueBetter(-1)
			w.claimNone()
			w.endLease(lost)
			next := w.claim(1)[0]
			equal(t, "id", next.ID, better)
			equal(t, "a lost worker of the next", next.LostWorker, "")
			w.state(lost.ID, later.StateLost)
			w.refusesAll(lost, "its place was given to another job")
			w.claimNone()
			w.endAs(later.OutcomeDone, next)
			again := w.claim(1)[0]
			equal(t, "id of the lost job", again.ID, lost.ID)
			equal(t, "lost worker", again.LostWorker, worker)
			equal(t, "crashes", again.Crashes, 1)
			equal(t, "attempt", again.Attempt, 2)
			w.endAs(later.OutcomeDone, again)
			equalSlices(t, "outcomes", w.outcomes(lost.ID), []later.Outcome{later.OutcomeLost, later.OutcomeDone})
		})

		// Case 119: its own job comes first, and takes the place that it had.
		t.Run("a job whose worker was lost is claimed again in its place, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(1))
			ids := w.enqueueFor("acme", 6)
			for n := range 2 {
				c := w.claim(1)[0]
				equal(t, "id", c.ID, ids[0])
				equal(t, "crashes", c.Crashes, n)
				w.claimNone()
				if n == 0 {
					w.endLease(c)
				}
			}
		})
	}

	t.Run("a lease that has ended and whose place nobody has is renewed", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("acme"), atMost(1))
		late := w.claimFor("acme", 0)
		w.endLease(late)
		equal(t, "leases lost", len(w.renew(long, late.Lease).Lost), 0)
		w.enqueueBetter(-1)
		w.claimNone()
		w.endAs(later.OutcomeDone, late)
		w.claim(1)
	})

	for _, outcome := range everyOutcome {
		t.Run("a lease that has ended and whose place nobody has is settled as "+string(outcome), func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(tenant("acme"), atMost(1))
			late := w.claimFor("acme", 0)
			w.endLease(late)
			w.endAs(outcome, late)
		})
	}

	t.Run("a lease that has ended keeps its place as long as there is another one", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("acme"), atMost(2))
		late := w.claimFor("acme", 0)
		w.endLease(late)
		w.enqueueBetter(-1)
		w.claim(1)
		equal(t, "leases lost", len(w.renew(long, late.Lease).Lost), 0)
		w.enqueueBetter(-1)
		w.claimNone()
	})

	t.Run("as many leases as have ended are lost as places were needed", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("acme"), atMost(3))
		w.enqueueFor("acme", 3)
		late := w.claim(3)
		for _, c := range late {
			w.endLease(c)
		}
		w.enqueueBetter(-1)
		w.enqueueBetter(-1)
		w.claim(2)
		lost := 0
		for _, c := range late {
			lost += len(w.renew(long, c.Lease).Lost)
		}
		equal(t, "leases lost", lost, 2)
		w.enqueueBetter(-1)
		w.claimNone()
	})

	t.Run("a place is lost under whichever limit it was needed", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(later.Scope{Of: later.ScopeKind, Name: kind}, atMost(5))
		w.limit(later.Scope{Of: later.ScopeQueue, Name: queue}, atMost(1))
		w.limit(everyTenant, atMost(2))
		lost := w.claimFor("acme", 0)
		w.endLease(lost)
		id := w.enqueueMany(1, raw(`{}`), later.Options{Tenant: "zeta", Priority: -1})[0]
		equal(t, "id", w.claim(1)[0].ID, id)
		w.refusesAll(lost, "its place in the queue was given to another job")
	})

	// capped: nobody knew of a limit when the lease ended.
	t.Run("a place is lost that a limit made which was set later", func(t *testing.T) {
		for _, way := range limitWays() {
			w := newWorld(t, open)
			lost := w.claimFor("acme", 0)
			w.endLease(lost)
			w.limit(way.set, atMost(1))
			better := w.enqueueBetter(-1)
			equal(t, "id", w.claim(1)[0].ID, better)
			w.refusesAll(lost, "its place under a limit of a "+way.name+" was given to another job")
		}
	})

	t.Run("a suspect that takes the last place fences who had it", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.suspectFor("acme")
		w.limit(tenant("acme"), atMost(1))
		lost := w.claimFor("acme", 0)
		w.endLease(lost)
		equal(t, "id", w.sweepOne(true, later.DoomNone).ID, id)
		w.refusesAll(lost, "its place was given to a suspect")
	})

	// Case 88: what was lost is lost, whether its place was needed or not.
	t.Run("a job with one attempt whose place was given away is dead, not run again", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("acme"), atMost(1))
		id := w.enqueue(later.Options{Tenant: "acme", MaxAttempts: 1})
		w.endLease(w.claimThis(id))
		w.enqueueBetter(-1)
		w.endAs(later.OutcomeDone, w.claim(1)...)
		var doomed *later.Claimed
		w.eventually("a claim or a sweep finds it", func() bool {
			for _, c := range append(w.claimWith(ask(10)), w.sweepWith(seek(10, true))...) {
				doomed = c
			}
			return doomed != nil
		})
		equal(t, "doom", doomed.Doom, later.DoomLost)
		equal(t, "attempt", doomed.Attempt, 1)
		equal(t, "lost worker", doomed.LostWorker, worker)
	})
}

// claimFor enqueues a job of a tenant and claims it.
func (w *world) claimFor(tenant string, priority int16) *later.Claimed {
	w.t.Helper()
	return w.claimThis(w.enqueue(later.Options{Tenant: tenant, Priority: priority}))
}

// enqueueBetter stores a job of acme that comes before those there are, if priority is less
// than 0.
func (w *world) enqueueBetter(priority int16) int64 {
	w.t.Helper()
	return w.enqueue(later.Options{Tenant: "acme", Priority: priority})
}

// testLimitUnanswered says what becomes of the places of claims whose answer was lost. A store
// gives their jobs again, or takes them back and gives their places to better ones.
func testLimitUnanswered(t *testing.T, open Open) {
	for _, limit := range []struct {
		name   string
		limit  later.Limit
		starts int
	}{
		{"a full one", atMost(2), 2}, {"a rate that is used up", slow(2), 2}, {"an order", inOrder, 1},
		{"a full one whose rate is used up", both(atMost(2), slow(2)), 2},
	} {
		for _, way := range limitWays() {
			// capped, paced, in order.
			t.Run("jobs of a claim whose answer was lost are given again under "+limit.name+", of a "+way.name, func(t *testing.T) {
				w := newWorld(t, open)
				w.limit(way.set, limit.limit)
				w.enqueueFor("acme", 5)
				unseen := w.claim(limit.starts)
				w.claimNone()
				for range 2 { // and that answer is lost as well
					seen := w.claimUnanswered(limit.starts, unseen[0].Lease.Token)
					if got, want := idsOf(seen), idsOf(unseen); !slices.Equal(got, want) {
						t.Fatalf("got the jobs %v, want %v", got, want)
					}
					for i, c := range seen {
						equal(t, "attempt", c.Attempt, unseen[i].Attempt)
						equal(t, "crashes", c.Crashes, 0)
						equal(t, "limited", c.Limited, true)
					}
					unseen = seen
					w.claimNone()
				}
			})

			// capped, paced, in order.
			t.Run("with a better job than those of a lost answer no more run than may under "+limit.name+", of a "+way.name, func(t *testing.T) {
				w := newWorld(t, open)
				w.limit(way.set, limit.limit)
				w.enqueueFor("acme", 5)
				unseen := w.claim(limit.starts)
				better := w.enqueueBetter(-1)
				seen := w.claimUnanswered(limit.starts, unseen[0].Lease.Token)
				got, want := idsOf(seen), idsOf(unseen)
				took := slices.Contains(got, better)
				if took && limit.limit.Rate == (later.Rate{}) && !limit.limit.Ordered { // a place is a place
					want = []int64{better, want[0]}
				}
				equalSlices(t, "ids", got, want)
				equal(t, "leases that hold", len(w.list(later.Filter{State: later.StateRunning})), limit.starts)
				for _, c := range seen {
					equal(t, "attempt", c.Attempt, 1)
					equal(t, "crashes", c.Crashes, 0)
				}
				w.claimNone()
			})
		}
	}

	t.Run("a job of a claim whose answer was lost has its place until it is given again or taken back", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("acme"), atMost(1))
		unseen := w.claimFor("acme", 0)
		w.enqueueBetter(-1)
		req := ask(10)
		req.Queues[0].Queue = "elsewhere" // so it is not given again
		req.Unanswered = []int64{unseen.Lease.Token}
		equal(t, "jobs from elsewhere", len(w.claimWith(req)), 0)
		for range 3 {
			w.claimWith(ask(10))
			equal(t, "leases that hold", len(w.list(later.Filter{State: later.StateRunning})), 1)
		}
	})
}

// claimUnanswered takes n jobs, after a claim with a token whose answer was lost.
func (w *world) claimUnanswered(n int, token int64) []*later.Claimed {
	w.t.Helper()
	var jobs []*later.Claimed
	w.eventually(fmt.Sprintf("%d jobs are claimed", n), func() bool {
		req := ask(10)
		req.Unanswered = []int64{token}
		jobs = append(jobs, w.claimWith(req)...)
		return len(jobs) >= n
	})
	return jobs
}

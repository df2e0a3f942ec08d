package storetest

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

// testLimitChange is about limits that change while jobs run. Case 130.
func testLimitChange(t *testing.T, openMore OpenMore) {
	open := alone1(openMore)
	for _, way := range limitWays() {
		t.Run("below a lowered limit nothing starts until fewer run, and what runs goes on, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(5))
			w.enqueueFor("acme", 10)
			running := w.claim(5)
			w.limit(way.set, atMost(2))
			w.claimNone()
			for len(running) > 2 {
				equal(t, "leases lost", len(w.renew(long, leasesOf(running)...).Lost), 0)
				w.endAs(later.OutcomeDone, running[0])
				running = running[1:]
				w.claimNone()
			}
			w.endAs(later.OutcomeDone, running[0])
			w.claim(1)
			w.claimNone()
		})

		t.Run("a limit of 0 stops new starts and nothing that runs, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(3))
			w.enqueueFor("acme", 10)
			running := w.claim(3)
			w.limit(way.set, atMost(0))
			equal(t, "leases lost", len(w.renew(long, leasesOf(running)...).Lost), 0)
			w.endAs(later.OutcomeDone, running...)
			w.claimNone()
			w.limit(way.set, atMost(4))
			w.claim(4)
			w.claimNone()
		})

		t.Run("a raised limit lets more start, and a removed one all, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(1))
			w.enqueueFor("acme", 10)
			w.claim(1)
			w.limit(way.set, atMost(4))
			w.claim(3)
			w.claimNone()
			w.unlimit(way.set)
			w.claim(6)
		})

		// capped.
		t.Run("jobs that run when a limit is set count, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.enqueueFor("acme", 10)
			running := w.claim(4)
			w.limit(way.set, atMost(4))
			w.claimNone()
			equalSlices(t, "running", w.standing(way.of).Running, idsOf(running))
			w.limit(way.set, atMost(5))
			w.claim(1)
			w.claimNone()
			w.endAs(later.OutcomeRetry, running...)
			w.claim(4)
			w.claimNone()
		})

		t.Run("jobs that run count again when a limit was removed and comes back, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(2))
			w.enqueueFor("acme", 10)
			w.claim(2)
			w.unlimit(way.set)
			more := w.claim(2)
			w.limit(way.set, atMost(3))
			w.claimNone()
			w.endAs(later.OutcomeDone, more...)
			w.claim(1)
			w.claimNone()
		})

		t.Run("jobs that run count when a rate becomes a limit of how many run, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, slow(5))
			w.enqueueFor("acme", 10)
			w.claim(3)
			w.limit(way.set, atMost(4))
			w.claim(1)
			w.claimNone()
		})

		t.Run("a rate that is replaced remembers what was used of it, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, slow(2))
			w.enqueueFor("acme", 10)
			w.claim(2)
			w.limit(way.set, slow(3))
			w.claim(1)
			w.claimNone()
			w.limit(way.set, slow(1))
			w.claimNone()
		})

		t.Run("a rate that was removed and comes back begins anew, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, slow(2))
			w.enqueueFor("acme", 10)
			w.claim(2)
			w.claimNone()
			w.unlimit(way.set)
			w.limit(way.set, slow(2))
			w.claim(2)
			w.claimNone()
		})

		// found: otherwise a rate of one a day that was used, and is one a second now, would let
		// nothing start for a day.
		t.Run("a faster rate lets the next start as soon as its own would, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, slow(3))
			w.enqueueFor("acme", 6)
			w.claim(3)
			w.claimNone()
			w.limit(way.set, later.Limit{Rate: later.Rate{N: 100, Period: time.Second}})
			w.claim(3)
		})
	}

	if shared(t, openMore) {
		testLimitsOfAnother(t, openMore)
	}
}

// testLimitsOfAnother is about limits that another process has set.
func testLimitsOfAnother(t *testing.T, open OpenMore) {
	// capped. Case 130: two processes never have different limits.
	t.Run("a limit that one store sets holds in another one at once", func(t *testing.T) {
		for _, way := range limitWays() {
			one, two := twoWorlds(t, open)
			one.enqueueFor("acme", 10)
			one.claim(1)
			two.claim(1)
			one.limit(way.set, atMost(3))
			two.claim(1)
			two.claimNone()
			one.claimNone()
			two.limit(way.set, atMost(4))
			one.claim(1)
			one.claimNone()
			two.claimNone()
			one.unlimit(way.set)
			two.claim(6)
		}
	})

	// capped. Case 130: and Case 119, when the store is another.
	t.Run("limits and what they remember outlast the store that set them", func(t *testing.T) {
		for _, way := range limitWays() {
			one, two := twoWorlds(t, open)
			limit := slow(3)
			limit.MaxRunning = atMost(2).MaxRunning
			one.limit(way.set, limit)
			one.enqueueFor("acme", 10)
			running := one.claim(2)
			if err := one.store.Close(); err != nil {
				t.Fatal(err)
			}
			list := two.limits()
			equal(t, "limits", len(list), 1)
			equal(t, "scope", list[0].Scope, way.set)
			sameLimit(t, "limit", list[0].Limit, limit)
			equalSlices(t, "running", two.standing(way.of).Running, idsOf(running))
			two.claimNone()
			two.endLease(running[0])
			two.endAs(later.OutcomeDone, running[1])
			two.claim(1)
			two.claimNone() // the rate's third
		}
	})

	t.Run("a place that one store frees is found by another one", func(t *testing.T) {
		for _, way := range limitWays() {
			one, two := twoWorlds(t, open)
			one.limit(way.set, atMost(1))
			one.enqueueFor("acme", 4)
			first := one.claim(1)[0]
			two.claimNone()
			one.endAs(later.OutcomeDone, first)
			second := two.claim(1)[0]
			one.claimNone()
			two.endLease(second)
			one.claim(1)
			two.claimNone()
		}
	})
}

// shared reports whether a second store can be opened on a database.
func shared(t *testing.T, open OpenMore) bool {
	var can bool
	t.Run("open", func(t *testing.T) { // whose store ends with it
		_, more := open(t)
		can = more != nil
	})
	return can
}

// twoWorlds are two stores on one database.
func twoWorlds(t *testing.T, open OpenMore) (one, two *world) {
	t.Helper()
	store, more := open(t)
	return &world{t: t, ctx: t.Context(), store: store}, &world{t: t, ctx: t.Context(), store: more(t)}
}

func leasesOf(jobs []*later.Claimed) []later.Lease {
	var leases []later.Lease
	for _, c := range jobs {
		leases = append(leases, c.Lease)
	}
	return leases
}

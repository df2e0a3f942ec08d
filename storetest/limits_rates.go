package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// testRates is Rate.
func testRates(t *testing.T, openMore OpenMore) {
	open := alone1(openMore)
	for _, way := range limitWays() {
		t.Run("after a quiet time as many start at once as a burst has, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, slow(4))
			ids := w.enqueueFor("acme", 10)
			equalSlices(t, "ids", idsOf(w.claimWith(ask(10))), ids[:4])
			for range 3 {
				w.claimNone()
			}
		})

		t.Run("without a burst one starts, and then the next a period later, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			const every = 30 * time.Millisecond
			w.limit(way.set, later.Limit{Rate: later.Rate{N: 10, Period: 10 * every}})
			w.enqueueFor("acme", 5)
			var before time.Time
			for range 5 {
				jobs := w.claim(1)
				if d := jobs[0].Now.Sub(before); d < every {
					t.Errorf("got a start %v after the one before, want at least %v", d, every)
				}
				before = jobs[0].Now
			}
		})

		t.Run("a burst is there again when it has been gathered, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			const every, burst = 20 * time.Millisecond, 3
			w.limit(way.set, later.Limit{Rate: later.Rate{N: 1, Period: every, Burst: burst}})
			ids := w.enqueueFor("acme", 30)
			equal(t, "first burst", len(w.claimWith(ask(20))), burst)
			for range 2 {
				w.pass(ids[29], w.find(ids[29]).Now.Add(burst*every+clockStep))
				equal(t, "burst after a quiet time", len(w.claimWith(ask(20))), burst)
			}
		})

		// Case 122: and what a rate holds back is untouched.
		t.Run("what its rate holds back stays as it is, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, slow(1))
			id := w.enqueueFor("acme", 2)[1]
			w.claim(1)
			before := w.find(id)
			for range 10 {
				w.claimNone()
			}
			sameInfo(t, "job", w.find(id), before)
		})

		// paced: each start counts, whatever became of the one before.
		t.Run("a job that starts again counts again, of a "+way.name, func(t *testing.T) {
			for _, outcome := range []later.Outcome{later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased} {
				w := newWorld(t, open)
				w.limit(way.set, slow(3))
				w.enqueueFor("acme", 1)
				for range 2 {
					w.endAs(outcome, w.claimOne())
				}
				w.endLease(w.claimOne())
				w.claimNone()
			}
		})

		t.Run("a suspect is a start, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.suspectFor("acme")
			w.limit(way.set, slow(1))
			w.enqueueFor("acme", 1)
			w.endAs(later.OutcomeReleased, w.sweepOne(true, later.DoomNone))
			w.claimNone()
			w.sweepNone(true)
		})

		t.Run("a cap and a rate both hold, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			limit := slow(3)
			limit.MaxRunning = atMost(2).MaxRunning
			w.limit(way.set, limit)
			w.enqueueFor("acme", 10)
			jobs := w.claim(2)
			w.claimNone()
			w.endAs(later.OutcomeDone, jobs...)
			w.claim(1)
			w.claimNone()
		})
	}

	for _, rate := range []later.Rate{
		{N: 1, Period: 5 * time.Millisecond},
		{N: 3, Period: 50 * time.Millisecond, Burst: 5},
		{N: 400, Period: time.Second, Burst: 2},
		{N: 3000, Period: time.Second, Burst: 10},
	} {
		// paced.
		t.Run(fmt.Sprintf("in no stretch of time start more than %d in %v with bursts of %d", rate.N, rate.Period, rate.Burst), func(t *testing.T) {
			const jobs, claimers = 60, 4
			w, stores := severalStores(t, openMore, claimers)
			w.limit(tenant("acme"), later.Limit{Rate: rate})
			w.enqueueFor("acme", jobs)
			var mu sync.Mutex
			var starts []time.Time
			inParallel(t, claimers, func(ctx context.Context, n int) error {
				deadline := time.Now().Add(patience)
				for {
					mu.Lock()
					had := len(starts)
					mu.Unlock()
					if had >= jobs {
						return nil
					}
					if time.Now().After(deadline) {
						return fmt.Errorf("got %d starts in %v, want %d", had, patience, jobs)
					}
					claimed, err := stores[n].Claim(ctx, ask(1+n*2))
					if err != nil {
						return err
					}
					mu.Lock()
					for _, c := range claimed {
						starts = append(starts, c.Now)
					}
					mu.Unlock()
				}
			})
			paced(t, starts, rate)
			for i, info := range w.list(later.Filter{State: later.StateRunning}) {
				starts[i] = info.ClaimedAt
			}
			paced(t, starts, rate)
		})
	}
}

// paced fails when the rate was exceeded in any stretch of time.
func paced(t failer, starts []time.Time, rate later.Rate) {
	t.Helper()
	slices.SortFunc(starts, time.Time.Compare)
	every, burst := rate.Every(), max(rate.Burst, 1)
	for i := range starts {
		for k := i + burst; k < len(starts); k++ {
			within := starts[k].Sub(starts[i])
			if most := burst + int(within/every); k-i+1 > most {
				t.Fatalf("%d jobs started within %v, want at most %d (a burst of %d and one in each %v)", k-i+1, within, most, burst, every)
			}
		}
	}
}

// severalStores are n stores, which are one where a database can have only one, and a world
// of the first.
func severalStores(t *testing.T, open OpenMore, n int) (*world, []later.Store) {
	t.Helper()
	first, more := open(t)
	stores := []later.Store{first}
	for len(stores) < n {
		if more == nil {
			stores = append(stores, first)
			continue
		}
		stores = append(stores, more(t))
	}
	return &world{t: t, ctx: t.Context(), store: first}, stores
}

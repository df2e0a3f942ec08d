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

// testOrdered is Ordered. Case 128.
func testOrdered(t *testing.T, openMore OpenMore) {
	open := alone1(openMore)
	for _, way := range limitWays() {
		t.Run("jobs run one after the other by priority, run_at and id, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, inOrder)
			second := w.enqueueFor("acme", 3)
			third := w.enqueueMany(2, raw(`{}`), later.Options{Tenant: "acme", Priority: 7})
			first := w.enqueueMany(2, raw(`{}`), later.Options{Tenant: "acme", Priority: -7})
			for _, id := range slices.Concat(first, second, third) {
				jobs := w.claim(1)
				equal(t, "id", jobs[0].ID, id)
				w.claimNone()
				equalSlices(t, "running", w.standing(way.of).Running, []int64{id})
				w.endAs(later.OutcomeDone, jobs...)
			}
		})

		// in order: among many tenants under a limit of their own.
		t.Run("the first one goes on, though it is the turn of another tenant, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			if way.of.Of == later.ScopeTenant {
				w.limit(later.Scope{Of: later.ScopeQueue, Name: queue}, atMost(2))
			} else {
				w.limit(everyTenant, atMost(2))
			}
			w.limit(way.set, inOrder)
			w.enqueueFor("acme", 2)
			c := w.claim(1)[0]
			for n := range 40 {
				w.enqueueFor(fmt.Sprintf("zz%02d", n), 1)
			}
			for range 3 {
				w.endAs(later.OutcomeRetry, c) // without a delay
				again := w.claim(1)[0]
				if way.of.Of == later.ScopeTenant { // the others are in no order
					for again.Tenant != "acme" {
						w.endAs(later.OutcomeDone, again)
						again = w.claim(1)[0]
					}
				}
				equal(t, "id", again.ID, c.ID)
				c = again
			}
		})

		for _, outcome := range []later.Outcome{later.OutcomeRetry, later.OutcomeSnoozed} {
			// in order.
			t.Run("a job that waits after "+string(outcome)+" holds back those behind it, of a "+way.name, func(t *testing.T) {
				w := newWorld(t, open)
				w.limit(way.set, inOrder)
				ids := w.enqueueFor("acme", 3)
				c := w.claim(1)[0]
				better := w.enqueueBetter(-1)
				w.putOff(c, outcome, long)
				w.claimNone()
				w.sweepNone(true)
				equalSlices(t, "who the others wait for", w.standing(way.of).Running, ids[:1])
				w.retry(c.ID) // now it is due
				again := w.claim(1)[0]
				equal(t, "id", again.ID, ids[0])
				w.claimNone()
				w.endAs(outcome, again) // without a delay
				again = w.claim(1)[0]
				equal(t, "id", again.ID, ids[0])
				w.endAs(later.OutcomeDone, again)
				for _, id := range []int64{better, ids[1], ids[2]} {
					next := w.claim(1)[0]
					equal(t, "id of the next", next.ID, id)
					w.endAs(later.OutcomeDone, next)
				}
			})
		}

		t.Run("a job that was given back is still the next, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, inOrder)
			ids := w.enqueueFor("acme", 2)
			c := w.claim(1)[0]
			w.enqueueBetter(-1)
			w.endAs(later.OutcomeReleased, c)
			equal(t, "id", w.claim(1)[0].ID, ids[0])
			w.claimNone()
		})

		t.Run("a job whose worker was lost is the next, also as a suspect, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, inOrder)
			w.enqueueFor("acme", 2)
			c := w.claim(1)[0]
			better := w.enqueueBetter(-1)
			w.endLease(c)
			again := w.claim(1)[0]
			equal(t, "id", again.ID, c.ID)
			equal(t, "crashes", again.Crashes, 1)
			w.endLease(again)
			w.claimNone() // it is a suspect now
			w.sweepNone(false)
			suspect := w.sweepOne(true, later.DoomNone)
			equal(t, "id of the suspect", suspect.ID, c.ID)
			w.claimNone()
			w.endAs(later.OutcomeDone, suspect)
			equal(t, "id of the next", w.claim(1)[0].ID, better)
		})

		t.Run("a suspect that has not begun waits for the one that has, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.suspectFor("acme")
			w.endAs(later.OutcomeReleased, w.sweepOne(true, later.DoomNone))
			w.limit(way.set, inOrder)
			c := w.claimFor("acme", 0)
			w.putOff(c, later.OutcomeRetry, long)
			w.sweepNone(true)
			w.delete(c.ID)
			w.sweepOne(true, later.DoomNone)
		})

		for name, leave := range map[string]func(w *world, id int64){
			"deleted":   func(w *world, id int64) { w.delete(id) },
			"cancelled": func(w *world, id int64) { w.cancel(id, false) },
		} {
			t.Run("a job that is "+name+" while it waits lets the next one go, of a "+way.name, func(t *testing.T) {
				w := newWorld(t, open)
				w.limit(way.set, inOrder)
				ids := w.enqueueFor("acme", 3)
				w.putOff(w.claim(1)[0], later.OutcomeRetry, long)
				w.claimNone()
				leave(w, ids[0])
				equal(t, "id", w.claim(1)[0].ID, ids[1])
				leave(w, ids[2])
				w.claimNone()
			})
		}

		t.Run("a job that expires while it waits for its next attempt lets the next one go, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			c := w.claimExpiringFor("acme")
			w.limit(way.set, inOrder)
			w.putOff(c, later.OutcomeRetry, long)
			next := w.enqueueFor("acme", 1)[0]
			w.claimNone()
			w.pass(c.ID, c.ExpiresAt.Add(clockStep))
			w.endAs(later.OutcomeExpired, w.sweepOne(true, later.DoomExpired))
			equal(t, "id", w.claim(1)[0].ID, next)
		})

		t.Run("who is not due or has not begun holds back nobody, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, inOrder)
			w.enqueue(later.Options{Tenant: "acme", Priority: -1, Delay: long})
			ids := w.enqueueFor("acme", 2)
			equal(t, "id", w.claim(1)[0].ID, ids[0])
		})

		// Case 130.
		t.Run("jobs that run when an order is set end one by one, and go before the others, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			ids := w.enqueueFor("acme", 5)
			running := w.claim(3)
			w.limit(way.set, inOrder)
			better := w.enqueueBetter(-1)
			w.claimNone()
			w.endAs(later.OutcomeRetry, running[0], running[1])
			w.claimNone() // one runs
			w.endAs(later.OutcomeDone, running[2])
			var got []int64
			for range 5 {
				c := w.claim(1)[0]
				w.claimNone()
				got = append(got, c.ID)
				w.endAs(later.OutcomeDone, c)
			}
			slices.Sort(got[:2])
			equalSlices(t, "ids", got, []int64{ids[0], ids[1], better, ids[3], ids[4]})
		})

		t.Run("without its order nobody waits for a job that failed, of a "+way.name, func(t *testing.T) {
			for _, next := range []later.Limit{{}, atMost(1)} {
				w := newWorld(t, open)
				w.limit(way.set, inOrder)
				ids := w.enqueueFor("acme", 3)
				w.putOff(w.claim(1)[0], later.OutcomeRetry, long)
				w.claimNone()
				if next.Holds() {
					w.limit(way.set, next)
				} else {
					w.unlimit(way.set)
				}
				equal(t, "id", w.claim(1)[0].ID, ids[1])
			}
		})
	}

	t.Run("each tenant has an order of its own", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(everyTenant, inOrder)
		a, b := w.enqueueFor("a", 3), w.enqueueFor("b", 3)
		none := w.enqueueFor("", 3)
		jobs := w.claim(5)
		got := idsOf(jobs)
		slices.Sort(got)
		equalSlices(t, "ids", got, slices.Concat(a[:1], b[:1], none))
		for _, c := range jobs {
			if c.Tenant == "a" {
				w.putOff(c, later.OutcomeRetry, long)
			} else {
				w.endAs(later.OutcomeDone, c)
			}
		}
		equalSlices(t, "ids of the second claim", idsOf(w.claim(1)), b[1:2])
		w.claimNone()
	})

	// in order, and alone.
	t.Run("workers at once run a tenant's jobs in order across retries", func(t *testing.T) {
		const jobs, tenants, workers = 25, 2, 4
		w, stores := severalStores(t, openMore, workers)
		w.limit(everyTenant, inOrder)
		for n := range tenants {
			w.enqueueFor(fmt.Sprintf("tenant-%d", n), jobs)
		}
		var mu sync.Mutex
		var starts []*later.Claimed
		left := jobs * tenants
		inParallel(t, workers, func(ctx context.Context, n int) error {
			deadline := time.Now().Add(patience)
			for time.Now().Before(deadline) {
				mu.Lock()
				done := left == 0
				mu.Unlock()
				if done {
					return nil
				}
				claimed, err := stores[n].Claim(ctx, ask(3))
				if err != nil {
					return err
				}
				mu.Lock()
				starts = append(starts, claimed...)
				mu.Unlock()
				for _, c := range claimed {
					outcome := later.OutcomeDone
					if c.Attempt == 1 && c.ID%3 == 0 {
						outcome = later.OutcomeRetry
					}
					refused, err := stores[n].Settle(ctx, []later.Settlement{end(c, outcome)})
					if err != nil || len(refused) > 0 {
						return fmt.Errorf("settle job %d: %v refused, %w", c.ID, refused, err)
					}
					if outcome == later.OutcomeDone {
						mu.Lock()
						left--
						mu.Unlock()
					}
				}
			}
			return fmt.Errorf("not all were done in %v", patience)
		})
		slices.SortStableFunc(starts, func(a, b *later.Claimed) int { return a.Now.Compare(b.Now) })
		last := map[string]*later.Claimed{}
		for _, c := range starts {
			if b := last[c.Tenant]; b != nil && (c.ID < b.ID || c.ID == b.ID && c.Attempt <= b.Attempt) && c.Now.After(b.Now) {
				t.Errorf("job %d at attempt %d started after job %d at attempt %d", c.ID, c.Attempt, b.ID, b.Attempt)
			}
			last[c.Tenant] = c
		}
	})
}

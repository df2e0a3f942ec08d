package storetest

import (
	"fmt"
	"testing"

	"github.com/later-queue/later"
)

// testEveryTenant is the limit that each tenant has, and how its own goes with it.
func testEveryTenant(t *testing.T, open Open) {
	t.Run("each tenant is counted by itself, and jobs of none are not", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(everyTenant, atMost(2))
		w.holdTo(map[string]int{"a": 2, "b": 2, "c d": 2, "é": 2, "": 6})
	})

	t.Run("each tenant has a rate of its own", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(everyTenant, slow(3))
		w.holdTo(map[string]int{"a": 3, "b": 3, "": 6})
	})

	for _, c := range []struct {
		name           string
		every, own     later.Limit
		want           later.Limit
		starts, others int
	}{
		{"a cap of its own takes the place of the cap", atMost(2), atMost(4), atMost(4), 4, 2},
		{"a cap of 0 is one too", atMost(2), atMost(0), atMost(0), 0, 2},
		{"a rate of its own leaves the cap", atMost(2), slow(4), both(atMost(2), slow(4)), 2, 2},
		{"a rate of its own takes the place of the rate", slow(2), slow(4), slow(4), 4, 2},
		{"a cap of its own leaves the rate", slow(3), atMost(5), both(atMost(5), slow(3)), 3, 3},
		{"its own order takes the place of the cap", atMost(3), inOrder, inOrder, 1, 3},
		{"a cap of its own takes the place of the order", later.Limit{Ordered: true, OnDead: later.DeadBlocks}, atMost(3), atMost(3), 3, 1},
		{"a weight leaves both", both(atMost(2), slow(5)), later.Limit{Weight: 3}, weighing(3, both(atMost(2), slow(5))), 2, 2},
		{"a rate of its own leaves the order", later.Limit{Ordered: true, OnDead: later.DeadBlocks}, slow(3), both(later.Limit{Ordered: true, OnDead: later.DeadBlocks}, slow(3)), 1, 1},
	} {
		t.Run("of a tenant "+c.name, func(t *testing.T) {
			for first := range 2 { // which of the two is set first
				w := newWorld(t, open)
				if first == 0 {
					w.limit(everyTenant, c.every)
				}
				w.limit(tenant("own"), c.own)
				w.limit(everyTenant, c.every)
				sameLimit(t, "standing of a tenant with its own", w.standing(tenant("own")).Limit, c.want)
				sameLimit(t, "standing of another", w.standing(tenant("other")).Limit, c.every)
				w.holdTo(map[string]int{"own": c.starts, "other": c.others, "": 6})
			}
		})
	}

	// capped: what ran under the one counts under the other.
	t.Run("without its own limit a tenant is under the one of all, with what it runs", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(everyTenant, atMost(3))
		w.limit(tenant("acme"), atMost(2))
		w.enqueueFor("acme", 10)
		running := w.claim(2)
		w.unlimit(tenant("acme"))
		w.claim(1)
		w.claimNone()
		w.endAs(later.OutcomeDone, running...)
		w.claim(2)
		w.claimNone()
	})

	t.Run("with its own limit a tenant keeps what it runs under the one of all", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(everyTenant, atMost(2))
		w.enqueueFor("acme", 10)
		w.claim(2)
		w.limit(tenant("acme"), atMost(3))
		w.claim(1)
		w.claimNone()
		w.unlimit(everyTenant)
		w.claimNone()
	})

	t.Run("without the limit of all only those have one that have their own", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(everyTenant, atMost(1))
		w.limit(tenant("own"), slow(3))
		w.enqueueFor("own", 6)
		w.enqueueFor("other", 6)
		w.claim(2)
		w.claimNone()
		w.unlimit(everyTenant)
		got := map[string]int{}
		for _, c := range w.claim(5 + 2) {
			got[c.Tenant]++
		}
		equal(t, "jobs of the one with its own rate", got["own"], 2)
		w.claimNone()
	})

	t.Run("every tenant's limit counts what runs of each, many as they are", func(t *testing.T) {
		w := newWorld(t, open)
		const tenants = 30
		for n := range tenants {
			w.enqueueFor(fmt.Sprintf("tenant-%02d", n), 4)
		}
		w.claim(2 * tenants)
		w.limit(everyTenant, atMost(2))
		w.claimNone()
		w.limit(everyTenant, atMost(3))
		w.claim(tenants)
		w.claimNone()
	})
}

// holdTo enqueues 6 jobs of each tenant, and fails unless as many start as said.
func (w *world) holdTo(starts map[string]int) {
	w.t.Helper()
	total := 0
	for name, n := range starts {
		w.enqueueFor(name, 6)
		total += n
	}
	got := map[string]int{}
	for _, c := range w.claim(total) {
		got[c.Tenant]++
	}
	w.claimNone()
	for name, n := range starts {
		equal(w.t, fmt.Sprintf("starts of %q", name), got[name], n)
	}
}

// both is one limit of a cap or an order, and a rate.
func both(running, rate later.Limit) later.Limit {
	running.Rate = rate.Rate
	return running
}

func weighing(n int, limit later.Limit) later.Limit {
	limit.Weight = n
	return limit
}

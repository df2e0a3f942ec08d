package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// testWeights is Weight. Each test enqueues before it claims; see [Run].
func testWeights(t *testing.T, open Open) {
	// fair. Case 124: with unequal weights.
	t.Run("a claim of one goes on with the turn that the one before has begun", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("a"), later.Limit{Weight: 3})
		w.limit(tenant("c"), later.Limit{Weight: 2})
		for _, name := range []string{"a", "b", "c", ""} {
			w.enqueueFor(name, 20)
		}
		var got strings.Builder
		for range 4 * 7 {
			fmt.Fprintf(&got, "%1s", w.claim(1)[0].Tenant)
		}
		if !strings.Contains(strings.Repeat(" aaabcc", 6), got.String()) {
			t.Errorf("got the turns %q, want \" aaabcc\" again and again", got.String())
		}
	})

	t.Run("tenants weigh where no job under a limit is wanted", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("a"), later.Limit{Weight: 3})
		w.limit(tenant("c"), atMost(3))
		for _, name := range []string{"a", "b", "c"} {
			w.enqueueFor(name, 40)
		}
		req := ask(40)
		req.Free = -1
		jobs := w.claimWith(req)
		for name, want := range map[string]int{"a": 30, "b": 10, "c": 0} {
			equal(t, "jobs of "+name, len(idsFor(name, jobs)), want)
		}
	})

	t.Run("whatever the claims' sizes, tenants start as they weigh", func(t *testing.T) {
		for _, limit := range []int{2, 3, 5, 7, 11, 100} {
			w := newWorld(t, open)
			w.limit(tenant("a"), later.Limit{Weight: 5})
			w.limit(tenant("b"), later.Limit{Weight: 2})
			weights := map[string]int{"a": 5, "b": 2, "c": 1}
			const rounds = 13
			for name, weight := range weights {
				w.enqueueFor(name, (rounds+1)*weight)
			}
			starts := map[string]int{}
			for total := 0; total < rounds*8; {
				jobs := w.claimWith(ask(min(limit, rounds*8-total)))
				if len(jobs) == 0 {
					t.Fatalf("got no jobs after %d", total)
				}
				for _, c := range jobs {
					starts[c.Tenant]++
				}
				total += len(jobs)
				for name, weight := range weights {
					if d := starts[name]*8 - total*weight; d > 8*weight || d < -8*weight {
						t.Fatalf("claims of %d: after %d jobs %s has had %d, want about %d", limit, total, name, starts[name], total*weight/8)
					}
				}
			}
			for name, weight := range weights {
				equal(t, fmt.Sprintf("claims of %d: starts of %s", limit, name), starts[name], rounds*weight)
			}
		}
	})

	t.Run("a claim returns each tenant's turn in its rounds", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("a"), later.Limit{Weight: 3})
		a, b := w.enqueueFor("a", 10), w.enqueueFor("b", 10)
		want := []int64{a[0], a[1], a[2], b[0], a[3], a[4], a[5], b[1]}
		equalSlices(t, "ids", idsOf(w.claimWith(ask(8))), want)
	})

	t.Run("what a tenant leaves of its turn goes to the others", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("a"), later.Limit{Weight: 100})
		a, b, c := w.enqueueFor("a", 3), w.enqueueFor("b", 10), w.enqueueFor("c", 10)
		jobs := w.claimWith(ask(13))
		equal(t, "jobs", len(jobs), 13)
		equalSlices(t, "ids of a", idsFor("a", jobs), a)
		equalSlices(t, "ids of b", idsFor("b", jobs), b[:5])
		equalSlices(t, "ids of c", idsFor("c", jobs), c[:5])
	})

	t.Run("a turn goes on to the next tenant where a limit holds one back", func(t *testing.T) {
		w := newWorld(t, open)
		limit := atMost(2)
		limit.Weight = 4
		w.limit(tenant("a"), limit)
		a, b := w.enqueueFor("a", 10), w.enqueueFor("b", 10)
		var jobs []*later.Claimed
		for range 5 {
			jobs = append(jobs, w.claim(1)...)
		}
		equalSlices(t, "ids of a", idsFor("a", jobs), a[:2])
		equalSlices(t, "ids of b", idsFor("b", jobs), b[:3])
	})

	t.Run("a weight that is set, changed or removed counts from the next claim", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueFor("a", 100)
		w.enqueueFor("b", 100)
		shares := func(limit, wantA, wantB int) {
			t.Helper()
			jobs := w.claimWith(ask(limit))
			equal(t, "jobs of a", len(idsFor("a", jobs)), wantA)
			equal(t, "jobs of b", len(idsFor("b", jobs)), wantB)
		}
		shares(4, 2, 2)
		w.limit(tenant("a"), later.Limit{Weight: 3})
		shares(8, 6, 2)
		w.limit(tenant("a"), later.Limit{Weight: 7})
		shares(16, 14, 2)
		w.limit(tenant("a"), later.Limit{Weight: 1})
		shares(6, 3, 3)
		w.limit(tenant("b"), later.Limit{Weight: 2})
		shares(6, 2, 4)
		w.unlimit(tenant("b"))
		shares(6, 3, 3)
	})

	t.Run("a better priority comes first, whatever the weights", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("a"), later.Limit{Weight: 50})
		w.enqueueFor("a", 50)
		best := w.enqueueMany(3, raw(`{}`), later.Options{Tenant: "b", Priority: -1})
		equalSlices(t, "ids", idsOf(w.claimWith(ask(4)))[:3], best)
	})
}

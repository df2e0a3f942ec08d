package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/later-queue/later"
)

// testTurns is the contract for tenants. Each test enqueues before it claims, so
// that nothing comes in behind a claim: see [Run].
func testTurns(t *testing.T, open Open) {
	// fair. Case 124.
	t.Run("a light tenant's job is in the first claim beside a heavy one's thousand", func(t *testing.T) {
		w := newWorld(t, open)
		heavy := w.enqueueFor("heavy", 1000)
		want := []int64{heavy[0]}
		for n := range 5 {
			want = append(want, w.enqueueFor(fmt.Sprintf("light-%d", n), 1)...)
		}
		want = append(want, heavy[1:5]...)
		equalSlices(t, "ids", idsOf(w.claimWith(ask(10))), want)
		equalSlices(t, "ids of the second claim", idsOf(w.claimWith(ask(10))), heavy[5:15])
	})

	// fair. Case 124: the starts of the tenants never differ by more than one.
	t.Run("of more tenants than a claim takes jobs, none comes again before all have come", func(t *testing.T) {
		const tenants, each, limit = 30, 4, 7
		w := newWorld(t, open)
		for n := range tenants {
			w.enqueueFor(fmt.Sprintf("tenant-%02d", n), each)
		}
		w.equalStarts(tenants*each, ask(limit))
	})

	// fair.
	t.Run("tenants take turns though their jobs are of different kinds", func(t *testing.T) {
		for _, kinds := range [][][]string{ // of each tenant
			{{kind}, {"other"}},
			{{kind}, {"other"}, {kind}, {"third", "other"}, {"other"}, {kind, "third"}, {kind}, {"third"}, {"other"}},
		} {
			const each = 2
			w := newWorld(t, open)
			for n, of := range kinds {
				for i := range each {
					args := later.RawArgs{JobKind: of[i%len(of)], Payload: []byte(`{}`)}
					w.enqueueArgs(args, later.Options{Tenant: fmt.Sprintf("tenant-%02d", n)})
				}
			}
			req := ask(len(kinds) / 2)
			req.Kinds = []string{"other", kind, "third"}
			w.equalStarts(len(kinds)*each, req)
		}
	})

	t.Run("the turn goes through the tenants in the order of their bytes, and around", func(t *testing.T) {
		w := newWorld(t, open)
		order := []string{"", "A", "B", "a", "a b", "ab", "z", "é", "😀"}
		for n := range order { // enqueued in another order
			w.enqueueFor(order[(n*5+3)%len(order)], 3)
		}
		var got, want []string
		first := 0
		for n := range 3 * len(order) {
			got = append(got, w.claim(1)[0].Tenant)
			if n == 0 {
				first = slices.Index(order, got[0])
			}
			want = append(want, order[(first+n)%len(order)])
		}
		equalSlices(t, "tenants", got, want)
	})

	t.Run("a tenant that comes new has its turn where its name is", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueFor("b", 3)
		w.enqueueFor("d", 3)
		last := w.claim(1)[0].Tenant
		fresh := map[string]int64{"a": w.enqueueFor("a", 1)[0], "c": w.enqueueFor("c", 1)[0]}
		before := map[string]string{"a": "d", "c": "b"}
		w.eventually("the new tenants have their turns", func() bool {
			w.enqueueFor("b", 1)
			w.enqueueFor("d", 1)
			c := w.claim(1)[0]
			if id, ok := fresh[c.Tenant]; ok {
				equal(t, "id of the job of "+c.Tenant, c.ID, id)
				equal(t, "tenant before "+c.Tenant, last, before[c.Tenant])
				delete(fresh, c.Tenant)
			}
			last = c.Tenant
			return len(fresh) == 0
		})
	})

	// fair.
	t.Run("a claim gives each tenant its share, and to others what some leave of it", func(t *testing.T) {
		w := newWorld(t, open)
		a, c := w.enqueueFor("a", 100), w.enqueueFor("c", 1)
		d, b := w.enqueueFor("d", 3), w.enqueueFor("b", 100)
		jobs := w.claimWith(ask(20))
		equal(t, "jobs", len(jobs), 20)
		equalSlices(t, "ids of c", idsFor("c", jobs), c)
		equalSlices(t, "ids of d", idsFor("d", jobs), d)
		for tenant, ids := range map[string][]int64{"a": a, "b": b} {
			got := idsFor(tenant, jobs)
			equalSlices(t, "ids of "+tenant, got, ids[:min(len(got), len(ids))])
			if len(got) < 5 {
				t.Errorf("tenant %s: got %d jobs, want at least 5 of 20 for 4 tenants", tenant, len(got))
			}
		}
	})

	t.Run("a claim for all takes all, however unequal the tenants are", func(t *testing.T) {
		w := newWorld(t, open)
		total := 0
		for n, jobs := range []int{1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144} {
			w.enqueueFor(fmt.Sprintf("tenant-%d", n), jobs)
			total += jobs
		}
		equal(t, "jobs", len(w.claimWith(ask(total-1))), total-1)
		equal(t, "jobs left", len(w.claimWith(ask(10))), 1)
	})

	t.Run("a claim returns its jobs in rounds, each in the order in which they became due", func(t *testing.T) {
		w := newWorld(t, open)
		z := w.enqueueFor("z", 4)
		a := w.enqueueFor("a", 2)
		none := w.enqueueFor("", 1)
		m := w.enqueueFor("m", 3)
		want := []int64{z[0], a[0], none[0], m[0], z[1], a[1], m[1], z[2], m[2], z[3]}
		equalSlices(t, "ids", idsOf(w.claimWith(ask(20))), want)
	})

	t.Run("a tenant's jobs of several kinds come in one order", func(t *testing.T) {
		w := newWorld(t, open)
		ids := map[string][]int64{}
		for n := range 40 {
			tenant := []string{"a", "b"}[n/2%2]
			args := later.RawArgs{JobKind: []string{kind, "other", "third"}[n%3], Payload: []byte(`{}`)}
			ids[tenant] = append(ids[tenant], w.enqueueArgs(args, later.Options{Tenant: tenant}))
		}
		req := ask(6)
		req.Kinds = []string{"third", kind, "none", "other"}
		for n := range 3 {
			req.Token = later.NewToken()
			jobs := w.claimWith(req)
			for tenant, all := range ids {
				equalSlices(t, "ids of "+tenant, idsFor(tenant, jobs), all[3*n:3*n+3])
			}
		}
	})

	t.Run("a better priority comes first, whose jobs it may be", func(t *testing.T) {
		w := newWorld(t, open)
		worse := w.enqueueMany(2, raw(`{}`), later.Options{Tenant: "a", Priority: 1})
		middle := w.enqueueMany(5, raw(`{}`), later.Options{Tenant: "b"})
		best := append(w.enqueueMany(2, raw(`{}`), later.Options{Tenant: "b", Priority: -1}),
			w.enqueueMany(1, raw(`{}`), later.Options{Tenant: "c", Priority: -1})...)
		equalSlices(t, "ids of the first claim", idsOf(w.claimWith(ask(4))), []int64{best[0], best[2], best[1], middle[0]})
		equalSlices(t, "ids of the second claim", idsOf(w.claimWith(ask(5))), append(slices.Clone(middle[1:]), worse[0]))
		equalSlices(t, "ids of the third claim", idsOf(w.claimWith(ask(5))), worse[1:])
	})

	t.Run("the empty tenant is one like the others", func(t *testing.T) {
		for _, tenants := range [][2]string{{"", "acme"}, {"acme", ""}} {
			w := newWorld(t, open)
			heavy, light := w.enqueueFor(tenants[0], 100), w.enqueueFor(tenants[1], 2)
			want := []int64{heavy[0], light[0], heavy[1], light[1], heavy[2]}
			equalSlices(t, "ids", idsOf(w.claimWith(ask(5))), want)
		}
	})

	// fair. Case 82: and no more is claimed than there are free slots.
	t.Run("each queue has its own turn and its own limit", func(t *testing.T) {
		w := newWorld(t, open)
		tenants := []string{"a", "b", "c", "d"}
		for _, q := range []string{"one", "two"} {
			for _, tenant := range tenants {
				w.enqueueMany(3, raw(`{}`), later.Options{Queue: q, Tenant: tenant})
			}
		}
		claim := func(limit, one, two int) (ofOne, ofTwo []string) {
			req := ask(limit)
			req.Queues = []later.QueueLimit{{Queue: "one", Limit: one}, {Queue: "two", Limit: two}}
			jobs := w.claimWith(req)
			for i, c := range jobs {
				if c.Queue == "one" {
					ofOne = append(ofOne, c.Tenant)
					equal(t, "place of a job of queue one", i, len(ofOne)-1)
					continue
				}
				ofTwo = append(ofTwo, c.Tenant)
			}
			return ofOne, ofTwo
		}
		one, two := claim(6, 4, 3)
		equalSlices(t, "tenants of queue one", one, tenants)
		equal(t, "jobs of queue two", len(two), 2)
		more, rest := claim(6, 1, 2)
		equal(t, "jobs of queue one in the second claim", len(more), 1)
		equal(t, "jobs of queue two in the second claim", len(rest), 2)
		equalSlices(t, "tenants of queue two in two claims", slices.Sorted(slices.Values(append(two, rest...))), tenants)
	})

	// found, fair. Case 125.
	t.Run("what 200 tenants have scheduled does not hide a job that is due", func(t *testing.T) {
		w := newWorld(t, open)
		for n := range 200 {
			w.enqueue(later.Options{Tenant: fmt.Sprintf("tenant-%03d", n), Delay: long})
		}
		for _, tenant := range []string{"zzz", "tenant-100", "a"} {
			id := w.enqueueFor(tenant, 1)[0]
			equal(t, "id of the job of "+tenant, w.claimOne().ID, id)
			w.claimNone()
		}
	})

	// found, fair. Case 125: what a tenant may not have now hides nobody else's jobs.
	t.Run("a tenant whose jobs all run leaves the claim to the others", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueFor("busy", 300)
		w.claim(300)
		want := append(w.enqueueFor("a", 1), w.enqueueFor("z", 1)...)
		w.claimInOrder(want...)
		w.claimNone()
	})

	// found, counted.
	t.Run("retried, released and lost jobs of a tenant have their turns again", func(t *testing.T) {
		w := newWorld(t, open)
		var ids []int64
		for n := range 12 {
			ids = append(ids, w.enqueueFor(fmt.Sprintf("tenant-%02d", n), 1)...)
		}
		for i, c := range w.claim(len(ids)) {
			switch i % 3 {
			case 0:
				w.settle(end(c, later.OutcomeRetry))
			case 1:
				w.settle(end(c, later.OutcomeReleased))
			case 2:
				w.endLease(c)
			}
		}
		got := idsOf(w.claim(len(ids)))
		slices.Sort(got)
		equalSlices(t, "ids", got, ids)
	})
}

// enqueueFor stores n equal jobs of a tenant.
func (w *world) enqueueFor(tenant string, n int) []int64 {
	w.t.Helper()
	return w.enqueueMany(n, raw(`{}`), later.Options{Tenant: tenant})
}

// equalStarts claims the n jobs that there are, req.Limit at a time, which is fewer
// than there are tenants. They have as many each, so that none may ever be two ahead.
func (w *world) equalStarts(n int, req later.ClaimRequest) {
	w.t.Helper()
	tenants := map[string]bool{}
	for _, info := range w.list(later.Filter{Limit: n}) {
		tenants[info.Tenant] = true
	}
	starts := map[string]int{}
	for taken := 0; taken < n; {
		req.Token = later.NewToken()
		jobs := w.claimWith(req)
		if got, want := len(jobs), min(req.Limit, n-taken); got != want {
			w.t.Fatalf("after %d jobs: claimed %d, want %d", taken, got, want)
		}
		for _, c := range jobs {
			starts[c.Tenant]++
			taken++
		}
		least, most := n, 0
		for tenant := range tenants {
			least, most = min(least, starts[tenant]), max(most, starts[tenant])
		}
		if most > least+1 {
			w.t.Fatalf("after %d jobs: one tenant has had %d, and another %d", taken, most, least)
		}
	}
}

// idsFor are the ids of a tenant's claimed jobs, in their order.
func idsFor(tenant string, jobs []*later.Claimed) []int64 {
	var ids []int64
	for _, c := range jobs {
		if c.Tenant == tenant {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

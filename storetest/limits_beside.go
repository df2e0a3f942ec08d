package storetest

import (
	"fmt"
	"testing"

	"github.com/later-queue/later"
)

// heldBack are limits that hold back a scope as long as the test wants, after the number
// of starts given.
var heldBack = []struct {
	name   string
	limit  later.Limit
	starts int
}{
	{"that may run none", atMost(0), 0},
	{"that is full", atMost(2), 2},
	{"whose rate is used up", slow(3), 3},
	{"in order, of which one runs", inOrder, 1},
}

// testBesideLimits says that what is held back keeps nothing else from being found.
func testBesideLimits(t *testing.T, open Open) {
	const backlog = 2000
	for _, held := range heldBack {
		for _, way := range limitWays() {
			// found. Case 125.
			t.Run(fmt.Sprintf("one job is found behind %d of a %s %s", backlog, way.name, held.name), func(t *testing.T) {
				w := newWorld(t, open)
				w.limit(way.set, held.limit)
				w.enqueueMany(backlog, raw(`{}`), later.Options{Tenant: "acme", Priority: -1})
				if held.starts > 0 {
					w.claim(held.starts)
				}
				w.claimNone()
				id, req := w.beside(way)
				w.found(id, req)
				w.claimNone()
			})
		}
	}

	// found. Case 125: a level of a hundred tenants who may not, and one who may.
	t.Run("one tenant's job is found among those of a hundred who are held back", func(t *testing.T) {
		w := newWorld(t, open)
		for n := range 100 {
			name := fmt.Sprintf("tenant-%03d", n)
			if n != 70 {
				w.limit(tenant(name), atMost(n%2))
			}
			w.enqueueFor(name, 3)
		}
		got := map[string]int{}
		for _, c := range w.claim(50 + 3) { // of those that may run one, and of number 70
			got[c.Tenant]++
		}
		equal(t, "jobs of tenant-070", got["tenant-070"], 3)
		w.claimNone()
		w.enqueueFor("tenant-070", 1)
		equal(t, "tenant", w.claimOne().Tenant, "tenant-070")
		w.claimNone()
	})

	// found. A claim for many is full although most of what it meets is held back.
	t.Run("a claim for many takes all that nothing holds back", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(tenant("a"), atMost(1))
		w.limit(tenant("b"), slow(2))
		w.limit(later.Scope{Of: later.ScopeKind, Name: "other"}, atMost(3))
		w.limit(tenant("d"), inOrder)
		want := map[string]int{"a": 1, "b": 2, "c": 3, "d": 1, "e": 60, "": 60}
		for _, tenant := range []string{"a", "b", "c", "d", "e", ""} {
			args := raw(`{}`)
			if tenant == "c" {
				args.JobKind = "other"
			}
			w.enqueueMany(60, args, later.Options{Tenant: tenant})
		}
		req := ask(1000)
		req.Kinds = append(req.Kinds, "other")
		got, total := map[string]int{}, 0
		w.eventually("all are claimed", func() bool {
			req.Token = later.NewToken()
			for _, c := range w.claimWith(req) {
				got[c.Tenant]++
				total++
			}
			return total >= 127
		})
		for tenant, n := range want {
			equal(t, fmt.Sprintf("jobs of %q", tenant), got[tenant], n)
		}
	})

	// paced, capped: one limit is not used by a job that another one holds back.
	t.Run("what one limit holds back uses nothing of another", func(t *testing.T) {
		w := newWorld(t, open)
		ofKind := slow(2)
		ofKind.MaxRunning = atMost(2).MaxRunning
		w.limit(later.Scope{Of: later.ScopeKind, Name: kind}, ofKind)
		w.limit(tenant("a"), atMost(0))
		w.enqueueFor("a", 50)
		for range 5 {
			w.claimNone()
		}
		equal(t, "running of the kind", len(w.standing(later.Scope{Of: later.ScopeKind, Name: kind}).Running), 0)
		ids := w.enqueueFor("b", 3)
		equalSlices(t, "ids", idsOf(w.claim(2)), ids[:2])
		w.claimNone()
	})
}

// beside enqueues a job that is not under way's limit, and returns a claim that takes both.
func (w *world) beside(way limitWay) (int64, later.ClaimRequest) {
	w.t.Helper()
	req := ask(10)
	args, opts := raw(`{}`), later.Options{Tenant: "acme"}
	switch way.set.Of {
	case later.ScopeKind:
		args.JobKind = "other"
		req.Kinds = append(req.Kinds, "other")
	case later.ScopeQueue:
		opts.Queue = "other"
		req.Queues = append(req.Queues, later.QueueLimit{Queue: "other", Limit: 10})
	case later.ScopeTenant:
		opts.Tenant = "zeta"
	case later.ScopeTenants:
		opts.Tenant = ""
	}
	return w.enqueueArgs(args, opts), req
}

// found fails unless claims as req give job id, and nothing else.
func (w *world) found(id int64, req later.ClaimRequest) {
	w.t.Helper()
	var jobs []*later.Claimed
	w.eventually(fmt.Sprintf("job %d is found", id), func() bool {
		req.Token = later.NewToken()
		jobs = append(jobs, w.claimWith(req)...)
		return len(jobs) > 0
	})
	equalSlices(w.t, "ids", idsOf(jobs), []int64{id})
}

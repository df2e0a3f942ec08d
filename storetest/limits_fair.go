package storetest

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// testFair has tenants of random weights take turns, of which some are under limits that are never full.
func testFair(t *testing.T, open Open) {
	// fair. Case 124.
	t.Run("no tenant with due work waits longer than a rotation", func(t *testing.T) {
		w := newWorld(t, open)
		rapid.Check(t, func(rt *rapid.T) {
			f := &fairModel{world: &world{t: rt, ctx: w.ctx, store: w.store}, weights: map[string]int{}, left: map[string]int{}, since: map[string]map[string]int{}}
			defer f.clear()
			for n := range rapid.IntRange(2, 7).Draw(rt, "tenants") {
				f.add(rt, fmt.Sprintf("tenant-%d", n))
			}
			for f.all() > 0 {
				req := ask(rapid.IntRange(1, 9).Draw(rt, "limit"))
				jobs := f.claimWith(req)
				if len(jobs) < min(req.Limit, f.all()) {
					rt.Fatalf("Claim: got %d jobs of %d that are due, want %d", len(jobs), f.all(), req.Limit)
				}
				for _, c := range jobs {
					f.started(rt, c.Tenant)
				}
				f.endAs(later.OutcomeDone, jobs...)
			}
		})
	})
}

// fairModel is who waits, and for whom.
type fairModel struct {
	*world
	weights map[string]int
	limited []later.Scope
	left    map[string]int            // jobs that are due, by tenant
	since   map[string]map[string]int // how many of each other have started since a tenant's own latest
}

func (f *fairModel) add(rt *rapid.T, name string) {
	f.weights[name] = 1
	var limit later.Limit
	if limit.Weight = rapid.IntRange(0, 3).Draw(rt, "weight"); limit.Weight > 0 {
		f.weights[name] = limit.Weight
	}
	if rapid.IntRange(0, 3).Draw(rt, "limited") == 0 {
		limit.MaxRunning = new(100)
	}
	if limit.Weight > 0 || limit.MaxRunning != nil {
		f.limit(tenant(name), limit)
		f.limited = append(f.limited, tenant(name))
	}
	f.left[name] = rapid.IntRange(1, 9).Draw(rt, "jobs")
	f.enqueueFor(name, f.left[name])
}

func (f *fairModel) all() (n int) {
	for _, jobs := range f.left {
		n += jobs
	}
	return n
}

// started notes a start, before which nobody who had due work may have waited for more than a turn of
// this tenant's, and the one that was under way.
func (f *fairModel) started(rt *rapid.T, name string) {
	f.left[name]--
	delete(f.since, name)
	for other, jobs := range f.left {
		if other == name || jobs == 0 {
			continue
		}
		if f.since[other] == nil {
			f.since[other] = map[string]int{}
		}
		if f.since[other][name]++; f.since[other][name] > 2*f.weights[name] {
			rt.Fatalf("%s waits with %d jobs while %s, which weighs %d, has started %d", other, jobs, name, f.weights[name], f.since[other][name])
		}
	}
}

func (f *fairModel) clear() {
	// Errors here show in the next run: it begins with what it does not know.
	infos, _ := f.store.List(f.ctx, later.Filter{Limit: 1000})
	for _, info := range infos {
		_ = f.store.Delete(f.ctx, info.ID)
	}
	for _, scope := range f.limited {
		_ = f.limiter().RemoveLimit(f.ctx, scope)
	}
}

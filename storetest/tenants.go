package storetest

import (
	"fmt"
	"testing"

	"github.com/later-queue/later"
)

// RunTenants runs the part of the contract that is about [later.TenantLister].
func RunTenants(t *testing.T, open Open) {
	start := func(t *testing.T) *tenantWorld {
		w := newWorld(t, open)
		lister, ok := w.store.(later.TenantLister)
		if !ok {
			t.Fatalf("%T is no TenantLister", w.store)
		}
		return &tenantWorld{w, lister}
	}

	t.Run("without jobs there are no tenants, but those that are asked for", func(t *testing.T) {
		w := start(t)
		w.counted(later.TenantFilter{})
		w.counted(later.TenantFilter{Names: []string{"b", "", "a", "b"}}, "|0|0", "a|0|0", "b|0|0")
	})

	t.Run("counts what is due and what runs, in all queues, kinds and priorities", func(t *testing.T) {
		w := start(t)
		w.enqueue(later.Options{Tenant: "acme"})
		w.enqueue(later.Options{Tenant: "acme", Queue: "other"})
		w.enqueue(later.Options{Tenant: "acme", Priority: -7})
		w.enqueueArgs(later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}, later.Options{Tenant: "acme"})
		w.enqueue(later.Options{Tenant: "acme", Delay: long})
		w.enqueue(later.Options{Tenant: "zeta"})
		w.enqueue(later.Options{Tenant: "later", Delay: long})
		w.enqueue(later.Options{})
		w.counted(later.TenantFilter{}, "|1|0", "acme|4|0", "later|0|0", "zeta|1|0")
		w.claimThis(w.enqueue(later.Options{Tenant: "acme", Priority: -9}))
		w.counted(later.TenantFilter{}, "|1|0", "acme|4|1", "later|0|0", "zeta|1|0")
		w.counted(later.TenantFilter{Names: []string{"acme", "nobody"}}, "acme|4|1", "nobody|0|0")
	})

	t.Run("a lost job is due, and one that has ended is not counted", func(t *testing.T) {
		w := start(t)
		id := w.enqueue(later.Options{Tenant: "acme"})
		w.endLease(w.claimThis(id))
		w.counted(later.TenantFilter{}, "acme|1|0")
		w.settle(end(w.claimThis(id), later.OutcomeDone))
		w.counted(later.TenantFilter{})
	})

	t.Run("tells since when the oldest one is due", func(t *testing.T) {
		w := start(t)
		first := w.enqueue(later.Options{Tenant: "acme", Priority: 5})
		w.pass(first, w.find(first).RunAt.Add(clockStep))
		w.enqueue(later.Options{Tenant: "acme"})
		w.enqueue(later.Options{Tenant: "zeta", Delay: long})
		list := w.tenants(later.TenantFilter{})
		equalTimes(t, "oldest", list[0].Oldest, w.find(first).RunAt)
		equal(t, "oldest of what is not due", list[1].Oldest.IsZero(), true)
		w.claimThis(first)
		if got := w.tenants(later.TenantFilter{})[0].Oldest; !got.After(w.find(first).RunAt) {
			t.Errorf("oldest: got that of a running job, %v", got)
		}
	})

	t.Run("pages by the bytes of the names", func(t *testing.T) {
		w := start(t)
		names := []string{"", "A", "a", "a b", "aa", "b", "ä", "☃"}
		for _, name := range names {
			w.enqueue(later.Options{Tenant: name})
			w.enqueue(later.Options{Tenant: name, Queue: "other", Delay: long})
		}
		filter := later.TenantFilter{Limit: 3}
		for _, want := range [][]string{names[:3], names[3:6], names[6:], {}} {
			got := []string{}
			for _, c := range w.tenants(filter) {
				got = append(got, c.Tenant)
			}
			equalSlices(t, "names", got, want)
			if len(want) > 0 {
				filter.After = &want[len(want)-1]
			}
		}
	})

	t.Run("tenants of different queues come in one order", func(t *testing.T) {
		w := start(t)
		for i, name := range []string{"f", "b", "d", "a", "c", "e"} {
			w.enqueue(later.Options{Tenant: name, Queue: fmt.Sprintf("q%d", i%3), Priority: int16(i % 2)})
		}
		w.counted(later.TenantFilter{Limit: 3}, "a|1|0", "b|1|0", "c|1|0")
		after := "b"
		w.counted(later.TenantFilter{Limit: 2, After: &after}, "c|1|0", "d|1|0")
	})

	t.Run("counts no more than so many, and says so", func(t *testing.T) {
		w := start(t)
		w.enqueueMany(later.MaxTenantCount, raw(`{}`), later.Options{Tenant: "acme"})
		w.counted(later.TenantFilter{}, fmt.Sprintf("acme|%d|0", later.MaxTenantCount))
		w.claimWith(ask(3))
		w.enqueueMany(5, raw(`{}`), later.Options{Tenant: "acme"})
		w.counted(later.TenantFilter{}, fmt.Sprintf("acme|%d+|3", later.MaxTenantCount-3))
	})

	t.Run("a closed store says so", func(t *testing.T) {
		w := start(t)
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := w.lister.Tenants(w.ctx, later.TenantFilter{})
		isError(t, "Tenants", err, later.ErrClosed)
	})
}

// tenantWorld is a world whose store lists tenants.
type tenantWorld struct {
	*world
	lister later.TenantLister
}

func (w *tenantWorld) tenants(f later.TenantFilter) []later.TenantCount {
	w.t.Helper()
	list, err := w.lister.Tenants(w.ctx, f)
	if err != nil {
		w.t.Fatalf("Tenants: %v", err)
	}
	return list
}

// counted compares tenants, written as name|due|running, with + behind due if there are more.
func (w *tenantWorld) counted(f later.TenantFilter, want ...string) {
	w.t.Helper()
	got := []string{}
	for _, c := range w.tenants(f) {
		more := ""
		if c.More {
			more = "+"
		}
		got = append(got, fmt.Sprintf("%s|%d%s|%d", c.Tenant, c.Due, more, c.Running))
		equal(w.t, c.Tenant+" has an oldest one", !c.Oldest.IsZero(), c.Due > 0)
	}
	equalSlices(w.t, "tenants", got, want)
}

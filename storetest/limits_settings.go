package storetest

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

// testLimitSettings is what is stored of limits.
func testLimitSettings(t *testing.T, open Open) {
	four := 4
	settings := []struct {
		scope later.Scope
		limit later.Limit
	}{ // in the order in which they are listed
		{later.Scope{Of: later.ScopeKind, Name: kind}, later.Limit{MaxRunning: new(int)}},
		{later.Scope{Of: later.ScopeQueue, Name: "a"}, later.Limit{Ordered: true, OnDead: later.DeadBlocks}},
		{later.Scope{Of: later.ScopeQueue, Name: "b"}, later.Limit{Rate: later.Rate{N: 7, Period: 3 * time.Second}}},
		{tenant("acme"), later.Limit{Weight: later.MaxWeight}},
		{tenant("zeta é"), later.Limit{MaxRunning: &four, Rate: later.Rate{N: 1, Period: 365 * 24 * time.Hour, Burst: 1}, Weight: 2}},
		{everyTenant, later.Limit{MaxRunning: &four, Rate: later.Rate{N: 1_000_000, Period: time.Second, Burst: 1_000_000}}},
	}

	t.Run("limits are listed with since when and by whom", func(t *testing.T) {
		w := newWorld(t, open)
		equal(t, "limits at first", len(w.limits()), 0)
		id := w.enqueue(later.Options{})
		before := w.find(id).Now
		for i := range settings {
			s := settings[(i*5+2)%len(settings)]
			w.limit(s.scope, s.limit)
		}
		list := w.limits()
		equal(t, "limits", len(list), len(settings))
		for i, got := range list {
			equal(t, "scope", got.Scope, settings[i].scope)
			sameLimit(t, settings[i].scope.String(), got.Limit, settings[i].limit)
			equal(t, "by", got.By, "somebody")
			between(t, "since", got.Since, before, w.find(id).Now)
		}
	})

	t.Run("a limit takes the place of the one before, with who set it and when", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		w.limit(everyTenant, settings[5].limit)
		first := w.limits()[0].Since
		w.pass(id, first.Add(2*clockStep))
		if err := w.limiter().SetLimit(w.ctx, everyTenant, atMost(2), "somebody else"); err != nil {
			t.Fatal(err)
		}
		list := w.limits()
		equal(t, "limits", len(list), 1)
		sameLimit(t, "the second", list[0].Limit, atMost(2))
		equal(t, "by", list[0].By, "somebody else")
		between(t, "since", list[0].Since, first.Add(2*clockStep), w.find(id).Now)
	})

	t.Run("a limit that was removed is gone", func(t *testing.T) {
		w := newWorld(t, open)
		for _, s := range settings {
			isError(t, "RemoveLimit before", w.limiter().RemoveLimit(w.ctx, s.scope), later.ErrNotFound)
			w.limit(s.scope, s.limit)
		}
		for i, s := range settings {
			w.unlimit(s.scope)
			equal(t, "limits left", len(w.limits()), len(settings)-i-1)
			isError(t, "RemoveLimit again", w.limiter().RemoveLimit(w.ctx, s.scope), later.ErrNotFound)
		}
	})

	t.Run("what the caller does to a limit later changes nothing", func(t *testing.T) {
		w := newWorld(t, open)
		n := 3
		w.limit(tenant("acme"), later.Limit{MaxRunning: &n})
		n = 7
		for _, read := range []func() later.Limit{
			func() later.Limit { return w.limits()[0].Limit },
			func() later.Limit { return w.standing(tenant("acme")).Limit },
		} {
			limit := read()
			sameLimit(t, "limit", limit, atMost(3))
			if limit.MaxRunning != nil {
				*limit.MaxRunning = 8
			}
			sameLimit(t, "limit after a change of the caller's", read(), atMost(3))
		}
	})

	t.Run("a limit that makes no sense is refused", func(t *testing.T) {
		w := newWorld(t, open)
		two, negative, many := 2, -1, later.MaxCap+1
		queue := later.Scope{Of: later.ScopeQueue, Name: "mail"}
		for _, bad := range []struct {
			scope later.Scope
			limit later.Limit
			by    string
		}{
			{later.Scope{}, atMost(1), "me"},
			{later.Scope{Of: "team", Name: "a"}, atMost(1), "me"},
			{later.Scope{Of: later.ScopeQueue, Name: "a b"}, atMost(1), "me"},
			{tenant(""), atMost(1), "me"},
			{later.Scope{Of: later.ScopeTenants, Name: "all"}, atMost(1), "me"},
			{queue, atMost(1), ""},
			{queue, atMost(1), "a\nb"},
			{queue, later.Limit{}, "me"},
			{queue, later.Limit{MaxRunning: &negative}, "me"},
			{queue, later.Limit{MaxRunning: &many}, "me"},
			{queue, later.Limit{MaxRunning: &two, Ordered: true}, "me"},
			{queue, later.Limit{MaxRunning: &two, OnDead: later.DeadBlocks}, "me"},
			{queue, later.Limit{Ordered: true, OnDead: "waits"}, "me"},
			{queue, later.Limit{Weight: 2}, "me"},
			{everyTenant, later.Limit{Weight: 2}, "me"},
			{tenant("acme"), later.Limit{Weight: -1}, "me"},
			{tenant("acme"), later.Limit{Weight: later.MaxWeight + 1}, "me"},
			{queue, later.Limit{Rate: later.Rate{N: 1}}, "me"},
			{queue, later.Limit{Rate: later.Rate{Period: time.Second}}, "me"},
			{queue, later.Limit{Rate: later.Rate{N: 1, Period: time.Second, Burst: -1}}, "me"},
		} {
			isError(t, "SetLimit", w.limiter().SetLimit(w.ctx, bad.scope, bad.limit, bad.by), later.ErrInvalid)
		}
		equal(t, "limits", len(w.limits()), 0)
		for _, scope := range []later.Scope{{}, tenant(""), {Of: "team", Name: "a"}, {Of: later.ScopeTenants, Name: "a"}} {
			isError(t, "RemoveLimit", w.limiter().RemoveLimit(w.ctx, scope), later.ErrInvalid)
			_, err := w.limiter().Standing(w.ctx, scope)
			isError(t, "Standing", err, later.ErrInvalid)
		}
		_, err := w.limiter().Standing(w.ctx, everyTenant)
		isError(t, "Standing of every tenant", err, later.ErrInvalid)
		isError(t, "Pause of every tenant", w.store.Pause(w.ctx, everyTenant, "me", ""), later.ErrInvalid)
	})

	t.Run("a store that was closed says so", func(t *testing.T) {
		w := newWorld(t, open)
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		_, errLimits := w.limiter().Limits(w.ctx)
		_, errStanding := w.limiter().Standing(w.ctx, tenant("acme"))
		for what, err := range map[string]error{
			"SetLimit":    w.limiter().SetLimit(w.ctx, tenant("acme"), atMost(1), "me"),
			"RemoveLimit": w.limiter().RemoveLimit(w.ctx, tenant("acme")),
			"Limits":      errLimits, "Standing": errStanding,
		} {
			isError(t, what, err, later.ErrClosed)
		}
	})
}

// testStanding is what is told of how things stand.
func testStanding(t *testing.T, open Open) {
	t.Run("where nothing limits, nothing is told", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueFor("acme", 2)
		w.claim(2)
		for _, scope := range scopesOf() {
			s := w.standing(scope)
			sameLimit(t, scope.String(), s.Limit, later.Limit{})
			equal(t, "running", len(s.Running), 0)
			equal(t, "next start", s.NextStart, time.Time{})
		}
	})

	for _, way := range limitWays() {
		t.Run("the jobs that run under a cap are told by their ids, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.limit(way.set, atMost(3))
			ids := w.enqueueFor("acme", 5)
			w.enqueueMany(1, raw(`{}`), later.Options{Tenant: "acme", Queue: "elsewhere", Priority: -1})
			jobs := w.claim(3)
			s := w.standing(way.of)
			sameLimit(t, "limit", s.Limit, atMost(3))
			equalSlices(t, "running", s.Running, ids[:3])
			w.endAs(later.OutcomeDone, jobs[1])
			equalSlices(t, "running when one is done", w.standing(way.of).Running, []int64{ids[0], ids[2]})
			w.endLease(jobs[0])
			equalSlices(t, "running when one is lost", w.standing(way.of).Running, ids[2:3])
			equal(t, "next start", s.NextStart, time.Time{})
		})

		t.Run("the next start is told by the rate, of a "+way.name, func(t *testing.T) {
			w := newWorld(t, open)
			limit := slow(2)
			w.limit(way.set, limit)
			w.enqueueFor("acme", 3)
			equal(t, "next start at first", w.standing(way.of).NextStart, time.Time{})
			w.claim(1)
			equal(t, "next start within the burst", w.standing(way.of).NextStart, time.Time{})
			first := w.claim(1)[0].Now
			s := w.standing(way.of)
			sameLimit(t, "limit", s.Limit, limit)
			equal(t, "running without a cap", len(s.Running), 0)
			if d := s.NextStart.Sub(first); d > long || d < long-patience {
				t.Errorf("next start: got %v after the second one, want %v, less what was between them", d, long)
			}
		})
	}

	t.Run("a scope without jobs has its limit", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(everyTenant, atMost(2))
		w.limit(tenant("acme"), later.Limit{Weight: 5})
		want := atMost(2)
		sameLimit(t, "any tenant", w.standing(tenant("nobody")).Limit, want)
		want.Weight = 5
		sameLimit(t, "a tenant with a weight", w.standing(tenant("acme")).Limit, want)
	})
}

package admit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

var every = later.Scope{Of: later.ScopeTenants}

func queueOf(name string) later.Scope  { return later.Scope{Of: later.ScopeQueue, Name: name} }
func kindOf(name string) later.Scope   { return later.Scope{Of: later.ScopeKind, Name: name} }
func tenantOf(name string) later.Scope { return later.Scope{Of: later.ScopeTenant, Name: name} }

// aLimit draws any limit, also none.
func aLimit(rt *rapid.T, weight bool) later.Limit {
	var limit later.Limit
	switch rapid.IntRange(0, 2).Draw(rt, "running") {
	case 1:
		limit = capOf(rapid.IntRange(0, 9).Draw(rt, "most"))
	case 2:
		limit.Ordered = true
		limit.OnDead = rapid.SampledFrom([]later.OnDead{later.DeadGoesBy, later.DeadBlocks}).Draw(rt, "on dead")
	}
	if rapid.Bool().Draw(rt, "has a rate") {
		limit.Rate = aRate(rt)
	}
	if weight {
		limit.Weight = rapid.IntRange(0, 5).Draw(rt, "weight")
	}
	return limit
}

// text is a limit that can be compared.
func text(l later.Limit) string {
	most := -1
	if l.MaxRunning != nil {
		most = *l.MaxRunning
	}
	return fmt.Sprintf("%d %v %q %+v %d", most, l.Ordered, l.OnDead, l.Rate, l.Weight)
}

// A tenant's own cap or order takes the place of every tenant's, and so does its rate, each by
// itself; its weight is its own.
func TestTenantsTakeWhatTheyDoNotSayThemselves(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all, own := aLimit(rt, false), aLimit(rt, true)
		of := map[later.Scope]later.Limit{every: all, tenantOf("own"): own, queueOf("own"): capOf(3)}
		l := NewLimits(of)
		want := own
		if !own.Ordered && own.MaxRunning == nil {
			want.MaxRunning, want.Ordered, want.OnDead = all.MaxRunning, all.Ordered, all.OnDead
		}
		if own.Rate == (later.Rate{}) {
			want.Rate = all.Rate
		}
		for scope, want := range map[later.Scope]later.Limit{
			tenantOf("own"):   want,
			tenantOf("other"): all,
			tenantOf(""):      {},
			queueOf("own"):    capOf(3),
			queueOf("other"):  {},
			kindOf("own"):     {},
		} {
			if got := text(l.Of(scope)); got != text(want) {
				rt.Fatalf("%v: got %s, want %s", scope, got, text(want))
			}
		}
		if got, want := l.Weight("own"), max(own.Weight, 1); got != want {
			rt.Fatalf("weight: got %d, want %d", got, want)
		}
	})
}

func TestLimits(t *testing.T) {
	rate := rateOf(1, time.Second, 1)

	t.Run("a job is under what its queue, its kind and its tenant are limited by", func(t *testing.T) {
		l := NewLimits(map[later.Scope]later.Limit{
			queueOf("mail"): capOf(1), kindOf("send"): rate, tenantOf("acme"): inOrder, tenantOf("heavy"): {Weight: 3},
		})
		for _, c := range []struct {
			queue, kind, tenant string
			want                []later.Scope
		}{
			{"mail", "send", "acme", []later.Scope{queueOf("mail"), kindOf("send"), tenantOf("acme")}},
			{"mail", "other", "", []later.Scope{queueOf("mail")}},
			{"other", "send", "heavy", []later.Scope{kindOf("send")}}, // a weight holds back nothing
			{"acme", "mail", "send", nil},                             // names are of what they name
		} {
			if got := l.Over(c.queue, c.kind, c.tenant); !slices.Equal(got, c.want) {
				t.Errorf("%s, %s, %s: got %v, want %v", c.queue, c.kind, c.tenant, got, c.want)
			}
		}
	})

	t.Run("every tenant's limit is over all jobs with a tenant", func(t *testing.T) {
		l := NewLimits(map[later.Scope]later.Limit{every: capOf(1)})
		if got, want := l.Over("q", "k", "acme"), []later.Scope{tenantOf("acme")}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := l.Over("q", "k", ""); len(got) != 0 {
			t.Errorf("without a tenant: got %v, want none", got)
		}
	})

	t.Run("it is told whether tenants can be held back or weigh", func(t *testing.T) {
		for _, c := range []struct {
			of    map[later.Scope]later.Limit
			any   bool
			some  bool // tenants matter
			all   bool
			named []string
		}{
			{nil, false, false, false, nil},
			{map[later.Scope]later.Limit{queueOf("q"): capOf(1), kindOf("k"): rate}, true, false, false, nil},
			{map[later.Scope]later.Limit{tenantOf("a"): {Weight: 2}}, true, true, false, nil},
			{map[later.Scope]later.Limit{tenantOf("a"): rate, tenantOf("b"): {Weight: 2}}, true, true, false, []string{"a"}},
			{map[later.Scope]later.Limit{every: rate, tenantOf("a"): inOrder}, true, true, true, []string{"a"}},
		} {
			l := NewLimits(c.of)
			all, named := l.LimitedTenants()
			if l.Any() != c.any || l.Tenants() != c.some || all != c.all || !slices.Equal(named, c.named) {
				t.Errorf("%v: got %v, %v, %v, %v, want %v, %v, %v, %v", c.of, l.Any(), l.Tenants(), all, named, c.any, c.some, c.all, c.named)
			}
		}
	})

	t.Run("no limits limit nothing", func(t *testing.T) {
		for _, l := range []*Limits{nil, NewLimits(nil)} {
			all, named := l.LimitedTenants()
			if l.Any() || l.Tenants() || all || named != nil || l.Over("q", "k", "t") != nil || l.Weight("t") != 1 || l.Of(queueOf("q")).Holds() {
				t.Errorf("%v limits something", l)
			}
		}
	})

	t.Run("what the caller does to its map later changes nothing", func(t *testing.T) {
		of := map[later.Scope]later.Limit{every: capOf(1)}
		l := NewLimits(of)
		delete(of, every)
		if !l.Tenants() {
			t.Error("the limits went with the caller's map")
		}
	})
}

package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

func TestTenants(t *testing.T) { onStores(t, testTenants) }

func testTenants(t *testing.T, s *shell) {
	s.ok("migrate", "up")
	if got, want := s.ok("tenants"), "no tenants\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, args := range [][]string{{}, {"--tenant", "acme"}, {"--tenant", "acme", "--queue", "mail"}, {"--tenant", "beta", "--in", "1h"}, {"--tenant", "gamma"}} {
		s.ok(append([]string{"enqueue", "k", "1"}, args...)...)
	}
	s.ok("limit", "tenant", "zeta", "--max-running", "2", "--weight", "3")
	s.ok("limit", "tenants", "--max-running", "5")
	s.ok("pause", "tenant", "paused", "--by", "ann", "--reason", "unpaid")
	take := func(args ...string) tenantsView {
		t.Helper()
		return decode[tenantsView](t, s.ok(append([]string{"tenants", "--json"}, args...)...))
	}
	names := func(view tenantsView) string {
		var list []string
		for _, tenant := range view.Tenants {
			list = append(list, fmt.Sprintf("%s:%d", tenant.Tenant, tenant.Due))
		}
		return strings.Join(list, " ")
	}
	t.Run("lists those with jobs, and those with a limit or a pause", func(t *testing.T) {
		list := s.ok("tenants")
		for _, want := range []string{"tenant  oldest due  due  running  weight  limit", "zeta             -    -        -       3  at most 2 at once, weight 3", "by ann: unpaid",
			"every tenant, where its own limit does not say otherwise: at most 5 at once\n"} {
			if !strings.Contains(list, want) {
				t.Errorf("got\n%s\nwant %q in it", list, want)
			}
		}
		view := take()
		if got, want := names(view), ":1 acme:2 beta:0 gamma:1 paused:0 zeta:0"; got != want || view.NextAfter != nil || *view.Every.MaxRunning != 5 {
			t.Errorf("got %s and %+v, want %s", got, view, want)
		}
		if last := view.Tenants[5]; last.Weight != 3 || *last.Limit.MaxRunning != 2 || view.Tenants[4].Paused.By != "ann" || view.Tenants[1].OldestDue == nil {
			t.Errorf("got %+v", view)
		}
	})
	t.Run("pages", func(t *testing.T) {
		view := take("--limit", "2")
		if got, want := names(view), ":1 acme:2 paused:0 zeta:0"; got != want || view.NextAfter == nil || *view.NextAfter != "acme" {
			t.Errorf("got %s and %v, want %s", got, view.NextAfter, want)
		}
		if out := s.ok("tenants", "--limit", "2"); !strings.Contains(out, "more: add --after acme\n") {
			t.Errorf("got %s", out)
		}
		view = take("--limit", "2", "--after", "acme")
		if got, want := names(view), "beta:0 gamma:1"; got != want || view.NextAfter != nil {
			t.Errorf("got %s and %v, want %s", got, view.NextAfter, want)
		}
	})
	t.Run("shows those that are named", func(t *testing.T) {
		if got, want := names(take("gamma", "nobody", "acme")), "acme:2 gamma:1 nobody:0"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.fails(exitUsage, []string{"--limit and --after"}, "tenants", "acme", "--limit", "3")
		s.fails(exitUsage, []string{"tenant"}, "tenants", " acme")
	})
	t.Run("counts no further than somebody would read", func(t *testing.T) {
		s.in = strings.Repeat(`{"kind":"k","tenant":"flood"}`+"\n", later.MaxTenantCount+1)
		s.ok("enqueue", "--bulk", "-")
		if out := s.ok("tenants", "flood"); !strings.Contains(out, "1000+") {
			t.Errorf("got %s", out)
		}
	})
}

package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// onStores runs a test on each database.
func onStores(t *testing.T, test func(t *testing.T, s *shell)) {
	for name, shellOn := range map[string]func(t *testing.T) *shell{"sqlite": newShell, "postgres": postgresShell} {
		t.Run(name, func(t *testing.T) { test(t, shellOn(t)) })
	}
}

func TestLimit(t *testing.T) { onStores(t, testLimit) }

func testLimit(t *testing.T, s *shell) {
	s.ok("migrate", "up")
	t.Run("nothing is limited at first", func(t *testing.T) {
		if got, want := s.ok("limit"), "nothing is limited\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("sets what is named, keeps the rest, and says what holds", func(t *testing.T) {
		for _, step := range []struct{ args, want string }{
			{"queue mail --max-running 3", `queue "mail": at most 3 at once`},
			{"queue mail --rate 100/1m", `queue "mail": at most 3 at once, 100 start in 1m`},
			{"queue mail --burst 20", `queue "mail": at most 3 at once, 100 start in 1m (bursts of 20)`},
			{"queue mail --rate 5/s", `queue "mail": at most 3 at once, 5 start in 1s (bursts of 20)`},
			{"queue mail --max-running 0", `queue "mail": none runs, 5 start in 1s (bursts of 20)`},
			{"queue mail --max-running none", `queue "mail": 5 start in 1s (bursts of 20)`},
			{"queue mail --ordered --on-dead blocks", `queue "mail": one after the other, and none behind a dead one, 5 start in 1s (bursts of 20)`},
			{"queue mail --on-dead go-by", `queue "mail": one after the other, 5 start in 1s (bursts of 20)`},
			{"queue mail --rate none", `queue "mail": one after the other`},
			{"queue mail --on-dead blocks", `queue "mail": one after the other, and none behind a dead one`},
			{"queue mail --ordered=false --max-running 1", `queue "mail": at most 1 at once`},
			{"queue mail --max-running none", `queue "mail": no limit`},
			{"kind report.build --rate 2/2d", `kind "report.build": 2 start in 2d`},
			{"tenant acme --weight 3", `tenant "acme": weight 3`},
			{"tenant acme --max-running 2", `tenant "acme": at most 2 at once, weight 3`},
			{"tenant acme --weight none", `tenant "acme": at most 2 at once`},
			{"tenants --max-running 5", `every tenant: at most 5 at once`},
			{"tenant zeta --rate 1/h", `tenant "zeta": at most 5 at once, 1 starts in 1h (its own: 1 starts in 1h)`},
			{"tenant zeta --none", `tenant "zeta": at most 5 at once, as every tenant`},
			{"kind report.build --none", `kind "report.build": no limit`},
		} {
			if got, want := s.ok(append([]string{"limit"}, strings.Fields(step.args)...)...), step.want+"\n"; got != want {
				t.Errorf("later limit %s: got %q, want %q", step.args, got, want)
			}
		}
	})
	t.Run("lists the limits, with who set them", func(t *testing.T) {
		s.ok("limit", "queue", "mail", "--max-running", "3", "--rate", "100/min", "--by", "ann")
		list := s.ok("limit")
		for _, want := range []string{`queue     mail  at most 3 at once, 100 start in 1m  \d+m?s +ann`, "tenants         at most 5 at once"} {
			if !regexp.MustCompile(want).MatchString(list) {
				t.Errorf("got\n%s\nwant %q in it", list, want)
			}
		}
		limits := decode[struct{ Limits []limitView }](t, s.ok("limit", "--json")).Limits
		if len(limits) != 3 || limits[0].Of != later.ScopeQueue || limits[0].By != "ann" || *limits[0].MaxRunning != 3 || limits[0].Since == nil ||
			*limits[0].Rate != (rateView{Starts: 100, PeriodMS: 60000, Burst: 1}) || limits[2].Of != later.ScopeTenants {
			t.Errorf("got %+v", limits)
		}
	})
	t.Run("with a scope alone shows how things stand, and changes nothing", func(t *testing.T) {
		s.ok("limit", "queue", "mail", "--burst", "2")
		for range 4 {
			s.ok("enqueue", "k", "1", "--queue", "mail")
		}
		show := s.ok("limit", "queue", "mail")
		for _, want := range []string{`queue "mail": at most 3 at once, 100 start in 1m (bursts of 2)`, ", by ", "running     none", "next start  now"} {
			if !strings.Contains(show, want) {
				t.Errorf("got\n%s\nwant %q in it", show, want)
			}
		}
		if jobs, err := s.store().Claim(t.Context(), claimOf("mail", "k")); len(jobs) != 2 || err != nil {
			t.Fatalf("Claim: got %d jobs, %v, want 2", len(jobs), err)
		}
		show = s.ok("limit", "queue", "mail")
		for _, want := range []string{"running     2 jobs: 1, 2\n"} {
			if !strings.Contains(show, want) {
				t.Errorf("got\n%s\nwant %q in it", show, want)
			}
		}
		view := decode[standingView](t, s.ok("limit", "queue", "mail", "--json"))
		if fmt.Sprint(view.Running) != "[1 2]" || view.Holds != "at most 3 at once, 100 start in 1m (bursts of 2)" {
			t.Errorf("got %+v", view)
		}
		if got, want := s.ok("limit", "kind", "other"), "kind \"other\": no limit\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if view := decode[standingView](t, s.ok("limit", "kind", "other", "--json")); view.Since != nil || view.Holds != "no limit" {
			t.Errorf("got %+v", view)
		}
	})
	t.Run("wrong words are refused with what would be right", func(t *testing.T) {
		before := s.ok("limit", "--json")
		for _, c := range []struct {
			args  string
			words []string
		}{
			{"team a --max-running 1", []string{"a tenant or tenants", `not of "team"`}},
			{"queue", []string{"NAME is missing"}},
			{"tenants acme --max-running 1", []string{"1 argument too many"}},
			{"--max-running 1", []string{"a limit is of a queue"}},
			{"--none", []string{"a limit is of a queue"}},
			{"queue mail --by me", []string{"--by is of use"}},
			{"queue mail --max-running 2 --by=", []string{"--by is empty"}},
			{"queue mail --max-running -1", []string{"--max-running", "0 to 10000", "none"}},
			{"queue mail --max-running 10001", []string{"--max-running", "0 to 10000"}},
			{"queue mail --max-running many", []string{`"many"`, "0 to 10000"}},
			{"queue mail --max-runing 2", []string{`did you mean "--max-running"?`}},
			{"queue mail --rate 100", []string{"--rate", "100/1m"}},
			{"queue mail --rate 0/1m", []string{`--rate is "0/1m"`, "from 1 to 1000000"}},
			{"queue mail --rate 1000001/1d", []string{"--rate", "from 1 to 1000000"}},
			{"queue mail --ordered=maybe", []string{`--ordered is "maybe"`, "true or false"}},
			{"queue mail --rate 1/1y", []string{"--rate", "s, m, h or d"}},
			{"queue mail --rate 1/366d", []string{"--rate", "8760h"}},
			{"queue mail --rate 1000000/1ms", []string{"--rate", "microsecond"}},
			{"queue mail --burst 0", []string{"--burst", "1 to 1000000"}},
			{"kind new --burst 5", []string{"--burst is of a rate", "--rate N/TIME"}},
			{"queue mail --weight 2", []string{"--weight is only for a tenant"}},
			{"tenant acme --weight 1001", []string{"--weight", "1 to 1000"}},
			{"queue mail --on-dead block", []string{"--on-dead", `did you mean "blocks"?`}},
			{"queue mail --on-dead blocks", []string{"add --ordered"}},
			{"queue mail --ordered", []string{"--max-running 3", "add --max-running none"}},
			{"queue mail --none --rate 1/s", []string{"--none"}},
			{"kind new --rate none", []string{"no limit to take off"}},
		} {
			s.fails(exitUsage, c.words, append([]string{"limit"}, strings.Fields(c.args)...)...)
		}
		s.fails(exitNotFound, []string{`later: kind "new" has no limit of its own; `, "`later limit` lists the limits"}, "limit", "kind", "new", "--none")
		if after := s.ok("limit", "--json"); after != before {
			t.Errorf("got\n%s\nwant the limits as they were:\n%s", after, before)
		}
	})
	t.Run("what is ordered and told to run more is refused", func(t *testing.T) {
		s.ok("limit", "kind", "in.turn", "--ordered")
		s.fails(exitUsage, []string{"cannot be ordered", "add --ordered=false"}, "limit", "kind", "in.turn", "--max-running", "4")
	})
}

func TestParseRate(t *testing.T) {
	for _, c := range []struct {
		text string
		want later.Rate
	}{
		{"100/1m", later.Rate{N: 100, Period: time.Minute}},
		{"100/m", later.Rate{N: 100, Period: time.Minute}},
		{"100/min", later.Rate{N: 100, Period: time.Minute}},
		{"100/10min", later.Rate{N: 100, Period: 10 * time.Minute}},
		{"1/s", later.Rate{N: 1, Period: time.Second}},
		{"7/1.5s", later.Rate{N: 7, Period: 1500 * time.Millisecond}},
		{"7/h", later.Rate{N: 7, Period: time.Hour}},
		{"1000/d", later.Rate{N: 1000, Period: 24 * time.Hour}},
		{"1000/7d", later.Rate{N: 1000, Period: 7 * 24 * time.Hour}},
		{" 5 / 1h30m ", later.Rate{N: 5, Period: 90 * time.Minute}},
	} {
		if got, err := parseRate("--rate", c.text); err != nil || got != c.want {
			t.Errorf("%q: got %+v, %v, want %+v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "/", "1/", "/s", "1", "1/0s", "1/-1s", "-1/s", "1/s/s", "1.5/s", "1/mins", "1e3/s", "1/s ago", "9999999/h"} {
		if got, err := parseRate("--rate", text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

func TestQueues(t *testing.T) { onStores(t, testQueues) }

func testQueues(t *testing.T, s *shell) {
	s.ok("migrate", "up")
	if got, want := s.ok("queues"), "no queues\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.ok("enqueue", "k", "1")
	s.ok("enqueue", "k", "1", "--in", "1h")
	s.ok("enqueue", "k", "1", "--queue", "mail")
	s.ok("pause", "queue", "mail", "--by", "ann", "--reason", "no provider")
	s.ok("pause", "kind", "k")
	s.ok("limit", "queue", "empty", "--max-running", "3")
	s.ok("limit", "tenant", "acme", "--max-running", "3")
	list := s.ok("queues")
	for _, want := range []string{"queue    oldest due  ready  running  scheduled  retry  lost  dead  limit", "empty             -      -", "at most 3 at once", "by ann: no provider"} {
		if !strings.Contains(list, want) {
			t.Errorf("got\n%s\nwant %q in it", list, want)
		}
	}
	queues := decode[struct{ Queues []queueView }](t, s.ok("queues", "--json")).Queues
	if len(queues) != 3 || queues[0].Queue != "default" || queues[0].Counts[later.StateReady] != 1 || queues[0].Counts[later.StateScheduled] != 1 ||
		queues[0].OldestDue == nil || queues[0].Paused != nil || queues[0].Limit != nil ||
		queues[1].Queue != "empty" || *queues[1].Limit.MaxRunning != 3 || queues[1].OldestDue != nil ||
		queues[2].Queue != "mail" || queues[2].Paused.By != "ann" {
		t.Errorf("got %+v", queues)
	}
}

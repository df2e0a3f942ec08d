package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func TestShowNamesWhatHoldsBack(t *testing.T) { onStores(t, testShowNamesWhatHoldsBack) }

func testShowNamesWhatHoldsBack(t *testing.T, s *shell) {
	s.ok("migrate", "up")
	store := s.store()
	beat(t, store, "w1", []string{later.DefaultQueue}, []string{"k", "r"})
	for range 3 {
		s.ok("enqueue", "k", "1", "--tenant", "acme")
	}
	s.ok("enqueue", "early", "1", "--tenant", "acme") // dead before there is an order, it blocks nobody
	kill(t, store, "early", later.DeadFailed, "boom")
	shows := func(t *testing.T, id, code string, words ...string) {
		t.Helper()
		show := s.ok("show", id)
		for _, want := range words {
			if !strings.Contains(show, want) {
				t.Errorf("got\n%s\nwant %q in it", show, want)
			}
		}
		if got := string(decode[jobView](t, s.ok("show", id, "--json")).Why.Code); got != code {
			t.Errorf("got the reason %q, want %q", got, code)
		}
	}
	settle := func(t *testing.T, end later.Settlement) {
		t.Helper()
		if refused, err := store.Settle(t.Context(), []later.Settlement{end}); err != nil || len(refused) > 0 {
			t.Fatalf("settle: %v, %v", refused, err)
		}
	}

	t.Run("a limit of none", func(t *testing.T) {
		s.ok("limit", "tenant", "acme", "--max-running", "0")
		shows(t, "1", "full", `but the limit of tenant "acme" lets none run`, "later limit tenant acme --max-running 1")
		s.ok("limit", "tenant", "acme", "--none")
		shows(t, "1", "waiting")
	})

	s.ok("limit", "tenants", "--max-running", "1")
	first := claim(t, store, "k", 3)
	if len(first) != 1 || first[0].ID != 1 {
		t.Fatalf("claim: got %d jobs, want job 1", len(first))
	}
	t.Run("the jobs that fill a limit", func(t *testing.T) {
		shows(t, "2", "full", `but tenant "acme" runs 1 job of at most 1: 1`, "later limit tenant acme --max-running 2")
		if jobs := decode[jobView](t, s.ok("show", "2", "--json")).Why.Jobs; fmt.Sprint(jobs) != "[1]" {
			t.Errorf("got the jobs %v, want 1", jobs)
		}
	})

	// Case 128: who waits in an ordered scope learns behind which job, and what that waits for.
	s.ok("limit", "tenant", "acme", "--ordered", "--on-dead", "blocks")
	t.Run("the job that comes first and runs", func(t *testing.T) {
		shows(t, "2", "behind", `tenant "acme" is ordered, and job 1 comes first, which has been running on worker w1 for`)
		if out, want := s.ok("limit", "tenant", "acme"), "first       job 1: running on worker w1"; !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	})
	settle(t, later.Settlement{Lease: first[0].Lease, Outcome: later.OutcomeRetry, Delay: time.Hour, Error: "connection refused",
		Errors: []later.AttemptError{{Attempt: 1, At: time.Now(), Error: "connection refused"}}})
	t.Run("the job that comes first and is tried again", func(t *testing.T) {
		shows(t, "2", "behind", "job 1 comes first: retry at ", "after attempt 1 failed: connection refused", "later retry 1")
	})
	s.ok("retry", "1")
	s.ok("pause", "kind", "k", "--by", "ann")
	t.Run("the job that comes first and is held back itself", func(t *testing.T) {
		shows(t, "1", "paused", `kind "k" has been paused`)
		shows(t, "2", "paused", `kind "k" has been paused`, "job 1 comes first: due ", `but kind "k" has been paused`)
	})
	s.ok("resume", "kind", "k")
	again := claim(t, store, "k", 3)
	if len(again) != 1 || again[0].ID != 1 {
		t.Fatalf("claim: got %d jobs, want job 1", len(again))
	}
	settle(t, later.Settlement{Lease: again[0].Lease, Outcome: later.OutcomeDead, Reason: later.DeadFailed, Error: "boom"})
	t.Run("the job that comes first and is dead", func(t *testing.T) {
		shows(t, "2", "behind", "job 1 comes first, which has been dead for", "later retry 1; or without it: later delete 1")
		shows(t, "1", "dead", `tenant "acme" is ordered, and none of its jobs runs before this one is retried or deleted`)
	})
	t.Run("a status names what a dead job blocks", func(t *testing.T) {
		if out, want := s.ok("status"), "blocked: tenant \"acme\" by the dead job 1, until it is retried or deleted: later show 1\n"; !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
		if got, want := fmt.Sprint(decode[statusView](t, s.ok("status", "--json")).Blocked), "[{tenant acme 1}]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	s.ok("delete", "1", "--yes")
	t.Run("a status names nothing, when that is gone", func(t *testing.T) {
		if out := s.ok("status"); strings.Contains(out, "blocked") {
			t.Errorf("got %q", out)
		}
	})
	t.Run("nothing, when that is gone", func(t *testing.T) { shows(t, "2", "waiting") })

	t.Run("when the rate lets the next one start", func(t *testing.T) {
		s.ok("limit", "kind", "r", "--rate", "1/h")
		s.ok("enqueue", "r", "1")
		s.ok("enqueue", "r", "1")
		if jobs := claim(t, store, "r", 2); len(jobs) != 1 {
			t.Fatalf("claim: got %d jobs, want 1", len(jobs))
		}
		shows(t, "6", "rate", `but kind "r" lets 1 start in 1h, and the next one in `)
		if out, want := s.ok("limit", "kind", "r"), "(in 1h)\n"; !strings.Contains(out, want) && !strings.Contains(out, "(in 59m") {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	})

	t.Run("that no worker runs its tenant's jobs", func(t *testing.T) {
		s.ok("enqueue", "own", "1", "--tenant", "zeta")
		if err := store.Beat(t.Context(), later.WorkerInfo{Name: "w2", Queues: []string{later.DefaultQueue}, Kinds: []string{"own"}, Tenants: []string{"acme"}, Slots: 1}); err != nil {
			t.Fatal(err)
		}
		shows(t, "7", "no_tenant", `no live worker of queue "default" and kind "own" (there is 1) runs jobs of the tenant "zeta"`)
	})
}

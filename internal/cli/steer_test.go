package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/internal/testdb"
)

func TestRetryCancelDelete(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "k", "1", "--in", "1h")
	s.ok("enqueue", "run", "1")
	s.ok("enqueue", "bad", "1")
	store := s.store()
	claim(t, store, "run", 1) // job 2
	kill(t, store, "bad", later.DeadFailed, "boom")

	t.Run("retry makes a waiting job due, and brings a dead one back", func(t *testing.T) {
		if got, want := s.ok("retry", "1", "3"), "1 is due now\n3 is due now\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if one, three := s.find(1), s.find(3); one.State != later.StateReady || three.State != later.StateReady || three.Generation != 1 {
			t.Errorf("got %+v and %+v", one, three)
		}
	})
	t.Run("a running job is refused with exit code 4, and the others are done", func(t *testing.T) {
		r := s.run("retry", "2", "99", "1")
		if r.code != exitRunning || r.out != "1 is due now\n" || strings.Count(r.err, "\n") != 2 || !strings.Contains(r.err, "running") || !strings.Contains(r.err, "not found") {
			t.Errorf("got %+v", r)
		}
		s.fails(exitRunning, []string{"job is running", "later cancel"}, "delete", "2", "--yes")
	})
	t.Run("tells each result as JSON", func(t *testing.T) {
		r := s.run("retry", "1", "99", "--json")
		results := decode[struct {
			Results []struct {
				ID    string
				OK    bool
				Error struct{ Code string }
			}
		}](t, r.out).Results
		if r.code != exitNotFound || len(results) != 2 || !results[0].OK || results[1].OK || results[1].Error.Code != "not_found" || r.err != "" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("cancel ends a waiting job, and asks the worker of a running one", func(t *testing.T) {
		if got, want := s.ok("cancel", "1", "2"), "1 is cancelled\n2 is running; its worker was asked to stop it\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if two := s.find(2); two.State != later.StateRunning || two.CancelAt.IsZero() {
			t.Errorf("got %+v", two)
		}
	})
	t.Run("delete wants a yes", func(t *testing.T) {
		s.fails(exitUsage, []string{"1 job (3) will be removed for good", "--yes"}, "delete", "3")
		if got := s.find(3).State; got != later.StateReady {
			t.Errorf("got %s, want the job as it was", got)
		}
		if got, want := s.ok("delete", "3", "--yes"), "3 is deleted\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestDead(t *testing.T) {
	for name, shellOn := range map[string]func(t *testing.T) *shell{
		"sqlite":   newShell,
		"postgres": postgresShell,
	} {
		t.Run(name, func(t *testing.T) { testDead(t, shellOn(t)) })
	}
}

func testDead(t *testing.T, s *shell) {
	s.fails(exitSchema, []string{"later migrate up"}, "status")
	s.ok("migrate", "up")
	if got, want := s.ok("dead", "list"), "no dead jobs\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.in = strings.Repeat(`{"kind":"mail"}`+"\n", 250)
	s.ok("enqueue", "--bulk", "-")
	s.ok("enqueue", "report", "1", "--queue", "default", "--tenant", "acme")
	store := s.store()
	kill(t, store, "mail", later.DeadFailed, "connection refused\nstack")
	kill(t, store, "report", later.DeadPermanent, "no such report")

	t.Run("list groups by what killed them", func(t *testing.T) {
		out := s.ok("dead", "list", "--limit", "2")
		for _, want := range []string{"  250  mail    failed     connection refused\n", "    1  report  permanent  no such report\n", "more: add --before 250"} {
			if !strings.Contains(out, want) {
				t.Errorf("got\n%s\nwant %q in it", out, want)
			}
		}
		view := decode[struct {
			Groups []deadGroup
			Jobs   []jobView
		}](t, s.ok("dead", "list", "--json"))
		if len(view.Groups) != 2 || view.Groups[0].Count != 250 || len(view.Jobs) != 20 || view.Jobs[0].DiedAt == nil {
			t.Errorf("got %d groups, %d jobs: %+v", len(view.Groups), len(view.Jobs), view.Groups)
		}
	})
	t.Run("retry and drop are refused without knowing which", func(t *testing.T) {
		for _, verb := range []string{"retry", "drop"} {
			s.fails(exitUsage, []string{"no dead jobs are named", "--all"}, "dead", verb)
			s.fails(exitUsage, []string{"--all excludes"}, "dead", verb, "--all", "--kind", "mail")
			s.fails(exitUsage, []string{"exclude each other"}, "dead", verb, "--kind", "mail", "7")
			s.fails(exitUsage, []string{"250 dead jobs", "--yes"}, "dead", verb, "--kind", "mail")
		}
		if got := decode[statusView](t, s.ok("status", "--json")).Counts[later.StateDead]; got != 251 {
			t.Errorf("got %d dead jobs, want 251", got)
		}
	})
	t.Run("retry brings back each job once, also those that are dead again meanwhile", func(t *testing.T) {
		rounds := 0
		s.change = func(a *App) {
			a.Open = wrapOpen(open.StoreWith, func(store later.Store) later.Store {
				return &deadlyStore{Store: store, after: func() { rounds++; kill(t, store, "mail", later.DeadFailed, "connection refused again") }}
			})
		}
		defer func() { s.change = nil }()
		if got, want := s.ok("dead", "retry", "--error", "connection refused", "--yes"), "250 jobs brought back\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if rounds != 2 { // portions of 200
			t.Errorf("got %d portions, want 2", rounds)
		}
		if got := s.find(1).Generation; got != 1 {
			t.Errorf("got the generation %d, want 1", got)
		}
	})
	t.Run("retry of one job that is named does not ask", func(t *testing.T) {
		if got, want := s.ok("dead", "retry", "251"), "1 job brought back\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		s.fails(exitNotFound, []string{"is not dead"}, "dead", "retry", "251")
		if j := s.find(251); j.State != later.StateReady || j.Attempt != 0 || len(j.Errors) != 1 {
			t.Errorf("got %+v", j)
		}
	})
	t.Run("drop removes for good", func(t *testing.T) {
		s.fails(exitUsage, []string{"1 dead job will be removed for good"}, "dead", "drop", "2")
		if got, want := s.ok("dead", "drop", "--reason", "failed", "--yes", "--json"), "{\"count\":250}\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := s.ok("dead", "drop", "--all", "--yes"), "0 jobs dropped\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// deadlyStore does something after each portion of a retry.
type deadlyStore struct {
	later.Store
	after func()
}

func (d *deadlyStore) RetryDead(ctx context.Context, f later.Filter) (int, error) {
	n, err := d.Store.RetryDead(ctx, f)
	d.after()
	return n, err
}

func TestMigrate(t *testing.T) {
	s := postgresShell(t)
	if out := s.ok("migrate", "status"); !strings.Contains(out, "no: run later migrate up") {
		t.Errorf("got %s", out)
	}
	if out := s.ok("migrate", "up"); !strings.Contains(out, "from version 0 to ") {
		t.Errorf("got %s", out)
	}
	if out := s.ok("migrate", "up"); !strings.Contains(out, "nothing to do") {
		t.Errorf("got %s", out)
	}
	s.ok("enqueue", "k", "1")
	s.fails(exitUsage, []string{"all tables go", "1 waiting or running job, 0 dead jobs", "--yes"}, "migrate", "down", "--to", "0")
	if got := decode[statusView](t, s.ok("status", "--json")).Counts[later.StateReady]; got != 1 {
		t.Errorf("got %d jobs after a refused migration, want 1", got)
	}
	down := decode[struct {
		From, To   int
		Migrations []migrationView
	}](t, s.ok("migrate", "down", "--to", "0", "--yes", "--json"))
	if down.From < 1 || down.To != 0 || len(down.Migrations) == 0 || down.Migrations[0].AppliedAt != nil {
		t.Errorf("got %+v", down)
	}
	s.fails(exitSchema, []string{"later migrate up"}, "enqueue", "k", "1")
	t.Run("print needs no database", func(t *testing.T) {
		s := newShell(t)
		if out := s.ok("migrate", "print"); !strings.Contains(strings.ToLower(out), "create table") || exists(strings.TrimPrefix(s.url, "sqlite:")) {
			t.Errorf("got %.100s", out)
		}
		s.url = "postgres://127.0.0.1:1/x"
		if out := s.ok("migrate", "print", "--schema", "jobs"); !strings.Contains(out, `"jobs"`) {
			t.Errorf("got %.100s", out)
		}
		if out := s.ok("migrate", "print", "--down"); !strings.Contains(strings.ToLower(out), "drop ") {
			t.Errorf("got %.100s", out)
		}
	})
}

func TestFindInSchema(t *testing.T) {
	s := newShell(t)
	s.url = testdb.Postgres(t)
	schema := testdb.Schema(t, s.url)
	s.ok("migrate", "up", "--schema", schema)
	s.ok("enqueue", "k", "1", "--schema", schema)
	if got := fmt.Sprint(len(decode[jobsView](t, s.ok("list", "--schema", schema, "--json")).Jobs)); got != "1" {
		t.Errorf("got %s jobs in the schema, want 1", got)
	}
}

package cli

import (
	"strings"
	"testing"

	"github.com/later-queue/later"
)

func TestPause(t *testing.T) {
	for name, shellOn := range map[string]func(t *testing.T) *shell{"sqlite": newShell, "postgres": postgresShell} {
		t.Run(name, func(t *testing.T) { testPause(t, shellOn(t)) })
	}
}

func testPause(t *testing.T, s *shell) {
	s.ok("migrate", "up")
	s.ok("enqueue", "greet", "1", "--queue", "mail", "--tenant", "it's")
	t.Run("nothing is paused at first", func(t *testing.T) {
		if got, want := s.ok("pause"), "nothing is paused\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("pauses a queue, a kind and a tenant, and says so", func(t *testing.T) {
		for _, words := range [][]string{{"queue", "mail"}, {"kind", "greet"}, {"tenant", "it's"}} {
			if got, want := s.ok("pause", words[0], words[1], "--by", "ann", "--reason", "the provider is down"), words[0]+` "`+words[1]+"\" is paused\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if jobs, err := s.store().Claim(t.Context(), claimOf("mail", "greet")); len(jobs) != 0 || err != nil {
			t.Errorf("Claim: got %d jobs, %v, want none", len(jobs), err)
		}
	})
	t.Run("lists what is paused, by whom and why", func(t *testing.T) {
		list := s.ok("pause")
		for _, want := range []string{"mail", "greet", "it's", "ann", "the provider is down"} {
			if !strings.Contains(list, want) {
				t.Errorf("got %q, want %q in it", list, want)
			}
		}
		paused := decode[struct{ Paused []pauseView }](t, s.ok("pause", "--json")).Paused
		if len(paused) != 3 || paused[1].Of != later.ScopeQueue || paused[1].Name != "mail" || paused[1].By != "ann" || paused[1].Since.IsZero() {
			t.Errorf("got %+v", paused)
		}
	})
	t.Run("show and status say why it does not run", func(t *testing.T) {
		show := s.ok("show", "1")
		for _, want := range []string{`queue "mail" has been paused`, `kind "greet" has been paused`, "by ann (the provider is down)", "later resume kind greet"} {
			if !strings.Contains(show, want) {
				t.Errorf("show: got %q, want %q in it", show, want)
			}
		}
		if status := s.ok("status"); !strings.Contains(status, `paused: queue "mail" for `) {
			t.Errorf("status: got %q, want the pause in it", status)
		}
	})
	t.Run("resumes, and refuses what is not paused", func(t *testing.T) {
		s.ok("resume", "queue", "mail")
		s.fails(exitNotFound, []string{`later: resume queue "mail": it is not paused; `}, "resume", "queue", "mail")
		s.ok("resume", "kind", "greet")
		if show := s.ok("show", "1"); !strings.Contains(show, `later resume tenant 'it'\''s'`) {
			t.Errorf("show: got %q, want the tenant quoted for a shell", show)
		}
		s.ok("resume", "tenant", "it's")
		if jobs, err := s.store().Claim(t.Context(), claimOf("mail", "greet")); len(jobs) != 1 || err != nil {
			t.Errorf("Claim: got %d jobs, %v, want one", len(jobs), err)
		}
	})
	t.Run("bad words are refused with what would be right", func(t *testing.T) {
		s.fails(exitUsage, []string{"scope", `"queue"`}, "pause", "team", "a")
		s.fails(exitUsage, []string{"NAME"}, "pause", "queue")
		s.fails(exitUsage, []string{"by", "empty"}, "pause", "queue", "mail", "--by", "")
		s.fails(exitUsage, []string{"--reason"}, "pause", "--reason", "x")
	})
}

func claimOf(queue, kind string) later.ClaimRequest {
	return later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: queue, Limit: 10}}, Limit: 10, Kinds: []string{kind},
		Worker: "w", Token: later.NewToken(), Lease: 60e9,
	}
}

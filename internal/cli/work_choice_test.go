package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// What a worker takes, and what it takes first.
func TestWorkChoice(t *testing.T) {
	drained := func(s *shell, args ...string) string {
		t.Helper()
		r := s.run(append([]string{"drain"}, args...)...)
		if r.code != 0 {
			t.Fatalf("got exit code %d\n%s", r.code, r.err)
		}
		return r.out
	}
	t.Run("--tenant restricts it to the jobs of some", func(t *testing.T) {
		s := newShell(t)
		for _, tenant := range []string{"acme", "bank", "cafe"} {
			s.ok("enqueue", "k", "1", "--tenant", tenant)
		}
		s.ok("enqueue", "k", "1")
		s.ok("enqueue", "k", "1", "--tenant", "bank", "--in", "3h")
		drain := func(flags ...string) string {
			return drained(s, append([]string{"--exec", "k=true"}, flags...)...)
		}
		if got, want := drain("--tenant", "acme", "--tenant", "cafe"), "no job is due any more: claimed 2, done 2\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := s.state(2); got != later.StateReady {
			t.Errorf("the job of another tenant is %s, want ready", got)
		}
		if got, want := drain("--tenant", ""), "no job is due any more: claimed 1, done 1\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := drain(), "no job is due any more: claimed 1, done 1; the next is due in 3h\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("--kind-slots bounds how many of a kind run at once", func(t *testing.T) {
		s := newShell(t)
		s.in = strings.Repeat("{}\n", 8)
		s.ok("enqueue", "k", "--bulk", "-", "--max-attempts", "1")
		// Of two at once the second cannot make the directory.
		alone := fmt.Sprintf("k=sh -c 'mkdir %[1]s && sleep 0.05 && rmdir %[1]s'", filepath.Join(t.TempDir(), "lock"))
		if got, want := drained(s, "--exec", alone, "--concurrency", "8", "--kind-slots", "k=1"), "no job is due any more: claimed 8, done 8\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		s.in = strings.Repeat("{}\n", 8)
		s.ok("enqueue", "k", "--bulk", "-", "--max-attempts", "1")
		if got := drained(s, "--exec", alone, "--concurrency", "8"); !strings.Contains(got, "dead ") {
			t.Errorf("got %q without --kind-slots, want some that failed: else this shows nothing", got)
		}
	})

	t.Run("--lowest-every says how often the lowest priority comes first", func(t *testing.T) {
		for every, want := range map[string]string{"0": "-5 -5 0 0 7 7", "1": "7 7 0 0 -5 -5", "2": "-5 7 -5 7 0 0"} {
			s := newShell(t)
			for _, priority := range []string{"7", "0", "-5", "7", "0", "-5"} {
				s.ok("enqueue", "k", "--priority", priority, "--max-attempts", "1", "--", priority) // so none waits claimed
			}
			file := filepath.Join(t.TempDir(), "order")
			drained(s, "--exec", fmt.Sprintf("k=sh -c 'cat >> %[1]s; echo >> %[1]s'", file), "--concurrency", "1", "--lowest-every", every)
			if got := strings.Join(strings.Fields(read(t, file)), " "); got != want {
				t.Errorf("--lowest-every %s: got the order %s, want %s", every, got, want)
			}
		}
	})

	t.Run("an expired job is in the summary, and in the log", func(t *testing.T) {
		s := newShell(t)
		s.ok("enqueue", "k", "1", "--expires-in", "1ms")
		eventually(t, "the job has expired", func() bool {
			r := s.run("drain", "--exec", "k=false")
			return strings.Contains(r.out, "claimed 1, expired 1") && strings.Contains(r.err, "job expired while it waited")
		})
	})
}

package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// What is not there under an id is told apart: ended, dead, or never there.
func TestMissing(t *testing.T) {
	for name, s := range map[string]*shell{"sqlite": newShell(t), "postgres": postgresShell(t)} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.ok("migrate", "up")
			s.ok("enqueue", "gone", "1") // 1
			s.ok("enqueue", "bad", "1")  // 2
			store := s.store()
			jobs := claim(t, store, "gone", 1)
			if _, err := store.Settle(context.Background(), []later.Settlement{{Lease: jobs[0].Lease, Outcome: later.OutcomeDone}}); err != nil {
				t.Fatal(err)
			}
			kill(t, store, "bad", later.DeadFailed, "boom")
			for _, c := range []struct {
				args string
				code int
				want string
			}{
				{"cancel 1", exitNotFound, "job 1 has ended as done; `later show 1`"},
				{"retry 1", exitNotFound, "job 1 has ended as done; `later show 1`"},
				{"delete 1 --yes", exitNotFound, "job 1 has ended as done; `later show 1`"},
				{"cancel 2", exitRunning, "job 2 is dead; remove it with `later delete 2`, or bring it back with `later retry 2`"},
				{"cancel 77", exitNotFound, "job not found"},
				{"retry 77", exitNotFound, "job not found"},
				{"delete 77 --yes", exitNotFound, "job not found"},
				{"dead retry 1", exitNotFound, "job 1 is not dead; `later dead list`"},
				{"dead drop 1 77 --yes", exitNotFound, "none of these jobs is dead; `later dead list`"},
			} {
				s.fails(c.code, []string{c.want}, strings.Fields(c.args)...)
			}
			r := s.run("dead", "retry", "1", "2")
			if want := "later: 1 of these jobs is not dead and stays as it is\n"; r.code != 0 || r.err != want || r.out != "1 job brought back\n" {
				t.Errorf("got %+v, want %q", r, want)
			}
		})
	}
}

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func TestEnqueueUnique(t *testing.T) {
	// Case 112: a duplicate says so, and the exit code is that of success.
	t.Run("prints the holder's id, and says what was done to it", func(t *testing.T) {
		s := newShell(t)
		for _, c := range []struct{ args, out, err string }{
			{"--unique k --in 1h", "1\n", ""},
			{"--unique k", "1\n", "later: no new job: job 1 (scheduled) has the key, and was left as it is\n"},
			{"--unique k --on-conflict replace", "1\n", "later: no new job: job 1 (scheduled) has the key, and was given this payload\n"},
			{"--unique k --on-conflict postpone --latest 5h --in 2h", "1\n", "later: no new job: job 1 (scheduled) has the key, and was put off\n"},
			{"--unique k --on-conflict both --latest 5h --in 3h", "1\n", "later: no new job: job 1 (scheduled) has the key, and was given this payload and put off\n"},
			{"--unique k --tenant acme", "2\n", ""},
			{"--unique k --json", "{\"id\":\"1\",\"outcome\":\"skipped\",\"holder\":\"scheduled\"}\n", ""},
			{"--unique new --json", "{\"id\":\"3\"}\n", ""},
		} {
			r := s.run(append([]string{"enqueue", "k", `{"n":1}`}, strings.Fields(c.args)...)...)
			if r.code != 0 || r.out != c.out || r.err != c.err {
				t.Errorf("%s: got %+v, want %q and %q", c.args, r, c.out, c.err)
			}
		}
		if got := time.Until(s.find(1).RunAt); (got - 3*time.Hour).Abs() > time.Minute {
			t.Errorf("job 1 is due in %v, want 3h", got)
		}
	})

	t.Run("takes each option", func(t *testing.T) {
		// Case 209.
		s := newShell(t)
		s.ok("enqueue", "k", "--unique", "started", "--unique-until", "started")
		s.ok("enqueue", "k", "--unique", "done", "--unique-until", "done")
		if got := s.find(1); got.UniqueKey != "started" || got.UniqueUntil != later.UntilStarted {
			t.Errorf("got %+v", got)
		}
		if got := s.find(2); got.UniqueKey != "done" || got.UniqueUntil != later.UntilDone {
			t.Errorf("got %+v", got)
		}
		for _, args := range []string{"--unique window --unique-window 1d", "--unique sliding --unique-window 365d --sliding"} {
			first := s.ok(append([]string{"enqueue", "k"}, strings.Fields(args)...)...)
			s.ok("delete", strings.TrimSpace(first), "--yes")
			r := s.run(append([]string{"enqueue", "k"}, strings.Fields(args)...)...)
			if r.out != first || !strings.Contains(r.err, "(ended) has the key") {
				t.Errorf("%s: got %+v, want the job %s, which has ended", args, r, first)
			}
		}
	})

	t.Run("a job's page shows the key", func(t *testing.T) {
		s := newShell(t)
		s.ok("enqueue", "k", "--unique", "a b", "--in", "1h")
		s.ok("enqueue", "k", "--unique", "c", "--unique-until", "started", "--in", "1h")
		s.ok("enqueue", "k")
		for id, want := range map[string]string{"1": "a b (until it has left the table)", "2": "c (until it starts)"} {
			if out := s.ok("show", id); !strings.Contains(out, want) {
				t.Errorf("show %s: got %s, want %q", id, out, want)
			}
		}
		if out := s.ok("show", "3"); strings.Contains(out, "unique") {
			t.Errorf("show 3: got %s, want no key", out)
		}
		for id, want := range map[string]string{"1": `"unique_key":"a b","unique_until":"done"`, "2": `"unique_key":"c","unique_until":"started"`, "3": `"unique_key":null,"unique_until":null`} {
			if out := s.ok("show", id, "--json"); !strings.Contains(out, want) {
				t.Errorf("show %s --json: got %s, want %q", id, out, want)
			}
		}
	})
}

func TestEnqueueUniqueRefuses(t *testing.T) {
	s := newShell(t)
	for _, c := range []struct{ args, words string }{
		{"--unique=", "--unique is empty"},
		{"--unique-until started", "--unique-until is of use with --unique only"},
		{"--sliding", "--sliding is of use with --unique only"},
		{"--latest 1h", "--latest is of use with --unique only"},
		{"--unique k --unique-until dune", `did you mean "done"?`},
		{"--unique k --unique-until window", "there are done, started"},
		{"--unique k --unique-until done --unique-window 1h", "both given"},
		{"--unique k --unique-window 0s", "--unique-window is 0s"},
		{"--unique k --unique-window 366d", "--unique-window is 8784h0m0s"},
		{"--unique k --sliding", "--sliding is set, but there is no window"},
		{"--unique k --on-conflict replce", `did you mean "replace"?`},
		{"--unique k --on-conflict postpone", "--latest"},
		{"--unique k --latest 1h", "--latest is set"},
		{"--unique " + strings.Repeat("k", 201), "--unique has 201 bytes"},
	} {
		t.Run(c.args, func(t *testing.T) {
			s.t = t
			s.fails(exitUsage, []string{c.words}, append([]string{"enqueue", "k"}, strings.Fields(c.args)...)...)
		})
	}
	if exists(strings.TrimPrefix(s.url, "sqlite:")) {
		t.Error("a database was made by requests that were refused")
	}
}

func TestEnqueueBulkUnique(t *testing.T) {
	s := newShell(t)
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	lines := `{"kind":"k","unique_key":"a"}
{"kind":"k","unique_key":"b","unique_until":"started","payload":1}
{"kind":"k","unique_key":"a"}
{"kind":"k"}
{"kind":"k","unique_key":"b","on_conflict":"replace","payload":2}
{"kind":"k","unique_key":"w","unique_window":"1h","sliding":true}
{"kind":"k","unique_key":"b","on_conflict":"both","latest":"2h","delay":"1h","payload":3}
`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := s.ok("enqueue", "--bulk", file), "4 jobs, ids 1 to 4; 1 not stored, because others hold their keys; 2 changed the jobs that hold their keys\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := s.find(2); string(got.Payload) != "3" || got.UniqueUntil != later.UntilStarted || got.State != later.StateScheduled {
		t.Errorf("got %+v", got)
	}
	if got, want := s.ok("enqueue", "--bulk", file, "--json"), "{\"inserted\":1,\"first_id\":\"5\",\"last_id\":\"5\",\"skipped\":4,\"changed\":2}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.in = `{"kind":"k","unique_key":"a"}` + "\n"
	if got, want := s.ok("enqueue", "--bulk", "-"), "0 jobs; 1 not stored, because others hold their keys\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A dead job whose key another one holds stays dead, and the command says so.
func TestRetryOfHeldKeys(t *testing.T) {
	s := newShell(t)
	for _, key := range []string{"a", "b", "c"} {
		s.ok("enqueue", "k", "--unique", key, "--max-attempts", "1")
	}
	s.ok("enqueue", "k", "--max-attempts", "1")
	s.run("drain", "--exec", "k=false")
	s.ok("enqueue", "k", "--unique", "a", "--in", "1h")
	s.ok("enqueue", "k", "--unique", "c", "--in", "1h")
	if out := s.ok("dead", "show", "1"); !strings.Contains(out, "a (free, and taken again when the job is retried)") {
		t.Errorf("got %s", out)
	}
	s.fails(exitRunning, []string{"job 1 stays dead, because job 5 holds its key", "retry it when that one has ended"}, "retry", "1")

	r := s.run("dead", "retry", "--all", "--yes")
	if want := "2 jobs brought back\n"; r.code != exitRunning || r.out != want || !strings.Contains(r.err, "2 jobs stay dead, because others hold their keys; the first: job") {
		t.Errorf("got %+v, want %q, and that two stay", r, want)
	}
	for id, want := range map[int64]later.State{1: later.StateDead, 2: later.StateReady, 3: later.StateDead, 4: later.StateReady} {
		if got := s.find(id).State; got != want {
			t.Errorf("job %d: got %s, want %s", id, got, want)
		}
	}
	r = s.run("dead", "retry", "1", "3", "--json")
	if want := "{\"count\":0}\n"; r.code != exitRunning || r.out != want || !strings.Contains(r.err, `"code":"key_held"`) {
		t.Errorf("got %+v, want %q and an error", r, want)
	}
	if got := s.ok("dead", "drop", "1", "3", "--yes"); got != fmt.Sprintf("%d jobs dropped\n", 2) {
		t.Errorf("got %q", got)
	}
}

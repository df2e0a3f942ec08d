package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/later-queue/later"
)

func TestList(t *testing.T) {
	s := newShell(t)
	s.ok("migrate", "up")
	if got, want := s.ok("list"), "no jobs\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.ok("enqueue", "mail", `{"n":1}`)
	s.ok("enqueue", "mail", `{"n":2}`, "--queue", "slow", "--tenant", "acme", "--in", "1h")
	s.ok("enqueue", "report", `{"n":3}`, "--max-attempts", "unlimited")
	t.Run("aligns a table, the newest first", func(t *testing.T) {
		got := regexp.MustCompile(`due \S+ ago`).ReplaceAllString(s.ok("list"), "due 5ms ago")
		got = regexp.MustCompile(`in \d\S+`).ReplaceAllString(got, "in 59m59s   ")
		got = regexp.MustCompile(` +\n`).ReplaceAllString(got, "\n")
		for _, want := range []string{"id  state      queue    kind    tenant  attempt  when", " 3  ready      default  report              0/∞", " 2  scheduled  slow     mail    acme        0/5  in 59m59s", ` 1  ready      default  mail                0/5`} {
			if !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwant %q in it", got, want)
			}
		}
	})
	t.Run("filters", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{"--kind", "mail"}, "[2 1]"},
			{[]string{"--queue", "slow"}, "[2]"},
			{[]string{"--tenant", "acme"}, "[2]"},
			{[]string{"--tenant", ""}, "[3 1]"},
			{[]string{"--state", "scheduled"}, "[2]"},
			{[]string{"--state", "dead"}, "[]"},
			{[]string{"--before", "3"}, "[2 1]"},
			{[]string{"--limit", "1"}, "[3]"},
			{[]string{"--kind", "mail", "--queue", "default"}, "[1]"},
		} {
			var ids []string
			for _, j := range decode[jobsView](t, s.ok(append([]string{"list", "--json"}, c.args...)...)).Jobs {
				ids = append(ids, j.ID)
			}
			if got := fmt.Sprint(ids); got != c.want {
				t.Errorf("%q: got %s, want %s", c.args, got, c.want)
			}
		}
	})
	t.Run("pages", func(t *testing.T) {
		if out := s.ok("list", "--limit", "2"); !strings.Contains(out, "more: add --before 2") {
			t.Errorf("got %s", out)
		}
		page := decode[jobsView](t, s.ok("list", "--limit", "2", "--json"))
		if page.NextBefore == nil || *page.NextBefore != "2" {
			t.Errorf("got %v, want 2", page.NextBefore)
		}
		if page := decode[jobsView](t, s.ok("list", "--limit", "3", "--json")); page.NextBefore != nil {
			t.Errorf("got %v for the last page, want null", *page.NextBefore)
		}
	})
}

// The field names are a contract with programs.
func TestJSONFields(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "k", `{"n": 9223372036854775807}`)
	job := decode[map[string]any](t, s.ok("show", "1", "--json"))
	for _, name := range []string{"id", "state", "queue", "priority", "tenant", "kind", "payload", "run_at", "attempt", "max_attempts", "timeout_ms", "expires_at",
		"headers", "created_at", "crashes", "generation", "idempotency_key", "errors", "checkpoint", "worker", "claimed_at", "lease_until", "cancel_at", "died_at", "dead_reason", "why"} {
		if _, ok := job[name]; !ok {
			t.Errorf("the field %s is missing", name)
		}
	}
	if got := job["id"]; got != "1" {
		t.Errorf("got the id %v (%T), want a string", got, got)
	}
	if got := fmt.Sprint(job["payload"].(map[string]any)["n"]); got != "9223372036854775807" {
		t.Errorf("got %s, want every digit", got)
	}
	if got := job["run_at"].(string); !strings.HasSuffix(got, "Z") {
		t.Errorf("got %q, want UTC", got)
	}
	if _, err := time.Parse(time.RFC3339Nano, job["run_at"].(string)); err != nil {
		t.Error(err)
	}
}

// Case 196: nothing in a job reaches the terminal as a command.
func TestHostileJobs(t *testing.T) {
	s := newShell(t)
	hostile := "\u009b2J\u202egnp.exe\u2066\u200b\U000e0041"
	payload, err := json.Marshal(map[string]string{hostile: "\x1b]0;pwned\x07" + hostile})
	if err != nil {
		t.Fatal(err)
	}
	s.ok("enqueue", "k", string(payload), "--header", "h=\x1b[31m"+hostile)
	s.ok("enqueue", "bad", string(payload))
	store := s.store()
	kill(t, store, "bad", later.DeadFailed, "\x1b[2J"+hostile+"\n\tgoroutine 1 [running]:\x1b[0m")
	if err := store.Beat(context.Background(), later.WorkerInfo{Name: "w\x1b[2J", Host: hostile, Queues: []string{"q\x1b[1m"}, Kinds: []string{hostile}, Slots: 1}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"show", "1"}, {"show", "2"}, {"dead", "list"}, {"dead", "show", "2"}, {"workers"}, {"status"}, {"list", "--state", "dead"}} {
		out := s.ok(args...)
		for _, r := range out {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("later %s prints %U raw:\n%q", strings.Join(args, " "), r, out)
				break
			}
		}
	}
	t.Run("errors of commands neither", func(t *testing.T) {
		r := s.run("show", "\x1b[2J\u202e")
		if strings.ContainsAny(r.err, "\x1b\u202e") {
			t.Errorf("got %q", r.err)
		}
	})
}

func TestShow(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "bad", `{"customer": 9223372036854775807, "rate": 1.10}`, "--tenant", "acme", "--header", "trace=abc", "--expires-in", "2d")
	store := s.store()
	kill(t, store, "bad", later.DeadPermanent, "no such customer\nstack line\n\tfile.go:7")
	t.Run("tells everything of a dead job", func(t *testing.T) {
		out := s.ok("show", "1")
		for _, want := range []string{
			"job 1  bad  dead\n",
			"why          dead for", "its handler said that no retry can help", "later retry 1",
			"tenant       acme\n", "header       trace=abc\n", "attempt      1 of 5\n", "reason       permanent\n", "idempotency  later-1-",
			"payload\n  {\n    \"customer\": 9223372036854775807,\n    \"rate\": 1.10\n  }\n",
			"errors\n  attempt 1 20", "    no such customer\n    stack line\n        file.go:7\n",
			"log\n", "1  dead ",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("got\n%s\nwant %q in it", out, want)
			}
		}
	})
	t.Run("tells it as JSON", func(t *testing.T) {
		j := decode[jobView](t, s.ok("show", "1", "--json"))
		if j.Why == nil || j.Why.Code != "dead" || len(j.Errors) != 1 || len(j.Log) != 1 || *j.DeadReason != "permanent" {
			t.Errorf("got %+v", j)
		}
	})
	t.Run("says why a job is not running", func(t *testing.T) {
		s.ok("enqueue", "k", "1")
		if out := s.ok("show", "2"); !strings.Contains(out, "no worker is alive") || !strings.Contains(out, "later work --queue default --exec k=COMMAND") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("finds an ended job in the log", func(t *testing.T) {
		s.ok("enqueue", "gone", "1")
		jobs := claim(t, store, "gone", 1)
		if _, err := store.Settle(context.Background(), []later.Settlement{{Lease: jobs[0].Lease, Outcome: later.OutcomeDone}}); err != nil {
			t.Fatal(err)
		}
		if out := s.ok("show", "3"); !strings.Contains(out, "ended as done") || !strings.Contains(out, "attempt 1 on worker w1") {
			t.Errorf("got %s", out)
		}
		s.fails(exitNotFound, []string{"keeps no payloads"}, "show", "3", "--payload")
	})
	t.Run("shortens a long payload, unless told not to", func(t *testing.T) {
		s.in = `["` + strings.Repeat("x", shownPayload) + `end"]`
		s.ok("enqueue", "long", "-")
		if out := s.ok("show", "4"); strings.Contains(out, `end"`) || !strings.Contains(out, "--full shows all") {
			t.Errorf("got %d bytes", len(out))
		}
		if out := s.ok("show", "4", "--full"); !strings.Contains(out, `end"`) {
			t.Errorf("got %d bytes without the end", len(out))
		}
	})
	s.fails(exitNotFound, []string{"not found", "later list"}, "show", "99")
	s.fails(exitNotFound, []string{"is not dead but ready"}, "dead", "show", "2")
}

func TestStatus(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "k", "1")
	s.ok("enqueue", "k", "1", "--queue", "mail", "--in", "1h")
	s.ok("enqueue", "bad", "1")
	store := s.store()
	kill(t, store, "bad", later.DeadFailed, "boom")
	if err := store.Beat(context.Background(), later.WorkerInfo{Name: "w1", Host: "h", PID: 7, Queues: []string{"default"}, Kinds: []string{"k"}, Slots: 4, Running: 1}); err != nil {
		t.Fatal(err)
	}
	out := s.ok("status")
	for _, want := range []string{"queue    oldest due  scheduled  ready  running  retry  lost  dead\n", "\nall  ", "1 dead job: later dead list", "1 worker alive, with 4 slots", "w1 "} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	}
	view := decode[statusView](t, s.ok("status", "--json"))
	if view.Counts[later.StateReady] != 1 || view.Counts[later.StateScheduled] != 1 || view.Counts[later.StateDead] != 1 || view.Counts[later.StateRunning] != 0 ||
		len(view.Queues) != 2 || view.Queues[0].Queue != "default" || view.Queues[0].OldestDue == nil || view.Queues[1].OldestDue != nil || view.Slots != 4 {
		t.Errorf("got %+v", view)
	}
	workers := decode[struct{ Workers []workerView }](t, s.ok("workers", "--json")).Workers
	if len(workers) != 1 || !workers[0].Alive || workers[0].PID != 7 || workers[0].StartedAt == nil {
		t.Errorf("got %+v", workers)
	}
}

func TestWorkersSilent(t *testing.T) {
	a := new(App)
	a.complete()
	now := time.Now()
	view := viewWorker(later.WorkerInfo{Name: "w1", SeenAt: now.Add(-90 * time.Second), StartedAt: now.Add(-time.Hour)}, now)
	if got := strings.Join(a.workerTable([]workerView{view}, now).Lines(0, nil), "\n"); view.Alive || !strings.Contains(got, "silent for 1m30s") {
		t.Errorf("got %s", got)
	}
}

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

func TestEnqueue(t *testing.T) {
	t.Run("prints the id and keeps the payload's bytes", func(t *testing.T) {
		s := newShell(t)
		file := filepath.Join(t.TempDir(), "p.json")
		if err := os.WriteFile(file, []byte("{\n  \"a\": 1.0\n}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			args []string
			in   string
			want string
		}{
			{[]string{"k", `{"n": 9223372036854775807, "f":1.10}`}, "", `{"n": 9223372036854775807, "f":1.10}`},
			{[]string{"k"}, "", "{}"},
			{[]string{"k", "@" + file}, "", "{\n  \"a\": 1.0\n}\n"},
			{[]string{"k", "-"}, "[1, 2]\n", "[1, 2]\n"},
			{[]string{"k", "null"}, "", "null"},
		} {
			s.in = c.in
			if got, want := s.ok(append([]string{"enqueue"}, c.args...)...), fmt.Sprintf("%d\n", i+1); got != want {
				t.Errorf("%q: got %q, want %q", c.args, got, want)
			}
			if got := string(s.find(int64(i + 1)).Payload); got != c.want {
				t.Errorf("%q: got the payload %q, want %q", c.args, got, c.want)
			}
			if got := s.ok("show", fmt.Sprint(i+1), "--payload"); got != c.want {
				t.Errorf("%q: show --payload gives %q, want %q", c.args, got, c.want)
			}
		}
	})
	t.Run("stores every option", func(t *testing.T) {
		// Case 209: no option is dropped in silence on the way through a flag.
		s := newShell(t)
		at := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
		s.ok("enqueue", "k", "1", "--queue", "q", "--priority", "-7", "--tenant", "Ünïtenant", "--at", at.Format(time.RFC3339),
			"--max-attempts", "unlimited", "--timeout", "90s", "--expires-at", at.Add(time.Hour).Format(time.RFC3339), "--header", "a=b=c", "--header", "d=")
		s.ok("enqueue", "k", "1", "--in", "1d", "--expires-in", "2d", "--max-attempts", "3")
		one, two := s.find(1), s.find(2)
		if one.Queue != "q" || one.Priority != -7 || one.Tenant != "Ünïtenant" || !one.RunAt.Equal(at) || one.MaxAttempts != later.UnlimitedAttempts ||
			one.Timeout != 90*time.Second || !one.ExpiresAt.Equal(at.Add(time.Hour)) || fmt.Sprint(one.Headers) != "map[a:b=c d:]" {
			t.Errorf("got %+v", one)
		}
		near := func(got time.Time, want time.Duration) bool { return (time.Until(got) - want).Abs() < time.Minute }
		if !near(two.RunAt, 24*time.Hour) || !near(two.ExpiresAt, 48*time.Hour) || two.MaxAttempts != 3 || two.Queue != later.DefaultQueue {
			t.Errorf("got %+v", two)
		}
	})
	t.Run("prints JSON", func(t *testing.T) {
		if got, want := newShell(t).ok("enqueue", "k", "--json"), "{\"id\":\"1\"}\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestEnqueueRefuses(t *testing.T) {
	s := newShell(t)
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{nil, []string{"KIND is missing", "usage: later enqueue KIND"}},
		{[]string{"a b"}, []string{"KIND", "allowed are"}},
		{[]string{"k", "{a:1}"}, []string{"PAYLOAD", "not valid JSON", "single quotes"}},
		{[]string{"k", ""}, []string{"PAYLOAD is empty"}},
		{[]string{"k", `"\u0000"`}, []string{"PAYLOAD", `\u0000`}},
		{[]string{"k", "@/no/such/file"}, []string{"/no/such/file"}},
		{[]string{"k", "1", "2"}, []string{"usage"}},
		{[]string{"k", "--in", "tomorrow"}, []string{"--in", "30s, 10m, 24h or 3d"}},
		{[]string{"k", "--in", "-5s"}, []string{"--in", "negative"}},
		{[]string{"k", "--in", "1h", "--at", "2030-01-31T08:00:00Z"}, []string{"in", "at"}},
		{[]string{"k", "--at", "2030-01-31"}, []string{"--at", "2030-01-31T08:00:00Z"}},
		{[]string{"k", "--priority", "high"}, []string{"--priority", "-32768"}},
		{[]string{"k", "--priority", "40000"}, []string{"--priority", "32767"}},
		{[]string{"k", "--max-attempts", "0"}, []string{"--max-attempts", "unlimited"}},
		{[]string{"k", "--timeout", "0s"}, []string{"--timeout"}},
		{[]string{"k", "--timeout", "1us"}, []string{"--timeout", "1ms"}},
		{[]string{"k", "--timeout", "100d"}, []string{"--timeout"}},
		{[]string{"k", "--expires-in", "0s"}, []string{"--expires-in"}},
		{[]string{"k", "--tenant", " x"}, []string{"--tenant", "space"}},
		{[]string{"k", "--queue", ""}, []string{"--queue is empty"}},
		{[]string{"k", "--header", "novalue"}, []string{"--header", "key=value"}},
		{[]string{"k", "--header", "a=1", "--header", "a=2"}, []string{"--header", "twice"}},
		{[]string{"k", "--header", "a b=1"}, []string{"--header", "allowed are"}},
		{[]string{"k", "--prioritty", "1"}, []string{`did you mean "--priority"?`}},
		{[]string{"k", "--atomic"}, []string{"--bulk"}},
		{[]string{"k", "1", "--bulk", "-"}, []string{"PAYLOAD and --bulk"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			s.t = t
			s.fails(exitUsage, c.words, append([]string{"enqueue"}, c.args...)...)
		})
	}
	if exists(strings.TrimPrefix(s.url, "sqlite:")) {
		t.Error("a database was made by requests that were refused")
	}
	t.Run("a payload that is too large, without reading it all", func(t *testing.T) {
		s := newShell(t)
		s.in = `"` + strings.Repeat("x", later.MaxPayloadBytes+10) + `"`
		s.fails(exitUsage, []string{"PAYLOAD", "bytes"}, "enqueue", "k", "-")
	})
}

func TestEnqueueExpiry(t *testing.T) {
	s := newShell(t)
	s.fails(exitUsage, []string{"--expires-in is 2d, but the job is due only after 3d"}, "enqueue", "k", "1", "--in", "3d", "--expires-in", "2d")
	if exists(strings.TrimPrefix(s.url, "sqlite:")) {
		t.Error("a database was made by jobs that were refused")
	}
	s.in = `{"kind":"k","delay":"2h"}` + "\n"
	s.fails(exitUsage, []string{"line 1", "expires_in is 1h, but"}, "enqueue", "--bulk", "-", "--expires-in", "1h")
	// The clocks may differ: the database decides, and so the job is stored.
	r := s.run("enqueue", "k", "1", "--expires-at", "2020-01-01T00:00:00Z")
	if want := "later: by this machine's clock the job has expired when it is due, and will not run\n"; r.code != 0 || r.out != "1\n" || r.err != want {
		t.Errorf("got %+v, want the id and %q", r, want)
	}
	if r := s.run("drain", "--exec", "k=false"); !strings.Contains(r.out, "expired 1") {
		t.Fatalf("got %+v", r)
	}
	if out := s.ok("show", "1"); !strings.Contains(out, "while waiting, never ran") {
		t.Errorf("got %s, want that it never ran", out)
	}
}

func TestEnqueueBulkOfOne(t *testing.T) {
	s := newShell(t)
	s.in = `{"kind":"k"}` + "\n"
	if got, want := s.ok("enqueue", "--bulk", "-"), "1 job, id 1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

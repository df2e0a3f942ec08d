package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/endpoint"
	"github.com/later-queue/later/internal/age"
	"github.com/later-queue/later/internal/open"
)

func TestWorkExec(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "run.sh")
	if err := os.WriteFile(script, []byte(`#!/bin/sh
cat > "$1/$LATER_JOB_ID.payload"
env | grep -c '^LATER_HTTP_KEY=' > "$1/$LATER_JOB_ID.key"
case "$LATER_JOB_ID" in
1) exit 0 ;;
2) echo "no such customer" >&2; exit 65 ;;
3) exit 75 ;;
*) echo "boom" >&2; exit 1 ;;
esac
`), 0o700); err != nil {
		t.Fatal(err)
	}
	s.in = `{"payload":{"n": 9223372036854775807}}` + "\n{}\n{}\n{}\n" + `{"kind":"unknown"}` + "\n"
	s.ok("enqueue", "k", "--bulk", "-")
	t.Setenv(httpKeyVariable, "whsec_secret")

	r := s.run("work", "--exec", "k="+script+" '"+dir+"'", "--until-empty")
	if want := "no job is due any more: claimed 4, done 1, retry 1, snoozed 1, dead 1; the next is due in "; r.code != 0 || !strings.HasPrefix(r.out, want) {
		t.Fatalf("got exit code %d and %q, want %q\n%s", r.code, r.out, want, r.err)
	}
	if got, want := read(t, filepath.Join(dir, "1.payload")), `{"n": 9223372036854775807}`; got != want {
		t.Errorf("the command got %q, want %q", got, want)
	}
	if got := read(t, filepath.Join(dir, "1.key")); got != "0\n" {
		t.Errorf("the command sees %s", httpKeyVariable)
	}
	two, three, four := s.find(2), s.find(3), s.find(4)
	if two.DeadReason != later.DeadPermanent || !strings.Contains(two.Errors[0].Error, "no such customer") {
		t.Errorf("got %+v", two)
	}
	if three.State == later.StateReady || three.Attempt != 0 || len(three.Errors) != 0 {
		t.Errorf("got %+v, want a job that is put off", three)
	}
	if four.State != later.StateRetry || four.Attempt != 1 || !strings.Contains(four.Errors[0].Error, "boom") {
		t.Errorf("got %+v", four)
	}
	t.Run("leaves a kind alone that it does not know", func(t *testing.T) {
		if five := s.find(5); five.State != later.StateReady || five.Attempt != 0 {
			t.Errorf("got %+v", five)
		}
	})
	t.Run("prints the summary as JSON", func(t *testing.T) {
		r := s.run("drain", "--exec", "k=true", "--json", "--budget", "20s")
		sum := decode[summaryView](t, r.out)
		if r.code != 0 || sum.Empty == nil || !*sum.Empty || sum.Claimed != 0 || sum.Outcomes[later.OutcomeDone] != 0 {
			t.Errorf("got %+v", r)
		}
		if _, told := sum.Outcomes[later.OutcomeDead]; !told {
			t.Error("an outcome that did not occur is left out")
		}
		if sum.NextDueMS == nil || *sum.NextDueMS <= 0 || *sum.NextDueMS > time.Hour.Milliseconds() {
			t.Errorf("got %v as the time until the retry", sum.NextDueMS)
		}
	})
	t.Run("does not log payloads", func(t *testing.T) {
		if strings.Contains(r.err, "9223372036854775807") {
			t.Errorf("got %s", r.err)
		}
	})
}

func TestWorkHTTP(t *testing.T) {
	s := newShell(t)
	key := endpoint.NewKey()
	var mu sync.Mutex
	got := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err := endpoint.Verify(r, body.Bytes(), []string{key}, 0); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		got[r.Header.Get("Later-Job-Id")] = body.String()
	}))
	defer server.Close()
	s.ok("enqueue", "k", `{"n": 9223372036854775807}`)
	s.fails(exitUsage, []string{"--http k", "--allow-private"}, "drain", "--http", "k="+server.URL)
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := s.run("drain", "--http", "k="+server.URL, "--allow-private", "--http-key-file", keyFile)
	if want := "no job is due any more: claimed 1, done 1\n"; r.out != want {
		t.Fatalf("got %q, want %q\n%s", r.out, want, r.err)
	}
	if want := `{"n": 9223372036854775807}`; got["1"] != want {
		t.Errorf("the endpoint got %q, want %q", got["1"], want)
	}
	t.Run("the key may be in the environment, and is warned of when it is missing", func(t *testing.T) {
		s.ok("enqueue", "k", "2")
		r := s.run("drain", "--http", "k="+server.URL, "--allow-private")
		if !strings.Contains(r.err, "requests are not signed") || !strings.Contains(r.out, "dead 1") {
			t.Errorf("got %+v", r)
		}
		s.ok("dead", "retry", "2")
		s.env[httpKeyVariable] = key
		if r := s.run("drain", "--http", "k="+server.URL, "--allow-private"); !strings.Contains(r.out, "done 1") {
			t.Errorf("got %+v", r)
		}
	})
	// Case 211: which statuses are retried can be chosen.
	t.Run("a wrong key is dead at once, unless its status is to be retried", func(t *testing.T) {
		s.env[httpKeyVariable] = endpoint.NewKey()
		for flags, want := range map[string]string{"": "dead 1", "--http-retry 403,404": "dead 1", "--http-retry 404,401": "retry 1"} {
			s.ok("enqueue", "k", "3")
			args := append([]string{"drain", "--http", "k=" + server.URL, "--allow-private"}, strings.Fields(flags)...)
			if r := s.run(args...); !strings.Contains(r.out, want) {
				t.Errorf("%q: got %+v, want %q", flags, r, want)
			}
		}
	})
	t.Run("requests to one host leave slots to others", func(t *testing.T) {
		for _, c := range []struct{ flag, slots, want int }{{0, 1, 8}, {0, 10, 8}, {0, 16, 8}, {0, 64, 32}, {1, 64, 1}, {100, 10, 100}} {
			f := handlerFlags{perHost: c.flag}
			if got := f.requestsPerHost(c.slots); got != c.want {
				t.Errorf("--http-per-host %d of %d slots: got %d, want %d", c.flag, c.slots, got, c.want)
			}
		}
	})
}

func TestWorkRefuses(t *testing.T) {
	s := newShell(t)
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{nil, []string{"no handlers", "--exec KIND=COMMAND"}},
		{[]string{"--exec", "k"}, []string{"--exec", "KIND=COMMAND"}},
		{[]string{"--exec", "k="}, []string{"--exec k", "empty"}},
		{[]string{"--exec", "k=/no/such/program"}, []string{"--exec k", "/no/such/program"}},
		{[]string{"--exec", "k='unclosed"}, []string{"--exec k"}},
		{[]string{"--exec", "a b=true"}, []string{"--exec", "allowed are"}},
		{[]string{"--exec", "k=true", "--exec", "k=false"}, []string{"k has a handler already"}},
		{[]string{"--exec", "k=true", "--http", "k=https://example.com"}, []string{"k has a handler already"}},
		{[]string{"--http", "k=ftp://example.com"}, []string{"--http k"}},
		{[]string{"--http", "k=https://example.com", "--http-key-file", "/no/such/file"}, []string{"--http-key-file"}},
		{[]string{"--exec", "k=true", "--allow-private"}, []string{"--allow-private", "--http only"}},
		{[]string{"--exec", "k=true", "--queue", "a b"}, []string{"--queue", "allowed are"}},
		{[]string{"--exec", "k=true", "--queue", "a=0"}, []string{"--queue a", "share"}},
		{[]string{"--exec", "k=true", "--queue", "a=x"}, []string{"--queue a", "share"}},
		{[]string{"--exec", "k=true", "--queue", "a", "--queue", "a=2"}, []string{"a twice"}},
		{[]string{"--exec", "k=true", "--kind-slots", "k"}, []string{`--kind-slots "k" has no =`, "KIND=N"}},
		{[]string{"--exec", "thumbnail=true", "--kind-slots", "thumbnial=2"}, []string{`--kind-slots has the kind "thumbnial"`, `did you mean "thumbnail"?`, "no --exec or --http"}},
		{[]string{"--exec", "k=true", "--kind-slots", "=2"}, []string{`--kind-slots has the kind ""`}},
		{[]string{"--exec", "k=true", "--kind-slots", "k=0"}, []string{`--kind-slots k has the number "0"`, "from 1 to 10000"}},
		{[]string{"--exec", "k=true", "--kind-slots", "k=many"}, []string{`--kind-slots k has the number "many"`}},
		{[]string{"--exec", "k=true", "--kind-slots", "k=1", "--kind-slots", "k=2"}, []string{"--kind-slots names k twice"}},
		{[]string{"--exec", "k=true", "--tenant", " x"}, []string{"--tenant begins or ends with a space"}},
		{[]string{"--exec", "k=true", "--tenant", "x", "--tenant", "x"}, []string{`--tenant names "x" twice`}},
		{[]string{"--exec", "k=true", "--lowest-every", "-1"}, []string{"--lowest-every is -1", "at least 0"}},
		{[]string{"--exec", "k=true", "--lowest-every", "some"}, []string{`--lowest-every is "some"`}},
		{[]string{"--exec", "k=true", "--concurrency", "0"}, []string{"--concurrency is 0"}},
		{[]string{"--exec", "k=true", "--lease", "10ms"}, []string{"--lease is 10ms", "at least 1s"}},
		{[]string{"--exec", "k=true", "--poll", "0s"}, []string{"--poll"}},
		{[]string{"--exec", "k=true", "--drain-timeout", "-1s"}, []string{"--drain-timeout"}},
		{[]string{"--exec", "k=true", "--name", "a b"}, []string{"--name"}},
		{[]string{"--exec", "k=true", "--name", strings.Repeat("x", 95)}, []string{"90"}},
		{[]string{"--exec", "k=true", "--budget", "5s"}, []string{"--until-empty only"}},
		{[]string{"--exec", "k=true", "--until-empty", "--budget", "-5s"}, []string{"--budget is -5s"}},
		{[]string{"--exec", "k=true", "--log-level", "inf"}, []string{`did you mean "info"?`}},
		{[]string{"--exec", "k=true", "--log-retention", "0s"}, []string{"--log-retention"}},
		{[]string{"--exec", "k=true", "--backoff", "-1s"}, []string{"--backoff"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			s.t = t
			s.fails(exitUsage, c.words, append([]string{"work"}, c.args...)...)
		})
	}
	if exists(strings.TrimPrefix(s.url, "sqlite:")) {
		t.Error("a database was made by workers that were refused")
	}
}

// started is a shell script that says by a file that it runs.
func started(t *testing.T) (command, file string) {
	file = filepath.Join(t.TempDir(), "started")
	return fmt.Sprintf(`sh -c 'echo "$LATER_ATTEMPT" >> %s; exec sleep 60'`, file), file
}

// Case 131 (the lease's part of it): a worker that is killed loses nothing.
func TestKilledWorker(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "k", "1")
	command, file := started(t)
	first := s.start("work", "--exec", "k="+command, "--lease", "1s", "--poll", "50ms")
	eventually(t, "the command runs", func() bool { return read(t, file) == "1\n" })
	first.signal(syscall.SIGKILL)
	first.wait()

	second := s.start("work", "--exec", "k=true", "--lease", "1s", "--poll", "50ms")
	eventually(t, "the second worker has run the job", func() bool { return s.state(1) == later.StateEnded })
	log := s.find(1).Log
	if len(log) != 2 || log[0].Outcome != later.OutcomeLost || log[1].Outcome != later.OutcomeDone || log[1].Attempt != 2 {
		t.Errorf("got %+v, want the first attempt lost and the second done", log)
	}
	second.signal(syscall.SIGTERM)
	if code := second.wait(); code != 0 || !strings.Contains(second.out.String(), "stopped: claimed 1, done 1\n") {
		t.Errorf("got exit code %d and %q", code, second.out.String())
	}
}

func TestSignals(t *testing.T) {
	t.Run("SIGTERM lets the running job finish, and claims no more", func(t *testing.T) {
		s := newShell(t)
		dir := t.TempDir()
		s.in = "{}\n{}\n"
		s.ok("enqueue", "k", "--bulk", "-")
		p := s.start("work", "--exec", fmt.Sprintf(`k=sh -c 'touch %[1]s/run; while [ ! -e %[1]s/go ]; do sleep 0.02; done'`, dir), "--concurrency", "1", "--poll", "20ms")
		eventually(t, "the command runs", func() bool { return exists(dir + "/run") })
		p.signal(syscall.SIGTERM)
		eventually(t, "the signal was seen", func() bool { return strings.Contains(p.err.String(), "draining") })
		if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code != 0 || p.out.String() != "stopped: claimed 1, done 1\n" {
			t.Errorf("got exit code %d and %q", code, p.out.String())
		}
		if got := s.state(2); got != later.StateReady {
			t.Errorf("the waiting job is %s, want ready", got)
		}
	})
	// Case 131: what does not finish in time is given back, not charged.
	t.Run("SIGTERM gives back what does not finish in time", func(t *testing.T) {
		s := newShell(t)
		s.ok("enqueue", "k", "1")
		command, file := started(t)
		p := s.start("work", "--exec", "k="+command, "--drain-timeout", "100ms")
		eventually(t, "the command runs", func() bool { return read(t, file) != "" })
		p.signal(syscall.SIGTERM)
		if code := p.wait(); code != 0 || !strings.Contains(p.out.String(), "released 1") {
			t.Errorf("got exit code %d and %q", code, p.out.String())
		}
		if job := s.find(1); job.State != later.StateReady || job.Attempt != 0 {
			t.Errorf("got %+v, want a job that waits, without an attempt", job)
		}
	})
	// Case 146: the second signal stops at once, and the job is not lost.
	t.Run("a second signal stops at once", func(t *testing.T) {
		for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
			s := newShell(t)
			s.ok("enqueue", "k", "1")
			command, file := started(t)
			p := s.start("work", "--exec", "k="+command, "--drain-timeout", "1h")
			eventually(t, "the command runs", func() bool { return read(t, file) != "" })
			p.signal(syscall.SIGTERM)
			eventually(t, "the signal was seen", func() bool { return strings.Contains(p.err.String(), "draining") })
			began := time.Now()
			p.signal(sig)
			if code := p.wait(); code != want {
				t.Errorf("got exit code %d, want %d", code, want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if job := s.find(1); job.State != later.StateReady || job.Attempt != 0 {
				t.Errorf("got %+v, want a job that waits, without an attempt", job)
			}
		}
	})
	t.Run("Ctrl-C ends a bulk insert, which says how to go on", func(t *testing.T) {
		s := newShell(t)
		s.ok("migrate", "up")
		var in io.WriteCloser
		p := s.startWith(func(cmd *exec.Cmd) {
			var err error
			if in, err = cmd.StdinPipe(); err != nil {
				t.Fatal(err)
			}
		}, "enqueue", "--bulk", "-")
		defer in.Close()
		if _, err := io.WriteString(in, strings.Join(lines(1500), "\n")+"\n"); err != nil {
			t.Fatal(err)
		}
		store := s.store()
		eventually(t, "the first batch is stored", func() bool { return countJobs(t, store) == 1000 })
		p.signal(syscall.SIGINT)
		code := p.wait()
		if got, want := p.err.String(), "later: ended by the signal interrupt; 1000 jobs were stored, of the lines up to 1000, nothing after; go on with --from-line 1001\n"; code != 130 || got != want {
			t.Errorf("got exit code %d and %q, want %q", code, got, want)
		}
		if got := countJobs(t, store); got != 1000 {
			t.Errorf("got %d jobs, want 1000", got)
		}
	})
	t.Run("Ctrl-C ends status --watch well", func(t *testing.T) {
		s := newShell(t)
		s.ok("enqueue", "k", "1")
		p := s.start("status", "--watch", "--interval", "100ms", "--json")
		eventually(t, "two looks", func() bool { return strings.Count(p.out.String(), "\n") >= 2 })
		p.signal(syscall.SIGINT)
		if code := p.wait(); code != 0 || p.err.String() != "" {
			t.Errorf("got exit code %d and %q", code, p.err.String())
		}
	})
}

func TestCancelRunningCommand(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "k", "1")
	command, file := started(t)
	p := s.start("work", "--exec", "k="+command, "--poll", "50ms")
	eventually(t, "the command runs", func() bool { return read(t, file) != "" })
	s.ok("cancel", "1")
	eventually(t, "the job has ended", func() bool { return s.state(1) == later.StateEnded })
	if log := s.find(1).Log; len(log) != 1 || log[0].Outcome != later.OutcomeCancelled {
		t.Errorf("got %+v, want it cancelled", log)
	}
	p.signal(syscall.SIGTERM)
	p.wait()
}

func TestDrainBudget(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "k", "1")
	command, _ := started(t)
	r := s.run("drain", "--exec", "k="+command, "--budget", "1s", "--json")
	sum := decode[summaryView](t, r.out)
	if r.code != 0 || sum.Empty == nil || *sum.Empty || sum.Outcomes[later.OutcomeReleased] != 1 {
		t.Errorf("got %+v", r)
	}
	if job := s.find(1); job.State != later.StateReady || job.Attempt != 0 {
		t.Errorf("got %+v, want a job that waits, without an attempt", job)
	}
}

// The next due job that is told is one that this worker would run.
func TestDrainTellsWhatIsDueNext(t *testing.T) {
	for name, s := range map[string]*shell{"SQLite": newShell(t), "Postgres": postgresShell(t)} {
		t.Run(name, func(t *testing.T) {
			s.ok("migrate", "up")
			s.ok("enqueue", "k", "1", "--in", "3h")
			s.ok("enqueue", "k", "1", "--in", "2h", "--queue", "other")
			s.ok("enqueue", "other", "1", "--in", "1h")
			for id, args := range map[int64][]string{
				1: {"--exec", "k=true"},
				2: {"--exec", "k=true", "--queue", "default", "--queue", "other"},
				3: {"--exec", "k=true", "--exec", "other=true"},
			} {
				before := s.find(id).Now
				r := s.run(append([]string{"drain"}, args...)...)
				job := s.find(id)
				var wants []string // one for each moment at which it may have been told
				for at := before; !at.After(job.Now); at = at.Add(10 * time.Millisecond) {
					wants = append(wants, "no job is due any more: claimed 0; the next is due "+age.Relative(job.RunAt, at)+"\n")
				}
				wants = append(wants, "no job is due any more: claimed 0; the next is due "+age.Relative(job.RunAt, job.Now)+"\n")
				if r.code != 0 || !slices.Contains(wants, r.out) {
					t.Errorf("later drain %q: got %+v, want %q", args, r, slices.Compact(wants))
				}
			}
			const none = "no job is due any more: claimed 0\n"
			if r := s.run("drain", "--exec", "third=true"); r.code != 0 || r.out != none {
				t.Errorf("later drain of another kind: got %+v, want %q", r, none)
			}
		})
	}
	t.Run("says nothing of it when that cannot be found out, and has done its work all the same", func(t *testing.T) {
		s := newShell(t)
		s.ok("enqueue", "k", "1")
		s.ok("enqueue", "k", "1", "--in", "3h")
		s.change = func(a *App) {
			a.Open = wrapOpen(open.StoreWith, func(store later.Store) later.Store { return blind{store} })
		}
		if r := s.run("drain", "--exec", "k=true"); r.code != 0 || r.out != "no job is due any more: claimed 1, done 1\n" {
			t.Errorf("got %+v", r)
		}
	})
}

// blind is a store that does not know when the next job is due.
type blind struct{ later.Store }

func (blind) NextDue(context.Context, []string, []string) (time.Duration, bool, error) {
	return 0, false, later.ErrUnavailable
}

func TestWorkOnPostgres(t *testing.T) {
	s := postgresShell(t)
	s.fails(exitSchema, []string{"later migrate up"}, "drain", "--exec", "k=true")
	s.ok("migrate", "up")
	s.ok("enqueue", "k", "1")
	r := s.run("drain", "--exec", "k=true")
	if r.code != 0 || r.out != "no job is due any more: claimed 1, done 1\n" {
		t.Errorf("got %+v", r)
	}
	if workers, err := s.store().Workers(context.Background()); err != nil || len(workers) != 0 {
		t.Errorf("got %v, %v, want no worker left", workers, err)
	}
}

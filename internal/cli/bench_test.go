package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later/internal/bench"
	"github.com/later-queue/later/internal/terminal"
	"github.com/later-queue/later/internal/testdb"
)

// smallBench are the flags of a run of a few seconds.
func smallBench(more ...string) []string {
	return append([]string{"bench", "--jobs", "1000", "--for", "200ms", "--rate", "100", "--callers", "5", "--concurrency", "50"}, more...)
}

// benchShells gives a subtest each kind of database, with the names of the places
// that runs have there.
func benchShells(t *testing.T, test func(t *testing.T, s *shell, places func() []string)) {
	t.Run("Postgres", func(t *testing.T) {
		s := newShell(t)
		s.url = testdb.Own(t, nil).URL()
		test(t, s, func() []string { return benchSchemas(t, s.url) })
	})
	t.Run("SQLite", func(t *testing.T) {
		s := newShell(t)
		dir := filepath.Dir(strings.TrimPrefix(s.url, "sqlite:"))
		test(t, s, func() []string {
			found, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			return found
		})
	})
}

func benchSchemas(t *testing.T, url string) []string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "select nspname::text from pg_namespace where nspname like 'later%'")
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestBench(t *testing.T) {
	benchShells(t, func(t *testing.T, s *shell, places func() []string) {
		t.Run("prints JSON that is complete, and nothing else", func(t *testing.T) {
			r := decode[bench.Report](t, s.ok(smallBench("--json", "--hold-snapshot")...))
			if !r.Complete || !r.Removed || len(r.Phases) != 6 || r.Phase(bench.Drain).Jobs != 1000 || r.Settings.Jobs != 1000 {
				t.Errorf("got %+v", r)
			}
		})
		t.Run("prints a summary", func(t *testing.T) {
			out := s.ok(smallBench("--quiet", "--phases", "drain,trickle", "--tenants", "3", "--no-log")...)
			for _, want := range []string{
				"1 worker x 50 slots; payload 110 bytes, job log off, 3 tenants\n", "\nbulk     1000  ", "\ndrain    1000  ", "\ntrickle     4  ",
				"enqueued to started", "client   CPU time of a job in this process",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("got %s, want %q in it", out, want)
				}
			}
			for _, not := range []string{"singles", "steady", "null", "%!"} {
				if strings.Contains(out, not) {
					t.Errorf("got %s, want no %q in it", out, not)
				}
			}
		})
		t.Run("tells what it does in lines, where there is no terminal", func(t *testing.T) {
			r := s.run(smallBench("--phases", "bulk", "--backlog", "10")...)
			want := regexp.MustCompile(`^enqueueing ready jobs\nbulk\nbulk: 1000 jobs, [0-9,]+ a second\nremoving [^\n]+\n$`)
			if r.code != 0 || !want.MatchString(r.err) {
				t.Errorf("got %d, %q", r.code, r.err)
			}
		})
		if left := places(); len(left) != 0 {
			t.Errorf("got %q, want nothing", left)
		}
	})
}

func TestBenchEndsBySignal(t *testing.T) {
	benchShells(t, func(t *testing.T, s *shell, places func() []string) {
		for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			p := s.start("bench", "--jobs", "1000", "--phases", "bulk,steady", "--for", "1h", "--rate", "100")
			eventually(t, "the third phase", func() bool { return strings.Contains(p.err.String(), "\nsteady\n") })
			if got := places(); len(got) != 1 {
				t.Errorf("got the places %q, want one", got)
			}
			p.signal(sig)
			if got := p.wait(); got != want {
				t.Errorf("got the exit code %d, want %d", got, want)
			}
			if out := p.out.String(); !strings.Contains(out, "\nbulk   1000 ") || !strings.Contains(out, "not complete") {
				t.Errorf("got %s, want the phase that had ended", out)
			}
			if left := places(); len(left) != 0 {
				t.Errorf("got %q, want nothing", left)
			}
		}
	})
}

// A run that was killed leaves what it made; the next one says so, and --clean
// removes it.
func TestBenchIsKilled(t *testing.T) {
	benchShells(t, func(t *testing.T, s *shell, places func() []string) {
		p := s.start("bench", "--phases", "steady", "--for", "1h", "--rate", "10")
		eventually(t, "the phase", func() bool { return strings.Contains(p.err.String(), "steady\n") })
		place := places()
		if len(place) != 1 {
			t.Fatalf("got the places %q, want one", place)
		}
		name := filepath.Base(place[0])
		if got := s.ok("bench", "--clean"); !strings.Contains(got, name+": its run still goes on") {
			t.Errorf("got %q, want that it is in use", got)
		}
		p.signal(syscall.SIGKILL)
		p.wait()
		eventually(t, "its run is known to be over", func() bool {
			return strings.Contains(s.ok(smallBench("--phases", "bulk", "--quiet")...), "an earlier run has left "+place[0])
		})
		view := decode[cleanView](t, s.ok("bench", "--clean", "--json"))
		if len(view.Removed) != 1 || view.Removed[0] != place[0] || len(view.InUse) != 0 {
			t.Errorf("got %+v, want %s removed", view, place[0])
		}
		if left := places(); len(left) != 0 {
			t.Errorf("got %q, want nothing", left)
		}
		if got := s.ok("bench", "--clean"); got != "no run has left anything\n" {
			t.Errorf("got %q", got)
		}
	})
}

// A second signal ends the removal, too: what stays is named, with what removes it.
func TestBenchEndsBySecondSignal(t *testing.T) {
	s := newShell(t)
	s.url = testdb.Own(t, nil).URL()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)

	p := s.start("bench", "--db", s.url, "--phases", "steady", "--for", "1h", "--rate", "10")
	eventually(t, "the phase", func() bool { return strings.Contains(p.err.String(), "steady\n") })
	schemas := benchSchemas(t, s.url)
	if len(schemas) != 1 {
		t.Fatalf("got the schemas %q, want one", schemas)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "select from "+pgx.Identifier{schemas[0], "job"}.Sanitize()); err != nil { // the schema cannot be dropped meanwhile
		t.Fatal(err)
	}
	p.signal(syscall.SIGINT)
	eventually(t, "the removal", func() bool { return strings.Contains(p.err.String(), "removing schema "+schemas[0]) })
	p.signal(syscall.SIGTERM)
	if got := p.wait(); got != 143 {
		t.Errorf("got the exit code %d, want 143", got)
	}
	want := "later: ended by the signal terminated for the second time: schema " + schemas[0] + " is not removed; `later bench --clean --db '" + s.url + "'` removes it\n"
	if got := p.err.String(); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at its end", got, want)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is removed", func() bool { return strings.Contains(s.ok("bench", "--clean"), "removed "+schemas[0]) })
}

// Whoever has not the rights of the schema's owner is told who has.
func TestBenchCleanOfAnother(t *testing.T) {
	s := newShell(t)
	s.url = testdb.Own(t, nil).URL()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range []string{"create role guest login", "create role ann login", "create role bob login", "grant create on database postgres to ann, bob"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string) string { return strings.Replace(s.url, "postgres@", user+"@", 1) }
	for _, user := range []string{"ann", "bob"} {
		p := s.start("bench", "--db", as(user), "--phases", "steady", "--for", "1h", "--rate", "10")
		eventually(t, "the phase", func() bool { return strings.Contains(p.err.String(), "steady\n") })
		p.signal(syscall.SIGKILL)
		p.wait()
	}
	eventually(t, "the runs are known to be over", func() bool {
		return !strings.Contains(s.run("bench", "--clean", "--db", as("guest")).out, "still goes on")
	})

	t.Run("a run names the owner of what is left", func(t *testing.T) {
		if out := s.ok(smallBench("--db", as("bob"), "--phases", "bulk", "--quiet")...); !strings.Contains(out, "later bench --clean removes it when ann runs it, its owner") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("what is one's own is removed, and the rest is left to its owner", func(t *testing.T) {
		r := s.run("bench", "--clean", "--db", as("bob"))
		if r.code != exitFailed || !strings.Contains(r.out, ": it belongs to the role ann\n") || !strings.Contains(r.out, "removed later_bench_") {
			t.Errorf("got %+v", r)
		}
		if want := "later: 1 schema was not removed: it takes the rights of its owner; run `later bench --clean` as ann, or as a superuser\n"; r.err != want {
			t.Errorf("got %q, want %q", r.err, want)
		}
	})
	t.Run("the same as JSON", func(t *testing.T) {
		left := benchSchemas(t, s.url)
		r := s.run("bench", "--clean", "--db", as("bob"), "--json")
		view, problem := decode[cleanView](t, r.out), problemOf(t, r)
		if len(left) != 1 || len(view.Foreign) != 1 || view.Foreign[0] != left[0] || len(view.Removed)+len(view.InUse) != 0 || problem.Error.Code != "refused" {
			t.Errorf("got %+v and %+v, want %q as foreign", view, problem, left)
		}
	})
	if out := s.ok("bench", "--clean", "--db", as("ann")); !strings.HasPrefix(out, "removed later_bench_") {
		t.Errorf("got %q", out)
	}
}

func TestBenchFails(t *testing.T) {
	s := newShell(t)
	t.Run("a wrong flag", func(t *testing.T) {
		for _, c := range []struct {
			args  []string
			words []string
		}{
			{[]string{"--phases", "drian"}, []string{`--phases has "drian"`, `did you mean "drain"?`, "bulk, drain, singles, steady, trickle"}},
			{[]string{"--jobs", "0"}, []string{"--jobs is 0; it goes from 1"}},
			{[]string{"--payload", "10"}, []string{"--payload is 10; it goes from 40"}},
			{[]string{"--for", "0s"}, []string{"--for is 0s"}},
			{[]string{"--rate", "1000000", "--for", "1h"}, []string{"--rate 1000000 for 1h0m0s is 3600000000 jobs; at most"}},
			{[]string{"--schema", "jobs"}, []string{"--schema is of no use here"}},
			{[]string{"--hold-snapshot", "--phases", "bulk"}, []string{"--hold-snapshot is of no use with --phases bulk", "add drain"}},
			{[]string{"--db", "postgress://h/d"}, []string{`did you mean "postgres"?`}},
		} {
			s.fails(exitUsage, c.words, append([]string{"bench"}, c.args...)...)
		}
	})
	t.Run("a server that is not there", func(t *testing.T) {
		s.fails(exitUnavailable, []string{"does the database run"}, "bench", "--db", "postgres://bob@127.0.0.1:1/db")
		s.fails(exitUnavailable, []string{"does the database run"}, "bench", "--clean", "--db", "postgres://bob@127.0.0.1:1/db")
	})
	t.Run("a database that is not there", func(t *testing.T) {
		url := strings.Replace(testdb.Postgres(t), "/postgres?", "/nosuchdb?", 1)
		s.fails(exitUnavailable, []string{`database "nosuchdb" does not exist`}, "bench", "--db", url)
	})
	t.Run("a disk that is too small", func(t *testing.T) {
		args := []string{"bench", "--jobs", "100000000", "--payload", "1000000"}
		s.fails(exitFailed, []string{"cannot run the benchmark here", "fewer --jobs take less", "nothing was changed"}, args...)
		if view := problemOf(t, s.run(append(args, "--json")...)); view.Error.Code != "refused" {
			t.Errorf("got %+v, want the code refused", view)
		}
	})
	t.Run("a time that is too short, with what has been measured", func(t *testing.T) {
		r := s.run("bench", "--jobs", "100", "--phases", "bulk,steady", "--for", "1h", "--rate", "10", "--timeout", "3s", "--json")
		report := decode[bench.Report](t, r.out)
		view := problemOf(t, r)
		if r.code != exitFailed || report.Complete || !report.Removed || report.Phase(bench.Bulk) == nil ||
			!strings.Contains(view.Error.Message, "--timeout is over, after 3s") || !strings.Contains(view.Error.Next, "a longer --timeout") {
			t.Errorf("got %d, %+v and %+v", r.code, report, view)
		}
	})
	if left, err := os.ReadDir(filepath.Dir(strings.TrimPrefix(s.url, "sqlite:"))); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want nothing left", left, err)
	}
}

func TestBenchProgress(t *testing.T) {
	s := newShell(t)
	s.url = testdb.Postgres(t)
	for _, columns := range []uint16{60, 100} {
		t.Run(fmt.Sprintf("%d columns wide", columns), func(t *testing.T) {
			p := newPTY(t)
			p.resize(columns, 24)
			if err := p.start(s, smallBench("--no-color", "--hold-snapshot", "--jobs", "20000", "--scheduled", "20000", "--phases", "drain,singles,trickle")...).Wait(); err != nil {
				t.Error(err)
			}
			out := p.end()
			for _, want := range []string{"enqueueing scheduled jobs", "%", "drain_held: 20000 jobs", "trickle: 4 jobs", "enqueued to started", "an old snapshot was held during"} {
				if !strings.Contains(out, want) {
					t.Errorf("got %q, want %q in it", out, want)
				}
			}
			if got, want := strings.Contains(out, "updates of jobs that write no index"), columns > 60; got != want {
				t.Errorf("explains the column HOT: %v, want %v, as there is one: %s", got, want, out)
			}
			for _, line := range strings.FieldsFunc(out, func(r rune) bool { return r == '\r' || r == '\n' }) {
				// A word may be longer: an address is left whole.
				if got := terminal.Width(line); got > int(columns) && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("got a line of %d columns: %q", got, line)
				}
			}
		})
	}
}

// What the terminal shows for a Ctrl-C is taken away with the line that it is in.
func TestBenchProgressAfterCtrlC(t *testing.T) {
	s := newShell(t)
	s.url = testdb.Postgres(t)
	p := newPTY(t)
	p.resize(100, 24)
	cmd := p.start(s, "bench", "--no-color", "--phases", "steady", "--for", "1h", "--rate", "10")
	eventually(t, "the phase", func() bool { return strings.Contains(p.shown.String(), "steady") })
	if _, err := p.master.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // 130
	out := p.end()
	shown := make([]rune, 200) // the line before the report, as the terminal shows it
	head, _, found := strings.Cut(out, "PostgreSQL ")
	if !found || !strings.Contains(head, "^C") || !strings.Contains(out, "ended by the signal interrupt") {
		t.Fatalf("got %q, want a ^C and then the report", out)
	}
	at := 0
	for _, r := range head[strings.LastIndexByte(head, '\n')+1:] {
		if r == '\r' {
			at = 0
			continue
		}
		shown[at] = r
		at++
	}
	if got := strings.Trim(string(shown), " \x00"); got != "" {
		t.Errorf("got %q left in the line of the report", got)
	}
}

// The header says that a snapshot was held, and when.
func TestBenchHead(t *testing.T) {
	a := &App{}
	a.complete()
	r := &bench.Report{Settings: bench.Settings{HoldSnapshot: true}, Phases: []*bench.Result{{Name: bench.Drain}}}
	head := func() string { return strings.Join(a.benchHead(r, 0), "\n") }
	if got, want := head(), "\n  an old snapshot was to be held, but no phase with it has ended"; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Phases = append(r.Phases, &bench.Result{Name: bench.DrainHeld, SnapshotHeld: true}, &bench.Result{Name: bench.Steady, SnapshotHeld: true})
	if got, want := head(), "\n  an old snapshot was held during drain_held, steady"; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Settings.HoldSnapshot = false
	if got := head(); strings.Contains(got, "snapshot") {
		t.Errorf("got %s, want nothing about a snapshot", got)
	}
}

// The checks know good from bad.
func TestBenchVerdicts(t *testing.T) {
	a := &App{}
	a.complete()
	report := func(hot, commits, wal, cpu, cpuHeld float64, pages int64) *bench.Report {
		return &bench.Report{
			Settings: bench.Settings{PayloadBytes: bench.DefaultPayload, Log: true},
			Phases: []*bench.Result{
				{Name: bench.Bulk, Cost: bench.Cost{WAL: new(wal / 2)}},
				{Name: bench.Drain, Cost: bench.Cost{HOT: &hot, Commits: &commits, WAL: new(wal / 2), ServerCPU: &cpu, FullPages: &pages}},
				{Name: bench.DrainHeld, Cost: bench.Cost{ServerCPU: &cpuHeld}},
			},
		}
	}
	good := strings.Join(a.benchVerdicts(report(0.99, 0.02, 900, 10, 13, 0)).Lines(0, nil), "\n")
	if got := strings.Count(good, "  good\n") + strings.Count(good+"\n", "times  good\n"); strings.Contains(good, "more:") || strings.Contains(good, "less:") || got < 4 {
		t.Errorf("got %s, want four times good", good)
	}
	bad := strings.Join(a.benchVerdicts(report(0.98, 0.03, 901, 10, 14, 7)).Lines(0, nil), "\n")
	for _, want := range []string{"98.0%", "less: claims write to the indexes", "0.0300", "more: too few jobs share one", "901 B", "7 full pages are in it", "1.40 times", "more: the claims read dead rows"} {
		if !strings.Contains(bad, want) {
			t.Errorf("got %s, want %q in it", bad, want)
		}
	}
	large := report(1, 0, 3000, 10, 10, 0)
	large.Settings.PayloadBytes = 2000
	if got := strings.Join(a.benchVerdicts(large).Lines(0, nil), "\n"); strings.Contains(got, "WAL") {
		t.Errorf("got %s, want nothing about the WAL of other payloads", got)
	}
	if n := a.benchVerdicts(&bench.Report{}).Len(); n != 0 {
		t.Errorf("got %d checks of nothing", n)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999.4: "999", 999.5: "1,000", 12345: "12,345", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%v: got %s, want %s", n, got, want)
		}
	}
}

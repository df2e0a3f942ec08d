package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/memory"
)

// lines makes n good lines of the kind k, with the line's number as payload.
func lines(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"kind":"k","payload":%d}`, i+1)
	}
	return all
}

func bulkFile(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// countJobs is how many jobs are stored.
func countJobs(t *testing.T, store later.Store) int64 {
	t.Helper()
	rows, err := store.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, r := range rows {
		n += r.Count
	}
	return n
}

// flaky is a store that answers the nth insert with an error.
type flaky struct {
	later.Store
	fail   int
	err    error
	insert int
	sizes  []int
}

func (f *flaky) Insert(ctx context.Context, jobs []later.NewJob) ([]later.Enqueued, error) {
	f.insert++
	if f.insert == f.fail {
		return nil, f.err
	}
	f.sizes = append(f.sizes, len(jobs))
	return f.Store.Insert(ctx, jobs)
}

func (f *flaky) Close() error { return nil }

// flakyShell keeps its jobs in memory.
func flakyShell(t *testing.T, f *flaky) *shell {
	f.Store = memory.New()
	s := newShell(t)
	s.change = func(a *App) {
		a.Open = func(context.Context, string, open.Config) (later.Store, error) { return f, nil }
	}
	return s
}

func TestBulk(t *testing.T) {
	t.Run("stores a file in batches, in its order", func(t *testing.T) {
		f := &flaky{}
		s := flakyShell(t, f)
		if got, want := s.ok("enqueue", "--bulk", bulkFile(t, lines(2500)...)), "2500 jobs, ids 1 to 2500\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := fmt.Sprint(f.sizes), "[1000 1000 500]"; got != want {
			t.Errorf("got the batches %s, want %s", got, want)
		}
		for _, id := range []int64{1, 1001, 2500} {
			job, err := f.Find(context.Background(), id)
			if err != nil || string(job.Payload) != fmt.Sprint(id) {
				t.Errorf("job %d: got the payload %s, %v", id, job.Payload, err)
			}
		}
	})
	t.Run("bounds a batch by its bytes too", func(t *testing.T) {
		f := &flaky{}
		big := fmt.Sprintf(`{"kind":"k","payload":"%s"}`, strings.Repeat("x", 1<<20))
		flakyShell(t, f).ok("enqueue", "--bulk", bulkFile(t, big, big, big, big, big))
		if got, want := fmt.Sprint(f.sizes), "[4 1]"; got != want {
			t.Errorf("got the batches %s, want %s", got, want)
		}
	})
	t.Run("takes KIND and flags where a line says nothing", func(t *testing.T) {
		s := newShell(t)
		s.in = "{\"payload\":{\"n\": 9223372036854775807}}\n\n{\"kind\":\"other\",\"queue\":\"mine\",\"tenant\":\"b\"}\n"
		s.ok("enqueue", "k", "--bulk", "-", "--queue", "q", "--tenant", "a", "--priority", "3")
		one, two := s.find(1), s.find(2)
		if one.Kind != "k" || one.Queue != "q" || one.Tenant != "a" || one.Priority != 3 || string(one.Payload) != `{"n": 9223372036854775807}` {
			t.Errorf("got %+v", one)
		}
		if two.Kind != "other" || two.Queue != "mine" || two.Tenant != "b" || two.Priority != 3 {
			t.Errorf("got %+v", two)
		}
	})
	t.Run("prints JSON", func(t *testing.T) {
		s := newShell(t)
		s.in = strings.Join(lines(3), "\n")
		if got, want := s.ok("enqueue", "--bulk", "-", "--json"), "{\"inserted\":3,\"first_id\":\"1\",\"last_id\":\"3\"}\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("of nothing is no fault", func(t *testing.T) {
		if got, want := newShell(t).ok("enqueue", "--bulk", "-"), "0 jobs: standard input has no lines\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("--atomic stores everything with one insert", func(t *testing.T) {
		f := &flaky{}
		flakyShell(t, f).ok("enqueue", "--bulk", bulkFile(t, lines(2500)...), "--atomic")
		if got, want := fmt.Sprint(f.sizes), "[2500]"; got != want {
			t.Errorf("got the batches %s, want %s", got, want)
		}
	})
}

func TestBulkRefuses(t *testing.T) {
	t.Run("a file with a bad line, before its first job is stored", func(t *testing.T) {
		s := newShell(t)
		all := append(lines(2200), `{"kind":"k","prioritty":1}`)
		r := s.fails(exitUsage, []string{"line 2201", "prioritty", `did you mean "priority"?`, "nothing was stored"}, "enqueue", "--bulk", bulkFile(t, all...))
		if strings.Contains(r.err, "--from-line") {
			t.Errorf("got %q, which tells to go on in the middle", r.err)
		}
		if exists(strings.TrimPrefix(s.url, "sqlite:")) {
			t.Error("a database was made")
		}
	})
	t.Run("a bad line of standard input, and says which lines were stored and how to go on", func(t *testing.T) {
		f := &flaky{}
		s := flakyShell(t, f)
		all := append(lines(2200), `{"kind":"k","priority":"high"}`, `{"kind":"k","payload":2202}`)
		s.in = strings.Join(all, "\n")
		s.fails(exitUsage, []string{"line 2201", "priority", "2000 jobs were stored, of the lines up to 2000", "--from-line 2001"}, "enqueue", "--bulk", "-")
		if got := countJobs(t, f); got != 2000 {
			t.Errorf("got %d jobs, want 2000", got)
		}
		all[2200] = `{"kind":"k","payload":2201}`
		s.in = strings.Join(all, "\n")
		s.ok("enqueue", "--bulk", "-", "--from-line", "2001")
		jobs, err := f.List(context.Background(), later.Filter{Limit: 5000})
		if err != nil || len(jobs) != 2202 {
			t.Fatalf("got %d jobs, %v, want 2202", len(jobs), err)
		}
		for i, job := range jobs {
			if want := fmt.Sprint(len(jobs) - i); string(job.Payload) != want {
				t.Fatalf("got the payload %s as number %s: a line was lost or stored twice", job.Payload, want)
			}
		}
	})
	t.Run("a bad line with --atomic: nothing is stored", func(t *testing.T) {
		f := &flaky{}
		s := flakyShell(t, f)
		s.in = strings.Join(append(lines(2200), "{"), "\n")
		s.fails(exitUsage, []string{"line 2201", "nothing was stored"}, "enqueue", "--bulk", "-", "--atomic")
		if got := countJobs(t, f); got != 0 {
			t.Errorf("got %d jobs, want none", got)
		}
	})
	t.Run("names line and field in JSON", func(t *testing.T) {
		s := newShell(t)
		s.in = `{"kind":"k","payload":{"a":["\u0000"]}}`
		p := problemOf(t, s.run("enqueue", "--bulk", "-", "--json"))
		if p.Error.Line != 1 || p.Error.Field != "payload" || p.Error.Path != "$.a[0]" {
			t.Errorf("got %+v", p)
		}
	})
	t.Run("what cannot be right", func(t *testing.T) {
		s := newShell(t)
		s.fails(exitUsage, []string{"no such file"}, "enqueue", "--bulk", "/no/such/file")
		s.fails(exitUsage, []string{"is a directory"}, "enqueue", "--bulk", t.TempDir())
		s.fails(exitUsage, []string{"--from-line is 0"}, "enqueue", "--bulk", "-", "--from-line", "0")
		s.fails(exitUsage, []string{"only 3 lines"}, "enqueue", "--bulk", bulkFile(t, lines(3)...), "--from-line", "9")
		s.fails(exitUsage, []string{"--atomic and --from-line"}, "enqueue", "--bulk", "-", "--from-line", "2", "--atomic")
	})
}

func TestBulkFailures(t *testing.T) {
	t.Run("a database that is full: what is stored is said", func(t *testing.T) {
		f := &flaky{fail: 3, err: fmt.Errorf("insert: %w", later.ErrFull)}
		flakyShell(t, f).fails(exitUnavailable, []string{"lines 2001 to 2500", "2000 jobs were stored, of the lines up to 2000, nothing after", "--from-line 2001"},
			"enqueue", "--bulk", bulkFile(t, lines(2500)...))
	})
	t.Run("a database that went away: nobody knows of the last batch, and that is said", func(t *testing.T) {
		f := &flaky{fail: 2, err: fmt.Errorf("insert: %w", later.ErrUnavailable)}
		flakyShell(t, f).fails(exitUnavailable, []string{"1000 jobs were stored, of the lines up to 1000", "lines 1001 to 2000 were stored is unknown", "--from-line 1001 or 2001"},
			"enqueue", "--bulk", bulkFile(t, lines(2500)...))
	})
	t.Run("a first insert that is refused: nothing is stored", func(t *testing.T) {
		f := &flaky{fail: 1, err: fmt.Errorf("insert: %w", later.ErrFull)}
		flakyShell(t, f).fails(exitUnavailable, []string{"nothing was stored"}, "enqueue", "--bulk", bulkFile(t, lines(5)...))
	})
}

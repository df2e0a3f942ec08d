package course

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/drive"
	"github.com/later-queue/later/lab/server"
)

// fakeEnv makes the test's program be a contender, whose database is a file of lines.
const fakeEnv = "LATER_LAB_FAKE"

func TestMain(m *testing.M) {
	if os.Getenv(fakeEnv) == "" {
		os.Exit(m.Run())
	}
	env, err := contender.FromEnvironment()
	if err == nil {
		p := contender.Process{Def: &fakeDefinition, Env: env, In: os.Stdin, Out: os.Stdout}
		p.Handler, _ = time.ParseDuration(os.Getenv("LAB_HANDLER")) // unset: none
		err = p.Run(context.Background(), os.Args[1], os.Args[2:]...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var fakeDefinition = contender.Definition{
	Name: "fake", Version: "1",
	Settings: map[string]string{
		"defaults": "handles everything",
		"lazy":     "handles half of what there is",
		"sloppy":   "handles everything and does not record it",
		"broken":   "fails when it works",
		"quitter":  "stops working by itself",
		"slow":     "handles a job a millisecond",
		"fair":     "handles a job a millisecond of each tenant",
	},
	Open: func(_ context.Context, env contender.Env) (contender.Contender, error) { return &fake{env}, nil },
}

type fake struct{ env contender.Env }

func (f *fake) Setup(context.Context) error { return os.WriteFile(f.env.URL, nil, 0o644) }

func (f *fake) Enqueue(ctx context.Context, from, n int64) error {
	for seq := from; seq < from+n; seq++ {
		if err := f.EnqueueOne(ctx, seq); err != nil {
			return err
		}
	}
	return nil
}

// EnqueueOne appends a line; one write of few bytes is whole.
func (f *fake) EnqueueOne(_ context.Context, seq int64) error {
	file, err := os.OpenFile(f.env.URL, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, seq, f.env.Tenant)
	return err
}

// Fill enqueues jobs with the numbers from 1.
func (f *fake) Fill(ctx context.Context, _ string, n int64) error { return f.Enqueue(ctx, 1, n) }

func (f *fake) Work(ctx context.Context, ready func(), handle func(contender.Payload)) error {
	if f.env.Settings == "broken" {
		return fmt.Errorf("broken on purpose")
	}
	ready()
	if f.env.Settings == "quitter" {
		return nil
	}
	var done atomic.Int64
	var err error
	if f.env.Settings == "fair" {
		light := make(chan error)
		go func() {
			light <- f.work(ctx, &done, handle, func(job contender.Payload) bool { return job.Tenant == contender.Light })
		}()
		err = f.work(ctx, &done, handle, func(job contender.Payload) bool { return job.Tenant != contender.Light })
		err = errors.Join(err, <-light)
	} else {
		err = f.work(ctx, &done, handle, func(job contender.Payload) bool { return f.env.Settings != "lazy" || job.Seq%2 == 1 })
	}
	if f.env.Settings == "sloppy" {
		done.Store(0)
	}
	return errors.Join(err, os.WriteFile(f.env.URL+".done", fmt.Append(nil, done.Load()), 0o644))
}

// work handles the jobs that takes takes, in their order.
func (f *fake) work(ctx context.Context, done *atomic.Int64, handle func(contender.Payload), takes func(contender.Payload) bool) error {
	file, err := os.Open(f.env.URL)
	if err != nil {
		return err
	}
	defer file.Close()
	jobs := bufio.NewReader(file)
	for ctx.Err() == nil {
		line, err := jobs.ReadString('\n')
		if err != nil {
			time.Sleep(time.Millisecond) // more may come
			continue
		}
		var job contender.Payload
		if _, err := fmt.Sscanf(line, "%d %s", &job.Seq, &job.Tenant); job.Seq == 0 {
			return err
		}
		if !takes(job) {
			continue
		}
		handle(job)
		done.Add(1)
		if f.env.Settings == "slow" || f.env.Settings == "fair" {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func (f *fake) Remaining(context.Context) (int64, error) {
	text, err := os.ReadFile(f.env.URL)
	if err != nil {
		return 0, err
	}
	var done int
	if text, err := os.ReadFile(f.env.URL + ".done"); err == nil {
		if _, err := fmt.Sscan(string(text), &done); err != nil {
			return 0, err
		}
	}
	return int64(strings.Count(string(text), "\n") - done), nil
}

func (f *fake) Close() {}

// meter is a server whose counts go up by a fixed amount with each reading.
type meter struct {
	server.Server
	readings atomic.Int64
}

func (m *meter) Tidy(context.Context, string) error { return nil }

func (m *meter) Read(context.Context, string) (server.Usage, error) {
	n := m.readings.Add(1)
	return server.Usage{
		CPU: time.Duration(n) * time.Millisecond, WAL: n * 1000, Commits: n * 10,
		Inserted: n, Updated: n * 2, Deleted: n * 3,
	}, nil
}

func track(t *testing.T, settings string) *Track {
	t.Helper()
	t.Setenv(fakeEnv, "1")
	dir := t.TempDir()
	return &Track{
		Server: &meter{},
		Launcher: &drive.Launcher{
			Program: []string{os.Args[0]}, Messages: os.Stderr,
			Env: contender.Env{URL: filepath.Join(dir, "jobs"), Settings: settings, Processes: 1, Dir: dir},
		},
		Jobs: 200, Seconds: 1, Rate: 100, Callers: 3, Limit: 20 * time.Second,
	}
}

func TestDrain(t *testing.T) {
	ctx := context.Background()
	t.Run("the rate, and what each job has used", func(t *testing.T) {
		var r data.Round
		if err := Drain(ctx, track(t, "defaults"), &r); err != nil {
			t.Fatal(err)
		}
		if r.Jobs != 200 || r.Cut || r.Left != 0 || r.Backlog != 200 {
			t.Errorf("got %+v, want all 200 done and recorded", r)
		}
		if got := float64(r.Jobs) / r.Seconds; got != r.Rate || got <= 0 {
			t.Errorf("got the rate %v, want %v", r.Rate, got)
		}
		// One reading lies between before and after: 1 ms, 1,000 bytes, … for 200 jobs.
		if r.ServerCPU != 5 || r.WALBytes != 5 || r.Commits != 0.05 || r.TuplesDeleted != 0.015 {
			t.Errorf("got %+v, want a 200th of one step of each count", r)
		}
		if r.EnqueueWAL != 5 || r.EnqueueCPU != 5 || r.EnqueueRate <= 0 {
			t.Errorf("got %+v, want the same of enqueuing", r)
		}
		if r.MaxMemoryBytes < 1<<20 || r.ClientCPU <= 0 {
			t.Errorf("got %d bytes and %v µs, want those of a process", r.MaxMemoryBytes, r.ClientCPU)
		}
	})
	t.Run("is cut at the limit, with the rate of the time there was", func(t *testing.T) {
		var r data.Round
		lazy := track(t, "lazy")
		lazy.Limit = 300 * time.Millisecond
		if err := Drain(ctx, lazy, &r); err != nil {
			t.Fatal(err)
		}
		if !r.Cut || r.Jobs != 100 || r.Seconds < 0.3 || r.Left != 0 {
			t.Errorf("got %+v, want it cut after 0.3 s and 100 jobs", r)
		}
	})
	t.Run("finds jobs that were handled and not recorded", func(t *testing.T) {
		var r data.Round
		if err := Drain(ctx, track(t, "sloppy"), &r); err != nil {
			t.Fatal(err)
		}
		if r.Left != 200 {
			t.Errorf("got %d left, want 200", r.Left)
		}
	})
	t.Run("a worker that fails, or that ends by itself, is an error", func(t *testing.T) {
		for _, settings := range []string{"broken", "quitter"} {
			var r data.Round
			track := track(t, settings)
			track.Launcher.Messages = nil
			if err := Drain(ctx, track, &r); err == nil {
				t.Errorf("%s: got no error", settings)
			}
		}
	})
	t.Run("several processes are counted together", func(t *testing.T) {
		var r data.Round
		two := track(t, "lazy")
		two.Launcher.Env.Processes = 2
		if err := Drain(ctx, two, &r); err != nil {
			t.Fatal(err)
		}
		// Each handles half of them: the fake knows no claims.
		if r.Jobs != 200 || r.Cut {
			t.Errorf("got %+v, want the 200 of both", r)
		}
	})
}

func TestLatencies(t *testing.T) {
	ctx := context.Background()
	t.Run("steady pairs the answers with the starts", func(t *testing.T) {
		var r data.Round
		steady := track(t, "defaults")
		steady.Seconds = 2
		if err := Steady(ctx, steady, &r); err != nil {
			t.Fatal(err)
		}
		if r.Jobs < 100 || r.Jobs > 200 || r.Missing != 0 || r.P99 < r.P50 || len(r.Points) == 0 || r.Max > 5e6 {
			t.Errorf("got %+v, want about 200 jobs, all started, and their distribution", r)
		}
	})
	t.Run("what never starts is missing", func(t *testing.T) {
		var r data.Round
		held := track(t, "lazy")
		files := files{held.Launcher.Env.Dir, 1}
		for name, text := range map[string]string{files.acked(): "1 1000000\n2 1000001\n3 3000000\n4 3000000\n5 3000000\n", files.startedBy(0): "1 1000007\n3 3000009\n4 2999999\n"} {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		j, err := files.join(time.UnixMicro(3000020))
		if err != nil {
			t.Fatal(err)
		}
		summarize(&r, afterWarmUp(j.latencies))
		// Behind the first second: one that started before its answer, one after 9 µs,
		// and one that had not started 20 µs later, when the workers were stopped.
		if j.missing != 2 || len(r.Points) == 0 || r.P50 != 9 || r.Max != 20 {
			t.Errorf("got %d missing and %+v, want 2, a median of 9 µs and the greatest of 20", j.missing, r)
		}
		summarize(&r, []drive.Latency{{AckedAt: 1, Micros: 0}})
		if r.P50 != 1 {
			t.Errorf("got %v, want 1: 0 stands for no figure", r.P50)
		}
	})
}

func TestSingles(t *testing.T) {
	var r data.Round
	if err := Singles(context.Background(), track(t, "defaults"), &r); err != nil {
		t.Fatal(err)
	}
	if r.Jobs == 0 || r.Seconds < 1 || r.Rate != float64(r.Jobs)/r.Seconds || r.ServerCPU != 1000/float64(r.Jobs) {
		t.Errorf("got %+v", r)
	}
}

func TestSampler(t *testing.T) {
	ctx := context.Background()
	track := track(t, "slow")
	if err := track.setup(ctx); err != nil {
		t.Fatal(err)
	}
	if err := track.enqueue(ctx, 2000, &data.Round{}); err != nil {
		t.Fatal(err)
	}
	crew, err := track.Launcher.StartCrew(ctx, "drain", noArgs)
	if err != nil {
		t.Fatal(err)
	}
	sampler := startSampler(ctx, track, crew, time.Now(), 0.1)
	if _, err := crew.Wait(ctx, 500, time.Now().Add(20*time.Second)); err != nil {
		t.Fatal(err)
	}
	points, err := sampler.stop()
	if err := errors.Join(err, crew.Stop()); err != nil {
		t.Fatal(err)
	}
	// Each reading is a millisecond more; a hundred jobs or less are done in a step.
	if len(points) < 3 {
		t.Fatalf("got %v, want a point each 0.1 s", points)
	}
	for i, p := range points {
		if p[1] < 1000.0/200 || i > 0 && p[0] <= points[i-1][0] {
			t.Errorf("got %v, want times that rise, and a millisecond for the jobs of a step", points)
		}
	}
}

func TestIdle(t *testing.T) {
	var r data.Round
	if err := Idle(context.Background(), track(t, "defaults"), &r); err != nil {
		t.Fatal(err)
	}
	// One reading lies between before and after: 10 commits, in the track's second.
	if r.Seconds < 1 || r.IdleCommits != 10/r.Seconds {
		t.Errorf("got %+v, want 10 commits in a second", r)
	}
}

func TestBudget(t *testing.T) {
	ctx := context.Background()
	t.Run("without a warm-up, the whole run", func(t *testing.T) {
		var r data.Round
		if err := Budget(ctx, track(t, "defaults"), &r); err != nil {
			t.Fatal(err)
		}
		if r.Jobs != 200 || r.ServerCPU != 5 || r.Commits != 0.05 {
			t.Errorf("got %+v, want 200 jobs and a 200th of one step", r)
		}
	})
	t.Run("with one, what comes after it", func(t *testing.T) {
		var r data.Round
		warm := track(t, "slow")
		warm.Warm = 300
		if err := Budget(ctx, warm, &r); err != nil {
			t.Fatal(err)
		}
		if r.Jobs == 0 || r.Jobs > 200 || r.Backlog != 500 || r.ServerCPU == 0 || r.Commits != 0 {
			t.Errorf("got %+v, want at most 200 jobs of 500, and no stale count of commits", r)
		}
	})
}

func TestSoak(t *testing.T) {
	var r data.Round
	soaked := track(t, "slow")
	soaked.Jobs, soaked.Fill, soaked.FillJobs, soaked.Soak = 20, "anything", 30, time.Second
	began := time.Now()
	if err := Budget(context.Background(), soaked, &r); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	jobs, err := os.ReadFile(soaked.Launcher.Env.URL)
	if err != nil {
		t.Fatal(err)
	}
	// Handlers of 0.6 s, one after the other, do at least one job in the second, and at most so
	// many in all the time: they are filled up again. What is measured has handlers that take no time.
	most := 30 + int(took/(600*time.Millisecond)) + 1
	if n := strings.Count(string(jobs), "\n"); n < 31 || n > most {
		t.Errorf("got %d jobs in all, want 31 to %d: 30, and those of the soak again", n, most)
	}
	if r.Jobs < 20 || r.Seconds > 10 || soaked.Launcher.Handler != 0 {
		t.Errorf("got %+v and handlers of %v, want 20 jobs or more, without a pause", r, soaked.Launcher.Handler)
	}
}

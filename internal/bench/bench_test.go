package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later/internal/testdb"
)

// small is a run of a few seconds with everything in it.
func small(url string) Config {
	return Config{
		URL: url, Jobs: 2000, Batch: 300, Callers: 8, Rate: 200, For: 300 * time.Millisecond, Workers: 2, Concurrency: 50,
		Kinds: 3, Tenants: 4, Priorities: 2, Payload: 200, Backlog: 500, Scheduled: 300, HoldSnapshot: true, Timeout: time.Minute,
	}
}

// checkReport checks what holds for each complete run of small.
func checkReport(t *testing.T, cfg Config, r *Report, err error) {
	t.Helper()
	if err != nil || r == nil || !r.Complete || !r.Removed {
		t.Fatalf("got %+v, %v, want a complete report of something that is gone", r, err)
	}
	var names []Phase
	for _, p := range r.Phases {
		names = append(names, p.Name)
		if p.DurationMS <= 0 || p.Rate <= 0 || p.Repeated != 0 {
			t.Errorf("%s: got %+v", p.Name, p)
		}
		if want := p.Name != Bulk && p.Name != Drain; p.SnapshotHeld != want {
			t.Errorf("%s: snapshot held: %v, want %v", p.Name, p.SnapshotHeld, want)
		}
		for _, l := range []*Latency{p.Start, p.Call} {
			if l != nil && (l.Samples != int(p.Jobs) || l.P50 < 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.Max) {
				t.Errorf("%s: got %+v for %d jobs", p.Name, l, p.Jobs)
			}
		}
		if got, want := p.Start != nil, p.Name == Steady || p.Name == Trickle; got != want {
			t.Errorf("%s: has start latencies: %v, want %v", p.Name, got, want)
		}
		if got, want := p.Call != nil, p.Name == Steady || p.Name == Trickle || p.Name == Singles; got != want {
			t.Errorf("%s: has latencies of calls: %v, want %v", p.Name, got, want)
		}
		if p.Cost.ClientCPU == nil || *p.Cost.ClientCPU <= 0 {
			t.Errorf("%s: the client's CPU time is not known", p.Name)
		}
		if share := p.Cost.OthersCPU; runtime.GOOS == "linux" && (share == nil || *share < 0 || *share > 1) {
			t.Errorf("%s: got %v as the share of others", p.Name, share)
		}
	}
	if want := []Phase{Bulk, Drain, DrainHeld, Singles, Steady, Trickle}; !reflect.DeepEqual(names, want) {
		t.Fatalf("got the phases %v, want %v", names, want)
	}
	for name, want := range map[Phase]int64{
		Bulk: int64(cfg.Jobs), Drain: int64(cfg.Jobs), DrainHeld: int64(cfg.Jobs), Steady: 60, Trickle: 6,
	} {
		if got := r.Phase(name).Jobs; got != want {
			t.Errorf("%s: got %d jobs, want %d", name, got, want)
		}
	}
	if want := (Waiting{Ready: int64(cfg.Backlog), Scheduled: int64(cfg.Scheduled)}); r.Waiting != want {
		t.Errorf("got %+v waiting, want %+v", r.Waiting, want)
	}
}

func connection(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := connect(context.Background(), url, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// value reads one value.
func value[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func schemaExists(t *testing.T, conn *pgx.Conn, name string) bool {
	t.Helper()
	return value[bool](t, conn, "select exists (select from pg_namespace where nspname = $1)", name)
}

// placesOf gives a subtest each kind of database, with how to see whether a run's
// place is there.
func placesOf(t *testing.T, test func(t *testing.T, url string, exists func(place string) bool)) {
	t.Run("Postgres", func(t *testing.T) {
		url := testdb.Postgres(t)
		test(t, url, func(place string) bool { return schemaExists(t, connection(t, url), place) })
	})
	t.Run("SQLite", func(t *testing.T) {
		test(t, "sqlite:"+filepath.Join(t.TempDir(), "later.db"), func(place string) bool {
			_, err := os.Stat(place)
			return err == nil
		})
	})
}

// A run that ends early, for whatever reason, leaves nothing.
func TestRunIsInterrupted(t *testing.T) {
	placesOf(t, func(t *testing.T, url string, exists func(place string) bool) {
		for phase, phases := range map[Phase][]Phase{Bulk: {Bulk}, DrainHeld: {Drain}, Singles: {Singles}, Steady: {Steady}} {
			t.Run("in "+string(phase), func(t *testing.T) {
				t.Parallel() // it mostly waits
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				cfg := small(url)
				cfg.Backlog, cfg.Scheduled, cfg.Phases = 0, 0, phases
				cfg.Progress = func(s Step) {
					if s.Phase == phase && s.Result == nil {
						cancel()
					}
				}
				r, err := Run(ctx, cfg)
				if !errors.Is(err, context.Canceled) || r == nil || r.Complete || !r.Removed {
					t.Fatalf("got %+v, %v, want an incomplete report of something that is gone", r, err)
				}
				if r.Phase(phase) != nil {
					t.Error("the phase that was interrupted is in the report")
				}
				if exists(r.Place) {
					t.Errorf("%s is still there", r.Place)
				}
			})
		}
		t.Run("by its timeout", func(t *testing.T) {
			t.Parallel()
			cfg := small(url)
			cfg.Phases, cfg.For, cfg.Timeout = []Phase{Trickle}, time.Hour, 5*time.Second
			r, err := Run(context.Background(), cfg)
			if !errors.Is(err, ErrTimeout) || r == nil || r.Complete || !r.Removed {
				t.Fatalf("got %+v, %v, want an incomplete report of something that is gone", r, err)
			}
			if exists(r.Place) {
				t.Errorf("%s is still there", r.Place)
			}
		})
	})
}

func TestPhases(t *testing.T) {
	placesOf(t, func(t *testing.T, url string, _ func(string) bool) {
		for _, c := range []struct{ phases, want []Phase }{
			{[]Phase{Drain}, []Phase{Bulk, Drain}},
			{[]Phase{Trickle, Singles}, []Phase{Singles, Trickle}},
		} {
			cfg := small(url)
			cfg.Phases, cfg.HoldSnapshot, cfg.Backlog, cfg.Scheduled, cfg.NoLog = c.phases, false, 0, 0, true
			r, err := Run(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			var got []Phase
			for _, p := range r.Phases {
				got = append(got, p.Name)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v: got %v, want %v", c.phases, got, c.want)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	placesOf(t, func(t *testing.T, url string, _ func(string) bool) {
		t.Run("a disk that is too small", func(t *testing.T) {
			cfg := small(url)
			cfg.Jobs, cfg.Payload = MaxJobs, MaxPayload
			if r, err := Run(context.Background(), cfg); !errors.Is(err, ErrRefused) || r != nil || !strings.Contains(err.Error(), "MB are free") {
				t.Errorf("got %+v, %v, want ErrRefused", r, err)
			}
		})
	})
	t.Run("a folder that is none", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(context.Background(), small("sqlite:"+filepath.Join(file, "later.db"))); !errors.Is(err, ErrRefused) {
			t.Errorf("got %v, want ErrRefused", err)
		}
	})
	for name, change := range map[string]func(c *Config){
		"Jobs":    func(c *Config) { c.Jobs = -1 },
		"Payload": func(c *Config) { c.Payload = MinPayload - 1 },
		"Rate":    func(c *Config) { c.Rate, c.For = MaxSteady, time.Minute },
		"For":     func(c *Config) { c.For = -1 },
		"Timeout": func(c *Config) { c.Timeout = -1 },
		"Phases":  func(c *Config) { c.Phases = []Phase{"x"} },
	} {
		cfg := small("sqlite:later.db")
		change(&cfg)
		if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// forgetful is a place in which jobs are left that the workers call done.
type forgetful struct {
	place
	left int64
}

func (p forgetful) remaining(context.Context) (int64, error) { return p.left, nil }

func TestEmpty(t *testing.T) {
	for left, want := range map[int64]string{0: "", 3: "drain: all jobs were done, but 3 are left in the table"} {
		got := ""
		if err := (&bench{place: forgetful{left: left}}).empty(context.Background(), Drain); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("with %d left: got %q, want %q", left, got, want)
		}
	}
}

func TestAccount(t *testing.T) {
	for _, c := range []struct {
		name       string
		done       int64
		seqs       []int
		want, note string
	}{
		{"each once", 3, []int{0, 1, 2}, "", ""},
		{"one again", 3, []int{0, 1, 1, 2}, "", "jobs were started again"},
		{"one called done that never ran", 3, []int{0, 1}, "3 jobs were enqueued, and handlers ran 2 of them", ""},
		{"one of somebody else", 3, []int{0, 1, 2, 77}, "handlers ran jobs that nobody had enqueued: 1", ""},
	} {
		l := newLedger(3, false)
		for _, seq := range c.seqs {
			l.start(seq)
		}
		got, r := "", &Result{Jobs: c.done, Repeated: l.repeated.Load()}
		if err := (&bench{}).account(r, l, 3); err != nil {
			got = err.Error()
		}
		if note := strings.Join(r.Notes, ""); got != c.want || !strings.HasPrefix(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("%s: got %q, %q, want %q, %q", c.name, got, note, c.want, c.note)
		}
	}
}

func TestCost(t *testing.T) {
	zero, hundred := new(int64(0)), new(int64(100))
	c := costOf(reading{wal: zero, updates: zero, hot: zero, commits: hundred}, reading{wal: hundred, updates: hundred, hot: new(int64(98)), commits: zero}, 50)
	if *c.WAL != 2 || *c.HOT != 0.98 || *c.Commits != 0 || c.ServerCPU != nil {
		t.Errorf("got %+v, want 2 bytes, 98%%, nothing of a counter that was reset and null where nothing is known", c)
	}
	if got := costOf(reading{updates: zero, hot: zero, wal: zero}, reading{updates: zero, hot: zero, wal: hundred}, 0); got.HOT != nil || got.WAL != nil {
		t.Errorf("got %+v of no jobs, want null", got)
	}
	begin := time.Now()
	before := reading{at: begin, machineCPU: zero, clientCPU: zero, serverCPU: zero}
	after := reading{at: begin.Add(time.Second), cpus: 2, machineCPU: new(int64(1_500_000)), clientCPU: new(int64(300_000)), serverCPU: new(int64(200_000))}
	if got := othersCPU(before, after); *got != 0.5 {
		t.Errorf("got %v as the share of others, want 0.5: 1 s of 2 CPUs in 1 s", *got)
	}
}

// The page explains every field that a program can read.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(string(page), -1) {
		told[m[1]] = true
	}
	var check func(typ reflect.Type)
	check = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range typ.NumField() {
			name := typ.Field(i).Tag.Get("json")
			if !told[name] {
				t.Errorf("docs/bench.md does not explain %s of %s", name, typ)
			}
			check(typ.Field(i).Type)
		}
	}
	check(reflect.TypeFor[Report]())
}

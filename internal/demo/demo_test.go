package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
)

// TestMain lets the test binary be the demo's worker processes.
func TestMain(m *testing.M) {
	if os.Getenv(WorkerEnv) == "" {
		os.Exit(m.Run())
	}
	if err := RunWorker(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Cases 131, 136 and 206 in one: workers that are killed and drained, jobs in
// transactions that commit and roll back, a service that fails.
func TestRun(t *testing.T) {
	play := func(t *testing.T, config Config) {
		var out buffer
		config.Out, config.Spread, config.Seed = &out, 5*time.Second, 3
		tally, err := Run(t.Context(), config) // gives up by itself when nothing moves
		t.Log("\n" + out.String())
		if err != nil {
			t.Fatal(err)
		}
		if !tally.OK() || len(tally.Checks) != 8 {
			t.Errorf("got %d checks with the faults %q, want 8 without any", len(tally.Checks), faults(tally))
		}
		if got := tally.Service.Written; got != DefaultOrders {
			t.Errorf("got %d mails, want %d", got, DefaultOrders)
		}
		reasons := map[later.DeadReason]int{}
		for _, job := range tally.Dead {
			reasons[job.DeadReason]++
		}
		if len(tally.Dead) != 2 || reasons[later.DeadPermanent] != 1 || reasons[later.DeadUndecodable] != 1 {
			t.Errorf("got the dead jobs' reasons %v, want one permanent and one undecodable", reasons)
		}
		for _, want := range []string{"killed (SIGKILL)", "took over order", "exit code 0", "It adds up: 200 orders, 200 confirmations, 200 mails"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("got no %q in the output", want)
			}
		}
	}
	t.Run("adds up on SQLite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		play(t, Config{Dir: dir})
		if _, err := os.Stat(filepath.Join(dir, shopFile)); err != nil {
			t.Errorf("got %v, want the database kept in the folder that was asked for", err)
		}
	})
	t.Run("adds up on Postgres", func(t *testing.T) {
		t.Parallel()
		url := testdb.Postgres(t)
		schema := testdb.Schema(t, url)
		play(t, Config{DB: url, Schema: schema, Dir: t.TempDir(), Remove: true})
		if got := schemas(t, url, schema); got != 0 {
			t.Errorf("got %d schemas named %s, want it removed", got, schema)
		}
	})
}

func schemas(t *testing.T, url, name string) (count int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), `select count(*) from pg_namespace where nspname = $1`, name).Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	used := filepath.Join(dir, "used.db")
	if err := os.WriteFile(used, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]Config{
		"a database that somebody uses": {DB: "sqlite:" + used, Dir: dir},
		"a database of another kind":    {DB: "mysql://ada:secret@host/db", Dir: dir},
		"too few orders":                {Orders: MinOrders - 1, Dir: dir},
		"too few workers":               {Workers: 2, Dir: dir},
		"time that runs backwards":      {Spread: -time.Second, Dir: dir},
	} {
		t.Run(name, func(t *testing.T) {
			config.Out = new(buffer)
			if _, err := Run(t.Context(), config); !errors.Is(err, ErrConfig) {
				t.Errorf("got %v, want %v", err, ErrConfig)
			}
		})
	}
	t.Run("a schema that somebody uses", func(t *testing.T) {
		url := testdb.Postgres(t)
		_, err := Run(t.Context(), Config{DB: url, Schema: "public", Dir: t.TempDir(), Out: new(buffer), Remove: true})
		if err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("got %v, want it refused because it exists", err)
		}
		if got := schemas(t, url, "public"); got != 1 {
			t.Error("got the schema removed, want it left alone")
		}
	})
	if got, err := os.ReadFile(used); err != nil || string(got) != "precious" {
		t.Errorf("got %q, %v; want the file left alone", got, err)
	}
}

// newTestDemo is a demo that would go on for an hour. meddle is called once, at
// the first line that it prints, when all workers have been started.
func newTestDemo(t *testing.T, meddle func(*demo)) *demo {
	t.Helper()
	config, err := Config{Dir: t.TempDir(), Spread: time.Hour}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	at, err := newPlace(config)
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{config: config, place: at, story: newStory()}
	d.config.Out = &buffer{written: sync.OnceFunc(func() { meddle(d) })}
	return d
}

func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	d := newTestDemo(t, func(*demo) { cancel(interrupted) })
	if _, err := d.run(ctx); !errors.Is(err, interrupted) {
		t.Errorf("got %v, want %v", err, interrupted)
	}
	if got := len(d.fleet.all()); got != DefaultWorkers {
		t.Fatalf("got %d workers, want %d", got, DefaultWorkers)
	}
	for _, p := range d.fleet.all() {
		if !p.over() {
			t.Errorf("got %s still running, want it ended", p.name)
		}
	}
}

func TestRunWorker(t *testing.T) {
	t.Run("ends with the process that started it", func(t *testing.T) {
		dir := t.TempDir()
		spec, err := json.Marshal(workerSpec{Place: place{Dir: dir, DB: "sqlite:" + filepath.Join(dir, shopFile)}, Name: "worker-1", Mail: "http://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), WorkerEnv+"="+string(spec))
		cmd.Stdin = strings.NewReader("") // ends at once, as the pipe does with its writer
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("got %v, want exit code 0; it said %s", err, out)
		}
	})
	t.Run("refuses to be started by hand", func(t *testing.T) {
		if err := RunWorker(t.Context()); err == nil {
			t.Error("got no error, want one")
		}
	})
}

func TestRunFails(t *testing.T) {
	t.Run("when an order cannot be taken, with the reason", func(t *testing.T) {
		d := newTestDemo(t, func(d *demo) {
			if _, err := d.shop.db.ExecContext(t.Context(), `drop table orders`); err != nil {
				t.Error(err)
			}
		})
		if _, err := d.run(t.Context()); err == nil || !strings.Contains(err.Error(), "no such table: orders") {
			t.Errorf("got %v, want the reason", err)
		}
	})
	t.Run("when a worker ends by itself", func(t *testing.T) {
		d := newTestDemo(t, func(d *demo) {
			if err := d.fleet.all()[0].cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		})
		if _, err := d.run(t.Context()); err == nil || !strings.Contains(err.Error(), "worker-1 ended: signal: killed, see worker-1.log") {
			t.Errorf("got %v, want the worker named", err)
		}
	})
}

func TestRunRemoves(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	out := &buffer{written: cancel}
	_, err := Run(ctx, Config{Out: out, Spread: time.Hour, Remove: true})
	if !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v, want %v", err, ErrInterrupted)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("got %v left among the temporary files, want nothing", left)
	}
}

// The mail service and the customers are the same for the same seed.
func TestSeed(t *testing.T) {
	s1, _ := newTestShop(t)
	s2, _ := newTestShop(t)
	var ids [2][]int64
	for i, s := range []*shop{s1, s2} {
		sales := &sales{shop: s, wanted: 60, random: seeded(5)}
		if err := sales.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		ids[i] = sales.declined
		wantBooks(t, s, 60, 0, 62)
	}
	a, err1 := s1.findOrder(t.Context(), 60)
	b, err2 := s2.findOrder(t.Context(), 60)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	// Of 63 orders every 25th, from the 12th on, is declined.
	if a != b || len(ids[0]) != 3 || fmt.Sprint(ids[0]) != fmt.Sprint(ids[1]) {
		t.Errorf("got %v and %v, %v and %v; want the same twice", a, b, ids[0], ids[1])
	}
}

// buffer is an output for several goroutines.
type buffer struct {
	written func()

	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written != nil {
		b.written()
	}
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

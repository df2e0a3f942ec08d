package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

func TestPostgres(t *testing.T) {
	ctx := context.Background()
	url := testdb.Own(t, nil).URL()
	conn := connection(t, url)

	// A user's own jobs are in the same database.
	users, err := postgres.Open(ctx, url, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	if err := users.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := users.Enqueue(ctx, later.RawArgs{JobKind: "bench.0", Payload: json.RawMessage(`{}`)}, later.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	const everything = `select array_agg(format('%s %s %s', relnamespace::regnamespace, relname, relfilenode) order by relnamespace, relname) from pg_class where relnamespace <> 'pg_catalog'::regnamespace and relnamespace <> 'pg_toast'::regnamespace`
	before := value[[]string](t, conn, everything)

	cfg := small(url)
	heldDuring := map[Phase]bool{}
	cfg.Progress = func(s Step) {
		if s.Phase == "" || s.Result != nil {
			return
		}
		// Only a snapshot that is held has an xmin beside the statement that asks.
		heldDuring[s.Phase] = value[bool](t, conn, `select exists (select from pg_stat_activity where backend_xmin is not null and application_name = $1)`, snapshotName)
		if value[bool](t, conn, `select exists (select from pg_stat_activity where backend_xmin is not null and application_name in ($1, $2))`, guardName, probeName) {
			t.Fatalf("%s: a connection of the benchmark itself holds back vacuum", s.Phase)
		}
	}
	r, err := Run(ctx, cfg)
	checkReport(t, cfg, r, err)

	t.Run("holds a snapshot from the second drain on, and only then", func(t *testing.T) {
		for phase, want := range map[Phase]bool{Bulk: false, Drain: false, DrainHeld: true, Singles: true, Steady: true, Trickle: true} {
			if got, seen := heldDuring[phase]; got != want || !seen {
				t.Errorf("%s: got %v, want %v", phase, got, want)
			}
		}
		if n := r.Phase(DrainHeld).Cost.DeadRows; n == nil || *n < int64(cfg.Jobs) {
			t.Errorf("got %v dead rows, want those of all jobs: no vacuum can take them", n)
		}
	})
	t.Run("counts on the server", func(t *testing.T) {
		for _, p := range r.Phases {
			c := p.Cost
			if c.ServerCPU == nil || c.WAL == nil || c.Commits == nil || c.FullPages == nil || c.DeadRows == nil || c.Vacuums == nil || c.TableSize == nil || c.Others == nil {
				t.Fatalf("%s: got %+v, want all to be known", p.Name, c)
			}
			if c.Written != nil || c.WALFile != nil {
				t.Errorf("%s: got %+v, want nothing of SQLite", p.Name, c)
			}
			if *c.WAL < float64(cfg.Payload) && (p.Name == Bulk || p.Name == Singles) {
				t.Errorf("%s: got %v bytes of WAL a job, want more than the payload", p.Name, *c.WAL)
			}
			if *c.Others > othersLimit {
				t.Errorf("%s: got %d rows of others, want nearly none", p.Name, *c.Others)
			}
		}
		for _, name := range []Phase{Drain, DrainHeld} {
			c := r.Phase(name).Cost
			if c.HOT == nil || *c.HOT < 0.99 || *c.HOT > 1 {
				t.Errorf("%s: got a HOT share of %v", name, c.HOT)
			}
			if *c.ServerCPU <= 0 || *c.Commits <= 0 || *c.Commits > 1 {
				t.Errorf("%s: got %v µs, %v commits a job", name, *c.ServerCPU, *c.Commits)
			}
		}
		// 2000 jobs in calls of 300 are 7 commits, and a few for the counters.
		if got := *r.Phase(Bulk).Cost.Commits * float64(cfg.Jobs); got < 7 || got > 40 {
			t.Errorf("got %v commits in bulk, want 7 and a few", got)
		}
	})
	t.Run("describes the server", func(t *testing.T) {
		s := r.Server
		if r.Database != "postgres" || !strings.HasPrefix(s.Version, "1") || !s.Local || s.Pooler != poolerNone || s.RoundTripUS == nil || s.Settings["synchronous_commit"] != "on" {
			t.Errorf("got %+v", r)
		}
		if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "FSYNC IS OFF") }) {
			t.Errorf("got the warnings %q, want one about fsync", r.Warnings)
		}
	})
	t.Run("touches nothing else", func(t *testing.T) {
		if after := value[[]string](t, conn, everything); !slices.Equal(before, after) {
			t.Errorf("got %q, want %q", after, before)
		}
		if n := value[int](t, conn, "select count(*) from later.job where attempt = 0 and lease_until is null"); n != 10 {
			t.Errorf("got %d of the user's jobs untouched, want 10", n)
		}
	})
}

func TestPooler(t *testing.T) {
	cfg := small(testdb.PgBouncer(t))
	r, err := Run(context.Background(), cfg)
	checkReport(t, cfg, r, err)
	if r.Server.Pooler != poolerTransaction {
		t.Errorf("got the pooler %q, want %q", r.Server.Pooler, poolerTransaction)
	}
	for _, p := range r.Phases {
		if c := p.Cost; c.Commits != nil || c.HOT != nil || c.DeadRows != nil || c.WAL == nil {
			t.Errorf("%s: got %+v, want WAL and not what is counted too late", p.Name, c)
		}
	}
	if schemaExists(t, connection(t, cfg.URL), r.Place) {
		t.Errorf("%s is still there", r.Place)
	}
	t.Run("its run is known to go on, until the latest time that it may take", func(t *testing.T) {
		ctx := context.Background()
		for timeout, inUse := range map[time.Duration]bool{time.Minute: true, -removeTimeout - time.Second: false} {
			cfg := small(cfg.URL)
			cfg.Timeout = timeout
			p, err := enterPostgres(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			left, err := schemasLeft(ctx, connection(t, cfg.URL), "")
			if err := errors.Join(err, p.leave(ctx)); err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(left, func(l Leftover) bool { return l.Name == p.(*postgresPlace).schema })
			if at < 0 || left[at].InUse != inUse {
				t.Errorf("after %v: got %+v, want in use: %v", timeout, left, inUse)
			}
		}
	})
}

func TestPostgresRefuses(t *testing.T) {
	ctx := context.Background()
	server := testdb.Own(t, nil)
	conn := connection(t, server.URL())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(url, want string) {
		t.Helper()
		r, err := Run(ctx, small(url))
		if !errors.Is(err, ErrRefused) || r != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %+v, %v, want ErrRefused with %q", r, err, want)
		}
	}
	exec("create role guest login")
	guest := strings.Replace(server.URL(), "postgres@", "guest@", 1)
	refused(guest, `may not create a schema in the database postgres; an owner can allow it with: grant create on database "postgres" to "guest"`)
	exec("alter role guest set default_transaction_read_only = on")
	refused(guest, "read-only")
	t.Run("but not what an ordinary user may do", func(t *testing.T) {
		exec("alter role guest reset default_transaction_read_only")
		exec("grant create on database postgres to guest")
		cfg := small(guest)
		cfg.Phases, cfg.HoldSnapshot = []Phase{Drain}, false
		r, err := Run(ctx, cfg)
		if err != nil || !r.Removed || r.Phase(Drain).Cost.Commits == nil {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("a standby", func(t *testing.T) {
		if err := server.Stop("fast"); err != nil {
			t.Fatal(err)
		}
		// Without anything to follow it is a standby for ever.
		if err := os.WriteFile(filepath.Join(server.Dir(), "data", "standby.signal"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
		refused(server.URL(), "is a standby")
	})
}

// A server that goes away ends the run; nobody waits for its return.
func TestServerGoesAway(t *testing.T) {
	server := testdb.Own(t, nil)
	cfg := small(server.URL())
	cfg.Jobs, cfg.Concurrency, cfg.Workers = 20_000, 1, 1
	cfg.Progress = func(s Step) {
		if s.Phase == Drain && s.Done > 0 && s.Result == nil {
			if err := server.Stop("immediate"); err != nil {
				t.Error(err)
			}
		}
	}
	r, err := Run(context.Background(), cfg)
	if !errors.Is(err, later.ErrUnavailable) || errors.Is(err, ErrTimeout) || r == nil || r.Complete || r.Removed || r.Phase(Bulk) == nil {
		t.Fatalf("got %+v, %v, want ErrUnavailable and a report of what was measured", r, err)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "later bench --clean") }) {
		t.Errorf("got the warnings %q, want what is to be done about the schema", r.Warnings)
	}
}

// What a killed run has left is named by the next one, and can be removed: it, and
// nothing else.
func TestPostgresLeftovers(t *testing.T) {
	ctx := context.Background()
	url := testdb.Own(t, nil).URL()
	conn := connection(t, url)
	cfg, err := small(url).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *postgresPlace {
		p, err := enterPostgres(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return p.(*postgresPlace)
	}
	killed, running := begin(), begin()
	killed.close(ctx)
	const users = "later_bench_abcdefghijkl"
	if _, err := conn.Exec(ctx, "create schema "+users); err != nil {
		t.Fatal(err)
	}

	r := newReport(cfg)
	third := begin()
	if err := third.describe(ctx, r); err != nil {
		t.Fatal(err)
	}
	if err := third.leave(ctx); err != nil {
		t.Fatal(err)
	}
	byName := map[string]Leftover{}
	for _, l := range r.Leftovers {
		byName[l.Name] = l
	}
	if len(byName) != 2 || byName[killed.schema].InUse || byName[killed.schema].Bytes == 0 || !byName[running.schema].InUse {
		t.Errorf("got %+v, want %s, and %s in use", r.Leftovers, killed.schema, running.schema)
	}

	t.Run("not by a role that has not the rights of the owner", func(t *testing.T) {
		if _, err := conn.Exec(ctx, "create role guest login"); err != nil {
			t.Fatal(err)
		}
		left, err := Clean(ctx, strings.Replace(url, "postgres@", "guest@", 1))
		if err != nil || len(left) != 2 || !left[0].Foreign || left[0].Owner != "postgres" {
			t.Errorf("got %+v, %v, want both as foreign", left, err)
		}
		if !schemaExists(t, conn, killed.schema) {
			t.Errorf("schema %s is gone", killed.schema)
		}
	})
	t.Run("but by one that has them", func(t *testing.T) {
		for _, sql := range []string{"create role owner", "create role member login in role owner", "alter schema " + killed.schema + " owner to owner"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
		// What is in it belongs to somebody else, and goes with it.
		if left, err := Clean(ctx, strings.Replace(url, "postgres@", "member@", 1)); err != nil || len(left) != 2 {
			t.Errorf("got %+v, %v, want both", left, err)
		}
	})
	for schema, want := range map[string]bool{killed.schema: false, running.schema: true, users: true, third.schema: false} {
		if got := schemaExists(t, conn, schema); got != want {
			t.Errorf("schema %s is there: %v, want %v", schema, got, want)
		}
	}
	if err := running.leave(ctx); err != nil {
		t.Error(err)
	}
}

// No error of a run shows the password.
func TestPasswordIsNotShown(t *testing.T) {
	const secret = "hush123"
	_, err := Run(context.Background(), small("postgres://bob:"+secret+"@127.0.0.1:1/db"))
	if !errors.Is(err, later.ErrUnavailable) || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v, want ErrUnavailable without the password", err)
	}
	url := strings.Replace(testdb.Postgres(t), "postgres@", "postgres:"+secret+"@", 1)
	cfg := small(url)
	cfg.Phases, cfg.HoldSnapshot, cfg.Backlog = []Phase{Bulk}, false, 0
	r, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), secret) {
		t.Errorf("got %s, %v, want no password", text, err)
	}
}

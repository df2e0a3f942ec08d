package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
	"github.com/later-queue/later/storetest"
)

// db is a store and a way around it.
type db struct {
	*postgres.Store
	t      *testing.T
	url    string
	schema string
	conn   *pgx.Conn
}

// open returns a store in a schema of its own on the shared server.
func open(t *testing.T, config postgres.Config) *db {
	t.Helper()
	return openAt(t, testdb.Postgres(t), config)
}

// openAt is [open] at an address of one's own.
func openAt(t *testing.T, url string, config postgres.Config) *db {
	t.Helper()
	d := connectAt(t, url, config)
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// connectAt is [openAt] without the tables.
func connectAt(t *testing.T, url string, config postgres.Config) *db {
	t.Helper()
	if config.Schema == "" {
		config.Schema = testdb.Schema(t, url)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	store, err := postgres.Open(t.Context(), url, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &db{Store: store, t: t, url: url, schema: config.Schema, conn: connect(t, url)}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func newPool(t *testing.T, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(cfg)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// do runs a statement of the person at the prompt.
func (d *db) do(statement string, args ...any) {
	d.t.Helper()
	if _, err := d.conn.Exec(d.t.Context(), statement, args...); err != nil {
		d.t.Fatalf("%s: %v", statement, err)
	}
}

// ask returns the one value of a query.
func ask[T any](d *db, query string, args ...any) T {
	d.t.Helper()
	var v T
	if err := d.conn.QueryRow(d.t.Context(), query, args...).Scan(&v); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	return v
}

func (d *db) table(name string) string { return pgx.Identifier{d.schema, name}.Sanitize() }

func work(payload string) later.RawArgs {
	return later.RawArgs{JobKind: "work", Payload: []byte(payload)}
}

func (d *db) enqueue(n int) []int64 {
	d.t.Helper()
	done, err := d.EnqueueMany(d.t.Context(), slices.Repeat([]later.Request{{Args: work(`{}`)}}, n))
	if err != nil {
		d.t.Fatal(err)
	}
	ids := make([]int64, n)
	for i := range done {
		ids[i] = done[i].ID
	}
	return ids
}

func claimOf(limit int) later.ClaimRequest {
	return later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: "default", Limit: limit}}, Limit: limit, Kinds: []string{"work"},
		Worker: "worker-1", Token: later.NewToken(), Lease: time.Hour,
	}
}

func (d *db) claim(limit int) []*later.Claimed {
	d.t.Helper()
	jobs, err := d.Claim(d.t.Context(), claimOf(limit))
	if err != nil {
		d.t.Fatal(err)
	}
	return jobs
}

// claimJust claims and fails unless it gets n jobs.
func (d *db) claimJust(n int) []*later.Claimed {
	d.t.Helper()
	jobs := d.claim(n + 1)
	if len(jobs) != n {
		d.t.Fatalf("Claim: got %d jobs, want %d", len(jobs), n)
	}
	return jobs
}

func settlements(outcome later.Outcome, jobs ...*later.Claimed) []later.Settlement {
	ends := make([]later.Settlement, len(jobs))
	for i, c := range jobs {
		ends[i] = later.Settlement{Lease: c.Lease, Outcome: outcome}
	}
	return ends
}

// settle fails unless all are accepted.
func (d *db) settle(outcome later.Outcome, jobs ...*later.Claimed) {
	d.t.Helper()
	if refused, err := d.Settle(d.t.Context(), settlements(outcome, jobs...)); err != nil || len(refused) > 0 {
		d.t.Fatalf("Settle: got %v, %v, want all accepted", refused, err)
	}
}

func (d *db) find(id int64) *later.JobInfo {
	d.t.Helper()
	info, err := d.Find(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	return info
}

// eventually asks until done says so.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("gave up waiting until %s", what)
		}
	}
}

// shelf keeps schemas for a suite: making one takes longer than most of its tests.
type shelf struct {
	t    *testing.T
	url  string
	free []string
}

// newShelf returns an empty one; its schemas are dropped when t has ended.
func newShelf(t *testing.T, url string) *shelf { return &shelf{t: t, url: url} }

// open returns an empty store, for tests that do not run in parallel.
func (s *shelf) open(t *testing.T) *db {
	t.Helper()
	if len(s.free) == 0 {
		s.free = append(s.free, testdb.Schema(s.t, s.url))
	}
	schema := s.free[0]
	s.free = s.free[1:]
	d := openAt(t, s.url, postgres.Config{Schema: schema})
	d.do(fmt.Sprintf("truncate %s, %s, %s, %s, %s, %s, %s", d.table("job"), d.table("dead_job"), d.table("job_log"), d.table("worker"), d.table("key_window"), d.table("gate"), d.table("gate_state")))
	t.Cleanup(func() { s.free = append(s.free, schema) })
	return d
}

func TestStore(t *testing.T) {
	shelf := newShelf(t, testdb.Postgres(t))
	storetest.Run(t, func(t *testing.T) later.Store { return shelf.open(t) })
}

func TestLimits(t *testing.T) {
	shelf := newShelf(t, testdb.Postgres(t))
	storetest.Limits(t, func(t *testing.T) (later.Store, func(*testing.T) later.Store) {
		d := shelf.open(t)
		return d, func(t *testing.T) later.Store { return openAt(t, d.url, postgres.Config{Schema: d.schema}) }
	})
}

func TestTenantsContract(t *testing.T) {
	shelf := newShelf(t, testdb.Postgres(t))
	storetest.RunTenants(t, func(t *testing.T) later.Store { return shelf.open(t) })
}

func TestStoreByHand(t *testing.T) {
	shelf := newShelf(t, testdb.Postgres(t))
	storetest.RunByHand(t, func(t *testing.T) (later.Store, storetest.Hand) {
		d := shelf.open(t)
		return d, storetest.Hand{
			Job: d.table("job"), DeadJob: d.table("dead_job"),
			Exec: func(ctx context.Context, statement string) error {
				_, err := d.conn.Exec(ctx, statement)
				return err
			},
		}
	})
}

// Cases 158, 161 and 206, and DoneTx, for each kind of transaction.
func TestStoreTx(t *testing.T) {
	shelf := newShelf(t, testdb.Postgres(t))
	t.Run("pgx", func(t *testing.T) {
		storetest.RunTx(t, func(t *testing.T) (later.Store, storetest.Tx[pgx.Tx]) {
			d := shelf.open(t)
			pool := newPool(t, d.url, nil)
			return d, storetest.Tx[pgx.Tx]{
				Begin:    pool.Begin,
				Commit:   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
				Rollback: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
				Exec: func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "select 1")
					return err
				},
				Enqueue: d.EnqueueTx, EnqueueMany: d.EnqueueManyTx, Done: d.DoneTx,
			}
		})
	})
	for _, driver := range []string{"pgx", "postgres"} { // the latter is lib/pq
		t.Run("database/sql with "+driver, func(t *testing.T) {
			storetest.RunTx(t, func(t *testing.T) (later.Store, storetest.Tx[*sql.Tx]) {
				d := shelf.open(t)
				pool, err := sql.Open(driver, d.url)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { pool.Close() })
				return d, storetest.Tx[*sql.Tx]{
					Begin:    func(ctx context.Context) (*sql.Tx, error) { return pool.BeginTx(ctx, nil) },
					Commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
					Rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
					Exec: func(ctx context.Context, tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, "select 1")
						return err
					},
					Enqueue: d.EnqueueSQLTx, EnqueueMany: d.EnqueueManySQLTx, Done: d.DoneSQLTx,
				}
			})
		})
	}
}

package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// The log says when it was noticed that an attempt was lost: nobody knows when it
// ended. When its lease did is in LostAt.
func TestLostAttemptInTheLog(t *testing.T) {
	for _, test := range []struct {
		name    string
		crashes int
		next    func(d *db) ([]*later.Claimed, error)
	}{
		{"by a claim", 0, func(d *db) ([]*later.Claimed, error) { return d.Claim(t.Context(), claimOf(1)) }},
		{"by a sweep", 1, func(d *db) ([]*later.Claimed, error) {
			return d.Sweep(t.Context(), later.SweepRequest{
				Limit: 1, Suspect: true, Queues: []string{"default"}, Kinds: []string{"work"}, Worker: "w", Token: later.NewToken(), Lease: time.Hour,
			})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := open(t, postgres.Config{})
			d.enqueue(1)
			d.claimJust(1)
			d.do("update "+d.table("job")+" set crashes = $1, claimed_at = now() - interval '3 hours', lease_until = now() - interval '2 hours'", test.crashes)
			jobs, err := test.next(d)
			if err != nil || len(jobs) != 1 {
				t.Fatalf("got %d jobs, %v, want the lost one", len(jobs), err)
			}
			if ago := time.Since(jobs[0].LostAt).Round(time.Hour); ago != 2*time.Hour {
				t.Errorf("LostAt is %v ago, want the end of the lease, two hours ago", ago)
			}
			const ages = `select round(extract(epoch from now() - finished_at) / 3600)::int, round(extract(epoch from now() - started_at) / 3600)::int from `
			var finished, started int
			if err := d.conn.QueryRow(t.Context(), ages+d.table("job_log")+" where outcome = 'lost'").Scan(&finished, &started); err != nil {
				t.Fatal(err)
			}
			if finished != 0 || started != 3 {
				t.Errorf("finished %d hours ago and started %d, want 0 and 3", finished, started)
			}
		})
	}
}

// Case 152: an application that has taken every connection of its pool cannot keep a
// worker from starting.
func TestCheckSchemaBesideAnExhaustedPool(t *testing.T) {
	d := open(t, postgres.Config{})
	pool := newPool(t, d.url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	store, err := postgres.New(pool, postgres.Config{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	taken, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := store.CheckSchema(ctx); err != nil {
		t.Error(err)
	}
}

// Whatever the driver, it says what to do.
func TestEnqueueWithoutTables(t *testing.T) {
	for _, driver := range []string{"pgx", "postgres"} { // the latter is lib/pq
		t.Run(driver, func(t *testing.T) {
			d := connectAt(t, testdb.Postgres(t), postgres.Config{})
			pool, err := sql.Open(driver, d.url)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			tx, err := pool.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := d.EnqueueSQLTx(t.Context(), tx, work(`{}`), later.Options{}); !errors.Is(err, later.ErrSchema) {
				t.Errorf("got %v, want %v", err, later.ErrSchema)
			}
		})
	}
}

// A worker that is killed may leave thousands of jobs that it had claimed ahead: each is
// told who lost it, and a claim of them is no other than of so many others. (With all lost
// leases in each row of the answer, this took 12 s.)
func TestManyLostAtOnce(t *testing.T) {
	const jobs = 4000
	d := open(t, postgres.Config{})
	d.enqueue(jobs)
	for _, worker := range []string{"a", "b"} {
		req := claimOf(jobs / 2)
		req.Worker = worker
		if claimed, err := d.Claim(t.Context(), req); err != nil || len(claimed) != jobs/2 {
			t.Fatalf("got %d jobs, %v", len(claimed), err)
		}
	}
	d.do("update " + d.table("job") + " set lease_until = now() - interval '1 hour'")
	claimed, err := d.Claim(t.Context(), claimOf(jobs))
	if err != nil || len(claimed) != jobs {
		t.Fatalf("got %d jobs, %v, want all that were lost", len(claimed), err)
	}
	lostBy := map[string]int{}
	for _, c := range claimed {
		lostBy[c.LostWorker]++
		if ago := c.Now.Sub(c.LostAt).Round(time.Minute); ago != time.Hour {
			t.Fatalf("job %d was lost %v ago, want an hour", c.ID, ago)
		}
	}
	if lostBy["a"] != jobs/2 || lostBy["b"] != jobs/2 {
		t.Errorf("lost by %v, want half by each", lostBy)
	}
	if n := ask[int](d, "select count(*)::int from "+d.table("job_log")+" where outcome = 'lost'"); n != jobs {
		t.Errorf("got %d rows of lost attempts in the log, want %d", n, jobs)
	}
}

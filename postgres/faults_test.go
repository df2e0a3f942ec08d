package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

// Cases 149 and 158: the line is cut between a commit and its answer. A statement on a
// direct connection is a transaction by itself, so its answer comes after its commit.
func TestCutAfterCommit(t *testing.T) {
	// start returns a store behind a proxy and the same store without one.
	start := func(t *testing.T) (p *proxy, behind *postgres.Store, d *db) {
		t.Helper()
		d = open(t, postgres.Config{})
		p, address := newProxy(t, d.url)
		behind, err := postgres.Open(t.Context(), address, postgres.Config{Schema: d.schema})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { behind.Close() })
		return p, behind, d
	}
	// unknown fails unless err says that nobody knows, after one cut.
	unknown := func(t *testing.T, p *proxy, err error) {
		t.Helper()
		if !errors.Is(err, later.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, later.ErrUnavailable)
		}
		if got := p.cutCount(); got != 1 {
			t.Fatalf("the line was cut %d times, want once", got)
		}
	}

	t.Run("an enqueue is stored once, and the library does not try again", func(t *testing.T) {
		p, behind, d := start(t)
		p.cutAfter("insert into")
		_, err := behind.Enqueue(t.Context(), work(`{}`), later.Options{})
		unknown(t, p, err)
		if got := ask[int](d, "select count(*) from "+d.table("job")); got != 1 {
			t.Errorf("got %d jobs, want 1", got)
		}
	})

	t.Run("a claim leaves its jobs to the next one when the lease has ended", func(t *testing.T) {
		p, behind, d := start(t)
		id := d.enqueue(1)[0]
		p.cutAfter("picked as materialized")
		req := claimOf(1)
		req.Lease = time.Millisecond
		_, err := behind.Claim(t.Context(), req)
		unknown(t, p, err)
		eventually(t, "the lease has ended", func() bool { return d.find(id).State == later.StateLost })
		jobs, err := behind.Claim(t.Context(), claimOf(1))
		if err != nil || len(jobs) != 1 || jobs[0].Crashes != 1 || jobs[0].Attempt != 2 {
			t.Errorf("got %v, %v, want the job, with one crash", jobs, err)
		}
	})

	for _, outcome := range []later.Outcome{later.OutcomeDone, later.OutcomeRetry, later.OutcomeDead, later.OutcomeSnoozed, later.OutcomeReleased} {
		t.Run("a settle that is repeated changes nothing more: "+string(outcome), func(t *testing.T) {
			p, behind, d := start(t)
			id := d.enqueue(1)[0]
			c := d.claimJust(1)[0]
			p.cutAfter("j.lease_token = ($2")
			_, err := behind.Settle(t.Context(), settlements(outcome, c))
			unknown(t, p, err)
			before := d.find(id)
			if before.State == later.StateRunning {
				t.Fatal("the settle was not committed")
			}
			refused, err := behind.Settle(t.Context(), settlements(outcome, c))
			if err != nil || len(refused) != 1 {
				t.Errorf("the second: got %v, %v, want it refused", refused, err)
			}
			after := d.find(id)
			if after.State != before.State || after.Attempt != before.Attempt || !after.RunAt.Equal(before.RunAt) || len(after.Log) != len(before.Log) {
				t.Errorf("got %+v, want %+v", after, before)
			}
		})
	}

	// Case 86: every third renewal fails.
	t.Run("a renewal that failed can be repeated, and the job runs on", func(t *testing.T) {
		p, behind, d := start(t)
		d.enqueue(1)
		c := d.claimJust(1)[0]
		for i := range 9 {
			switch i % 6 {
			case 2:
				p.cutBefore("renewed as (")
			case 5:
				p.cutAfter("renewed as (")
			}
			renewed, err := behind.Renew(t.Context(), []later.Lease{c.Lease}, time.Hour)
			if i%3 == 2 && !errors.Is(err, later.ErrUnavailable) || i%3 != 2 && err != nil || len(renewed.Lost) > 0 {
				t.Errorf("renewal %d: got %v, %v", i, renewed, err)
			}
		}
		d.settle(later.OutcomeDone, c)
	})

	t.Run("an operator's statement that is repeated changes nothing more", func(t *testing.T) {
		p, behind, d := start(t)
		id := d.enqueue(1)[0]
		d.settle(later.OutcomeDead, d.claimJust(1)[0])
		p.cutAfter("commit")
		unknown(t, p, behind.Retry(t.Context(), id))
		if err := behind.Retry(t.Context(), id); err != nil {
			t.Error(err)
		}
		if got := d.find(id); got.Generation != 1 || got.State != later.StateReady {
			t.Errorf("got %+v, want it retried once", got)
		}
	})
}

// Case 83: a lease is a row, and no session that can be lost.
func TestTerminatedSessions(t *testing.T) {
	d := open(t, postgres.Config{})
	store, err := postgres.Open(t.Context(), d.url+"&application_name="+d.schema, postgres.Config{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d.enqueue(1)
	jobs, err := store.Claim(t.Context(), claimOf(1))
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	if got := ask[int](d, "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1", d.schema); got == 0 {
		t.Fatal("no session was terminated")
	}
	eventually(t, "the sessions are gone", func() bool {
		return ask[int](d, "select count(*) from pg_stat_activity where application_name = $1", d.schema) == 0
	})
	if again := d.claim(1); len(again) != 0 {
		t.Fatal("the job was claimed a second time within its lease")
	}
	// What the first try meets is a dead connection; the next one dials.
	eventually(t, "the job is settled", func() bool {
		refused, err := store.Settle(t.Context(), settlements(later.OutcomeDone, jobs...))
		if err != nil && !errors.Is(err, later.ErrUnavailable) || len(refused) > 0 {
			t.Fatalf("got %v, %v", refused, err)
		}
		return err == nil
	})
}

// role makes a superuser with settings of its own, and returns the URL for it.
func (d *db) role(settings ...string) (name, url string) {
	d.t.Helper()
	name = "role_" + d.schema
	d.do("create role " + name + " superuser login")
	for _, setting := range settings {
		d.do("alter role " + name + " set " + setting)
	}
	d.t.Cleanup(func() {
		if _, err := d.conn.Exec(context.Background(), "drop role "+name); err != nil {
			d.t.Error(err)
		}
	})
	cfg := d.conn.Config()
	return name, fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", name, cfg.Host, cfg.Port, cfg.Database)
}

// Case 148: after a failover the connections lead to a read-only server. Here they are
// sessions whose transactions are read-only, and new ones are not.
func TestReadOnlyConnectionsAreDialledAgain(t *testing.T) {
	d := open(t, postgres.Config{})
	role, url := d.role("default_transaction_read_only = on")
	store, err := postgres.Open(t.Context(), url, postgres.Config{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d.enqueue(1)
	if _, err := store.Claim(t.Context(), claimOf(1)); !errors.Is(err, later.ErrUnavailable) {
		t.Fatalf("Claim: got %v, want %v", err, later.ErrUnavailable)
	}
	if _, err := store.Enqueue(t.Context(), work(`{}`), later.Options{}); !errors.Is(err, later.ErrUnavailable) {
		t.Fatalf("Enqueue: got %v, want %v", err, later.ErrUnavailable)
	}
	d.do("alter role " + role + " reset default_transaction_read_only")
	if jobs, err := store.Claim(t.Context(), claimOf(1)); err != nil || len(jobs) != 1 {
		t.Errorf("Claim, with the primary back: got %v, %v", jobs, err)
	}
	if _, err := store.Enqueue(t.Context(), work(`{}`), later.Options{}); err != nil {
		t.Errorf("Enqueue, with the primary back: got %v", err)
	}
}

// Case 151: nothing is left open between two calls, so a timeout for idle transactions
// meets none.
func TestNoTransactionStaysOpen(t *testing.T) {
	d := open(t, postgres.Config{})
	store, err := postgres.Open(t.Context(), d.url+"&idle_in_transaction_session_timeout=200&application_name="+d.schema, postgres.Config{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d.enqueue(3)
	idle := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		// The server shows a session's end of work a moment after its client has it.
		eventually(t, "all sessions are idle after "+what, func() bool {
			return ask[int](d, "select count(*) from pg_stat_activity where application_name = $1 and state <> 'idle'", d.schema) == 0
		})
	}
	jobs, err := store.Claim(t.Context(), claimOf(3))
	idle("Claim", err)
	_, err = store.Renew(t.Context(), []later.Lease{jobs[0].Lease}, time.Hour)
	idle("Renew", err)
	idle("Checkpoint", store.Checkpoint(t.Context(), jobs[0].Lease, []byte(`1`)))
	_, err = store.Settle(t.Context(), settlements(later.OutcomeDone, jobs[0]))
	idle("Settle", err)
	_, err = store.Settle(t.Context(), settlements("nonsense", jobs[1]))
	if err == nil {
		t.Error("Settle: a nonsense outcome was accepted")
	}
	if err := store.Checkpoint(t.Context(), jobs[1].Lease, []byte(`{`)); err == nil { // an SQL error
		t.Error("Checkpoint: nonsense was accepted")
	}
	idle("a failed statement", nil)
	_, err = store.Sweep(t.Context(), later.SweepRequest{Limit: 1, Suspect: true, Queues: []string{"default"}, Kinds: []string{"work"}, Worker: "w", Token: 1, Lease: time.Hour})
	idle("Sweep", err)
	idle("Maintain", store.Maintain(t.Context()))
	_, err = store.Cancel(t.Context(), jobs[1].ID)
	idle("Cancel", err)
	_, err = store.List(t.Context(), later.Filter{})
	idle("List", err)
}

// Case 152: the application has taken every connection.
func TestAnExhaustedPoolDoesNotStarveTheWorker(t *testing.T) {
	d := open(t, postgres.Config{})
	d.enqueue(2)
	pool := newPool(t, d.url, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	store, err := postgres.New(pool, postgres.Config{Schema: d.schema, PoolSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	taken, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Release()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // bounds a failing test
	defer cancel()
	jobs, err := store.Claim(ctx, claimOf(2))
	if err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
	if _, err := store.Renew(ctx, []later.Lease{jobs[0].Lease, jobs[1].Lease}, time.Hour); err != nil {
		t.Error(err)
	}
	if err := store.Checkpoint(ctx, jobs[0].Lease, []byte(`1`)); err != nil {
		t.Error(err)
	}
	if err := store.Beat(ctx, later.WorkerInfo{Name: "w"}); err != nil {
		t.Error(err)
	}
	if err := store.Maintain(ctx); err != nil {
		t.Error(err)
	}
	// A handler that enqueues uses the transaction that it has, or gets an error.
	tx, err := taken.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.EnqueueTx(ctx, tx, work(`{}`), later.Options{}); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Error(err)
	}
	soon, cancelSoon := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancelSoon()
	if _, err := store.Enqueue(soon, work(`{}`), later.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Enqueue without a connection: got %v, want %v", err, context.DeadlineExceeded)
	}
	if refused, err := store.Settle(ctx, settlements(later.OutcomeDone, jobs...)); err != nil || len(refused) > 0 {
		t.Error(refused, err)
	}
}

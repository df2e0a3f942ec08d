package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

// raise has the server fail the next n inserts into and deletes from a table with a
// code.
func (d *db) raise(table, code string, n int) {
	d.t.Helper()
	function, count := d.table("fails_"+code), d.table("count_"+code)
	d.do("create sequence " + count)
	d.do(fmt.Sprintf(`create function %s() returns trigger language plpgsql as $$
		begin
			if nextval('%s') <= %d then
				raise exception 'injected' using errcode = '%s';
			end if;
			return coalesce(new, old);
		end $$`, function, count, n, code))
	d.do(fmt.Sprintf(`create trigger fails before insert or delete on %s for each row execute function %s()`, d.table(table), function))
}

// Case 157: the settle loses three times, and is tried again by itself.
func TestAbortedStatementsAreTriedAgain(t *testing.T) {
	for _, code := range []string{"40P01", "40001", "55P03"} {
		for _, outcome := range []later.Outcome{later.OutcomeDone, later.OutcomeDead} {
			t.Run(code+" "+string(outcome), func(t *testing.T) {
				d := open(t, postgres.Config{})
				ids := d.enqueue(2)
				jobs := d.claimJust(2)
				d.raise("job", code, 3)
				d.settle(outcome, jobs...)
				if got := len(d.find(ids[0]).Log); got != 1 {
					t.Errorf("got %d log entries, want 1", got)
				}
			})
		}
	}

	t.Run("what never succeeds is unavailable", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.enqueue(1)
		jobs := d.claimJust(1)
		d.raise("job", "40P01", 1_000_000)
		if _, err := d.Settle(t.Context(), settlements(later.OutcomeDone, jobs...)); !errors.Is(err, later.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, later.ErrUnavailable)
		}
	})

	t.Run("two sessions in a deadlock", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.enqueue(2)
		jobs := d.claimJust(2)
		// The other session never gives up, so it is the settle that is aborted.
		d.do("begin")
		d.do("set local deadlock_timeout = '1h'")
		d.do(fmt.Sprintf("update %s set tenant = 'x' where id = $1", d.table("job")), jobs[1].ID)
		settled := make(chan error, 1)
		go func() {
			refused, err := d.Settle(t.Context(), settlements(later.OutcomeDone, jobs...))
			if err == nil && len(refused) > 0 {
				err = fmt.Errorf("refused: %v", refused)
			}
			settled <- err
		}()
		watch := &db{t: t, conn: connect(t, d.url)}
		eventually(t, "the settle waits", func() bool {
			return ask[bool](watch, "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query like '%' || $1 || '%')", d.schema)
		})
		d.do(fmt.Sprintf("update %s set tenant = 'x' where id = $1", d.table("job")), jobs[0].ID)
		d.do("commit")
		if err := <-settled; err != nil {
			t.Errorf("Settle: %v", err)
		}
		if got := ask[int](d, "select count(*) from "+d.table("job")); got != 0 {
			t.Errorf("got %d jobs left, want 0", got)
		}
	})
}

// Case 155: no space left.
func TestDiskFull(t *testing.T) {
	d := open(t, postgres.Config{})
	d.enqueue(1)
	jobs := d.claimJust(1)
	d.raise("job", "53100", 2)
	if _, err := d.Enqueue(t.Context(), work(`{}`), later.Options{}); !errors.Is(err, later.ErrFull) {
		t.Errorf("Enqueue: got %v, want %v", err, later.ErrFull)
	}
	if _, err := d.Settle(t.Context(), settlements(later.OutcomeDone, jobs...)); !errors.Is(err, later.ErrFull) {
		t.Errorf("Settle: got %v, want %v", err, later.ErrFull)
	}
	d.settle(later.OutcomeDone, jobs...) // there is space again
}

// The handler of one job settles it in a transaction that takes its time; the leases of
// the others are renewed meanwhile, and that of the job is not called lost.
func TestRenewDoesNotWaitForDoneTx(t *testing.T) {
	d := open(t, postgres.Config{})
	d.enqueue(2)
	jobs := d.claimJust(2)
	before := d.find(jobs[1].ID).LeaseUntil
	tx, err := d.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.DoneTx(t.Context(), tx, jobs[0]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // bounds a failing test
	defer cancel()
	renewed, err := d.Renew(ctx, []later.Lease{jobs[0].Lease, jobs[1].Lease}, 2*time.Hour)
	if err != nil || len(renewed.Lost) > 0 {
		t.Errorf("Renew: got %v, %v, want none lost", renewed, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := d.find(jobs[1].ID).LeaseUntil; !after.After(before.Add(50 * time.Minute)) {
		t.Errorf("the other lease ends %v, want it renewed from %v", after, before)
	}
	if renewed, err := d.Renew(ctx, []later.Lease{jobs[0].Lease}, time.Hour); err != nil || len(renewed.Lost) != 1 {
		t.Errorf("Renew of the settled job: got %v, %v, want it lost", renewed, err)
	}
}

package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// A claim, a renewal and a release write no index entry: they are HOT, and the
// pages have the room for it.
func TestClaimsAreHot(t *testing.T) {
	const jobs = 5000
	// A database of its own, because whoever holds a snapshot in it, as some tests do, keeps the
	// first versions of rows on their pages.
	owner, _, _ := testdb.Database(t, testdb.Postgres(t))
	d := openAt(t, owner, postgres.Config{})
	requests := make([]later.Request, jobs)
	for i := range requests {
		// 110 bytes, as in the measurements of docs/decisions.
		requests[i].Args = work(fmt.Sprintf(`{"order_id": %d, "text": "%080d"}`, 10_000_000+i, i))
	}
	if _, err := d.EnqueueMany(t.Context(), requests); err != nil {
		t.Fatal(err)
	}

	// Whoever holds a snapshot keeps the first versions on their pages; an ANALYZE
	// that happens to run does. What counts here is the room when nobody does.
	d.do(fmt.Sprintf(`alter table %s set (autovacuum_enabled = off)`, d.table("job")))

	updates := int64(0)
	for range jobs / 100 {
		req := claimOf(100)
		req.Worker = "worker-7d9f8c6b5-x2x9q-12345-k3jd82jd"
		claimed, err := d.Claim(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed) != 100 {
			t.Fatalf("Claim: got %d jobs, want 100", len(claimed))
		}
		leases := make([]later.Lease, len(claimed))
		for i, c := range claimed {
			leases[i] = c.Lease
		}
		if _, err := d.Renew(t.Context(), leases, time.Hour); err != nil {
			t.Fatal(err)
		}
		d.settle(later.OutcomeReleased, claimed[:5]...) // these are claimed once more
		d.settle(later.OutcomeDone, claimed[5:]...)
		updates += 205
	}

	if err := d.Close(); err != nil { // a session reports its counts when it ends
		t.Fatal(err)
	}
	var all, hot int64
	eventually(t, "the server has counted", func() bool {
		d.do(`select pg_stat_clear_snapshot()`)
		err := d.conn.QueryRow(t.Context(), `select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relid = $1::regclass`, d.table("job")).Scan(&all, &hot)
		if err != nil {
			t.Fatal(err)
		}
		return all >= updates
	})
	if share := float64(hot) / float64(all); share < 0.99 {
		t.Errorf("got %d of %d updates HOT (%.1f%%), want at least 99%%", hot, all, 100*share)
	}
}

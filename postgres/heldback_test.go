package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
)

// Case 125: what a claim reads does not depend on how many jobs a full tenant has in front of the
// others' jobs.
func TestFullTenantIsPassedOver(t *testing.T) {
	const claims = 20
	read := map[int]int64{} // blocks for all claims, by how many jobs are held back
	for _, jobs := range []int{1_000, 100_000} {
		s, conn := planStore(t)
		execute(t, s, conn, `alter table {schema}.job set (autovacuum_enabled = false)`) // it would be counted as well
		// What a connection has read the server counts when it leaves, at the latest. So none stays but conn.
		s.Close()
		beside(t, s, conn, func(made *Store) {
			if err := made.SetLimit(t.Context(), later.Scope{Of: later.ScopeTenant, Name: "full"}, later.Limit{MaxRunning: new(1)}, "test"); err != nil {
				t.Fatal(err)
			}
			exec := func(sql string, args ...any) {
				t.Helper()
				if _, err := made.pool.Exec(t.Context(), made.sql(sql), args...); err != nil {
					t.Fatal(err)
				}
			}
			exec(`insert into {schema}.job (kind, tenant) values ('work', 'full')`)
			if got, err := made.Claim(t.Context(), claimRequest(10)); err != nil || len(got) != 1 {
				t.Fatalf("got %d jobs, %v, want the only one", len(got), err)
			}
			exec(`insert into {schema}.job (kind, tenant) select 'work', 'full' from generate_series(1, $1)`, jobs)
			exec(`insert into {schema}.job (kind, tenant) select 'work', 'other' from generate_series(1, 20)`)
			exec(`vacuum analyze {schema}.job`)
		})
		before := blocks(t, conn)
		beside(t, s, conn, func(counted *Store) {
			for range claims {
				got, err := counted.Claim(t.Context(), claimRequest(1))
				if err != nil || len(got) != 1 || got[0].Tenant != "other" {
					t.Fatalf("got %d jobs, %v, want one of the other tenant", len(got), err)
				}
			}
		})
		read[jobs] = blocks(t, conn) - before
	}
	t.Logf("blocks read by %d claims: %v", claims, read)
	// A deeper index costs a block for each descent.
	if few, many := read[1_000], read[100_000]; many > few*3/2 || few < claims {
		t.Errorf("got %d blocks beside 100,000 jobs that are held back and %d beside 1,000, want about the same", many, few)
	}
}

// beside runs what a process of its own does, and waits until no connection but conn is left.
func beside(t *testing.T, s *Store, conn *pgx.Conn, run func(*Store)) {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), s.pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	other, err := New(pool, s.config)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	run(other)
	other.Close()
	pool.Close()
	deadline := time.Now().Add(10 * time.Second)
	for left := 1; left > 0; pause(t.Context(), 5*time.Millisecond) {
		err := conn.QueryRow(t.Context(), `
			select count(*) from pg_stat_activity
			where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`).Scan(&left)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d connections stay: %v", left, err)
		}
	}
}

// blocks is how many blocks of the database have been read.
func blocks(t *testing.T, conn *pgx.Conn) (n int64) {
	t.Helper()
	err := conn.QueryRow(t.Context(), `select blks_hit + blks_read from pg_stat_database where datname = current_database()`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

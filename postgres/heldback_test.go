package postgres

import (
	"testing"
	"time"

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
		if err := s.SetLimit(t.Context(), later.Scope{Of: later.ScopeTenant, Name: "full"}, later.Limit{MaxRunning: new(1)}, "test"); err != nil {
			t.Fatal(err)
		}
		execute(t, s, conn, `insert into {schema}.job (kind, tenant) values ('work', 'full')`)
		if got, err := s.Claim(t.Context(), claimRequest(10)); err != nil || len(got) != 1 {
			t.Fatalf("got %d jobs, %v, want the only one", len(got), err)
		}
		if _, err := conn.Exec(t.Context(), s.sql(`
			insert into {schema}.job (kind, tenant) select 'work', 'full' from generate_series(1, $1)`), jobs); err != nil {
			t.Fatal(err)
		}
		execute(t, s, conn, `insert into {schema}.job (kind, tenant) select 'work', 'other' from generate_series(1, 20)`)
		execute(t, s, conn, `vacuum analyze {schema}.job`)

		// A process of its own, of which the server counts what it has read when it leaves.
		config := s.pool.Config()
		config.ConnConfig.RuntimeParams["application_name"] = "counted"
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		counted, err := New(pool, s.config)
		if err != nil {
			t.Fatal(err)
		}
		const blocks = `select blks_hit + blks_read from pg_stat_database where datname = current_database()`
		var before, after int64
		if err := conn.QueryRow(t.Context(), blocks).Scan(&before); err != nil {
			t.Fatal(err)
		}
		for range claims {
			got, err := counted.Claim(t.Context(), claimRequest(1))
			if err != nil || len(got) != 1 || got[0].Tenant != "other" {
				t.Fatalf("got %d jobs, %v, want one of the other tenant", len(got), err)
			}
		}
		counted.Close()
		pool.Close()
		deadline := time.Now().Add(10 * time.Second)
		for left := 1; left > 0; pause(t.Context(), 5*time.Millisecond) {
			err := conn.QueryRow(t.Context(), `select count(*) from pg_stat_activity where application_name = 'counted' and datname = current_database()`).Scan(&left)
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("%d connections stay: %v", left, err)
			}
		}
		if err := conn.QueryRow(t.Context(), blocks).Scan(&after); err != nil {
			t.Fatal(err)
		}
		read[jobs] = after - before
	}
	t.Logf("blocks read by %d claims: %v", claims, read)
	// A deeper index costs a block for each descent.
	if few, many := read[1_000], read[100_000]; many > few*3/2 || few < claims {
		t.Errorf("got %d blocks beside 100,000 jobs that are held back and %d beside 1,000, want about the same", many, few)
	}
}

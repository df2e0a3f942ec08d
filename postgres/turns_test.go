package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// What storetest does not see: that turns are taken only where there are tenants.
func TestTenantsTakeTurns(t *testing.T) {
	t.Run("claims of a queue with tenants rotate, and those of one that has none any more are quick again", func(t *testing.T) {
		s, conn := planStore(t)
		execute(t, s, conn, `insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i % 3 from generate_series(1, 30) i`)
		if got := len(claimSome(t, s, 30)); got != 30 {
			t.Fatalf("got %d jobs, want 30", got)
		}
		if s.rotations.none(claimRequest(1)) {
			t.Error("tenants are not remembered")
		}
		execute(t, s, conn, `delete from {schema}.job`)
		now := time.Now()
		s.rotations.now = func() time.Time { return now }
		for range 20 { // a look that a busy machine makes slow does not count
			now = now.Add(time.Minute)
			claimSome(t, s, 5)
			if s.rotations.none(claimRequest(1)) {
				return
			}
		}
		t.Error("a queue without tenants still has them take turns")
	})

	t.Run("a tenant's job is found beside a queue full of jobs that have none", func(t *testing.T) {
		s, conn := planStore(t)
		execute(t, s, conn, `
			insert into {schema}.job (kind) select 'work' from generate_series(1, 2000);
			insert into {schema}.job (kind, tenant) values ('work', 'acme')`)
		for range 4 {
			for _, job := range claimSome(t, s, 100) {
				if job.Tenant == "acme" {
					return
				}
			}
		}
		t.Error("after four claims the tenant has had no turn")
	})

	t.Run("a claim of many jobs of many tenants gives all about as many", func(t *testing.T) {
		s, conn := planStore(t)
		execute(t, s, conn, `insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i % 1000 from generate_series(1, 10000) i`)
		tenants := map[string]int{}
		claimSome(t, s, 1)
		for range 20 {
			jobs := claimSome(t, s, 500)
			if len(jobs) != 500 {
				t.Fatalf("got %d jobs, want 500", len(jobs))
			}
			for _, job := range jobs {
				tenants[job.Tenant]++
			}
			if len(tenants) == 1000 {
				break
			}
		}
		least, most := 10, 0
		for _, n := range tenants {
			least, most = min(least, n), max(most, n)
		}
		if len(tenants) != 1000 || most-least > 6 {
			t.Errorf("got %d tenants with %d to %d jobs each, want all 1000 with about as many", len(tenants), least, most)
		}
	})

	t.Run("levels and tenants together keep their order", func(t *testing.T) {
		s, conn := planStore(t)
		execute(t, s, conn, `
			insert into {schema}.job (kind, tenant, priority)
			select 'work', t, p from generate_series(1, 3), unnest(array['', 'a', 'b', 'c']) t, unnest(array[-1, 0, 7]) p`)
		var got []string
		for range 4 {
			for _, job := range claimSome(t, s, 9) {
				got = append(got, fmt.Sprintf("%d", job.Priority))
			}
		}
		for i, p := range got {
			if want := []string{"-1", "0", "7"}[i/12]; p != want {
				t.Fatalf("job %d: got priority %s, want %s: %v", i, p, want, got)
			}
		}
		if len(got) != 36 {
			t.Errorf("got %d jobs, want 36", len(got))
		}
	})
}

// While a transaction holds an old snapshot, finished jobs stay in the way, and so do
// finished tenants. No job is missed for it, none is had twice, and new tenants are found.
func TestTenantsUnderAHeldSnapshot(t *testing.T) {
	first, conn := planStore(t)
	second, err := New(first.pool, first.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Close() })
	execute(t, first, conn, `insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i % 30 from generate_series(1, 60000) i`)
	execute(t, first, connect(t, first), "begin isolation level repeatable read; select count(*) from {schema}.job")

	total, seen, marked := 60_000, map[int64]bool{}, false
	deadline := time.Now().Add(3 * time.Minute)
	for turn := 0; len(seen) < total; turn++ {
		if time.Now().After(deadline) {
			t.Fatalf("got %d of %d jobs", len(seen), total)
		}
		s := first
		if turn%3 == 0 {
			s = second
		}
		if turn%20 == 0 && total < 60_500 {
			execute(t, first, conn, fmt.Sprintf("insert into {schema}.job (kind, tenant) select 'work', 'new_%d_' || i from generate_series(1, 25) i", turn))
			total += 25
		}
		jobs := claimSome(t, s, 500)
		ends := make([]later.Settlement, len(jobs))
		for i, job := range jobs {
			if seen[job.ID] {
				t.Fatalf("job %d was claimed twice", job.ID)
			}
			seen[job.ID] = true
			ends[i] = later.Settlement{Lease: job.Lease, Outcome: later.OutcomeDone}
			if i%100 == 99 { // some come back, behind the mark
				ends[i].Outcome = later.OutcomeReleased
				delete(seen, job.ID)
			}
		}
		if refused, err := s.Settle(t.Context(), ends); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		marked = marked || !s.rotations.begin(claimRequest(5))[0].head
	}
	if !marked {
		t.Error("no marks were kept: the test shows nothing")
	}
}

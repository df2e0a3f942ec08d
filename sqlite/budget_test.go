package sqlite

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

// A claim for few bytes reads the payloads that it gives and no others, whichever way it goes.
func TestClaimOfFewBytes(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		tenants   int
		kinds     []string
		limited   bool
	}{
		{"of one tenant", 1, []string{"work"}, false},
		{"of two kinds", 1, []string{"work", "more"}, false},
		{"of several tenants", 5, []string{"work"}, false},
		{"under a limit", 5, []string{"work"}, true},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			s, _ := openFile(t)
			if c.limited {
				limit(t, s, later.ScopeTenants, "", atMost(100))
			}
			_, err := s.DB().ExecContext(t.Context(), `
with recursive n (i) as (select 1 union all select i + 1 from n where i < 60)
insert into later_job (kind, tenant, run_at, created_at, payload)
select iif(i % ?1 = 0, 'work', 'more'), 'tenant-' || (i % ?2), 1000, 1000, '"' || printf('%.*c', 400000, 'x') || '"' from n`, len(c.kinds), c.tenants)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first one reads the schema
				before := writerPages(t, s)
				list, err := s.Claim(t.Context(), later.ClaimRequest{
					Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: 50}}, Limit: 50, Kinds: c.kinds,
					Worker: "worker-1", Token: later.NewToken(), Lease: time.Hour, MaxBytes: 400_001 + 1,
				})
				if err != nil || len(list) != 1 {
					t.Fatalf("claimed %d jobs, %v, want one", len(list), err)
				}
				// A payload has 98 pages.
				if got := writerPages(t, s) - before; got < 98 || got > 700 {
					t.Errorf("%d pages for one payload, want 98 to 700", got)
				}
			}
		})
	}
}

package postgres

import (
	"testing"

	"github.com/later-queue/later"
)

// null is a parameter of explain.
type null struct{}

func (null) String() string { return "null" }

// Case 125: a page of tenants costs what it shows, and not what waits.
func TestTenantPlans(t *testing.T) {
	for _, test := range []struct {
		name string
		load string
		most int // pages read
	}{
		// 20 lanes of 20 jobs, a probe for each and for each one's successor.
		{"200,000 jobs of 10,000 tenants", `
			insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i % 10000 from generate_series(1, 200000) i`, 1500},
		// The first tenant is counted up to the most, and no further.
		{"200,000 jobs of one tenant, and others", `
			insert into {schema}.job (kind, tenant) select 'work', 'acme' from generate_series(1, 200000) i;
			insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i from generate_series(1, 1000) i`, 700},
		{"200,000 jobs that are not due", `
			insert into {schema}.job (kind, tenant, run_at) select 'work', 'acme', now() + interval '1 day' from generate_series(1, 200000) i`, 100},
		{"an empty table", ``, 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, conn := planStore(t)
			// A plan that is made on the empty table, and kept.
			ask := func(names any) int {
				t.Helper()
				name := "page"
				if _, all := names.(null); !all {
					name = "names"
				}
				return explain(t, s, conn, name, countTenants, "text[], text, bigint, bigint", names, null{}, 20, later.MaxTenantCount).buffers
			}
			ask(null{})
			ask([]string{"acme"})
			execute(t, s, conn, test.load)
			if got := ask(null{}); got > test.most {
				t.Errorf("a page: got %d pages read, want %d at most", got, test.most)
			} else {
				t.Logf("a page: %d", got)
			}
			if got := ask([]string{"acme", "tenant_7", "nobody"}); got > test.most {
				t.Errorf("named: got %d pages read, want %d at most", got, test.most)
			} else {
				t.Logf("named: %d", got)
			}
		})
	}
}

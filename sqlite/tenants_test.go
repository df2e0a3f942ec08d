package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
)

// Case 125: a page of tenants costs what it shows, and not what waits.
func TestTenantPlans(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "later.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, h := range []hotStatement{
		{"places", selectTenantLanes, []any{nil, 10}, "head USING COVERING INDEX later_job_ready ((queue,kind,priority)>(?,?,?))"},
		{"tenants of a place", selectTenantLanes, []any{nil, 10}, "head USING COVERING INDEX later_job_ready (queue=? AND kind=? AND priority=? AND tenant>?)"},
		{"places of named tenants", selectLanesOfTenants, []any{`["a"]`}, "j USING COVERING INDEX later_job_ready (queue=? AND kind=? AND priority=? AND tenant=?)"},
		{"count", countLane, []any{"q", "k", 0, "", 0, 1}, "later_job USING INDEX later_job_ready (queue=? AND kind=? AND priority=? AND tenant=? AND run_at<?)"},
	} {
		if got := plan(t, s, h.query, h.args...); fullScan.MatchString(got) || !strings.Contains(got, h.index) {
			t.Errorf("%s: want %s and no scan, got\n%s", h.name, h.index, got)
		}
	}
}

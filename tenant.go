package later

import (
	"context"
	"time"
)

// TenantLister is what a store offers besides an [Operator] to look at tenants.
type TenantLister interface {
	// Tenants counts the jobs of tenants that are due or running, by the bytes of the tenants'
	// names. It reads no more than it returns: tenants that it does not return cost nothing, and a
	// tenant's jobs beyond [MaxTenantCount] neither, however many there are. What it costs grows with the
	// number of queues, kinds and priorities.
	Tenants(ctx context.Context, f TenantFilter) ([]TenantCount, error)
}

// TenantFilter selects tenants; the zero value the first [DefaultListLimit] that have jobs
// which wait or run, be they due or not. Jobs without a tenant are one tenant more, the empty one.
type TenantFilter struct {
	// Names selects these only, whether they have jobs or not; nil: those that have. With it, After
	// and Limit say nothing.
	Names []string
	After *string // those behind it, for paging; nil: from the first
	Limit int     // the most that are returned; 0 is DefaultListLimit
}

// TenantCount is a tenant with its jobs.
type TenantCount struct {
	Tenant  string
	Due     int // wait for a worker: ready or lost
	Running int // their leases hold
	// Oldest is the run_at of the due job that waits longest; zero: none.
	Oldest time.Time
	// More says that there are more than were counted: of each queue, kind and priority of the tenant,
	// MaxTenantCount jobs are counted, by run_at. Running ones are among the first as a rule.
	More bool
}

// MaxTenantCount is how many jobs of a tenant are counted, in each queue, kind and priority.
// Chosen: a person cares for the number up to there.
const MaxTenantCount = 1000

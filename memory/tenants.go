package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/later-queue/later"
)

var _ later.TenantLister = (*Store)(nil)

// Tenants implements [later.TenantLister]. It looks at all jobs.
func (s *Store) Tenants(ctx context.Context, f later.TenantFilter) ([]later.TenantCount, error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the jobs of tenants: %w", err)
	}
	defer unlock()
	names := slices.Clone(f.Names)
	if f.Names == nil {
		names = s.tenantNames(f)
	}
	slices.Sort(names)
	counts := []later.TenantCount{}
	for _, name := range slices.Compact(names) {
		counts = append(counts, s.countTenant(name, now))
	}
	return counts, nil
}

// tenantNames are those of a page of tenants.
func (s *Store) tenantNames(f later.TenantFilter) []string {
	var names []string
	for _, j := range s.jobs {
		if (f.After == nil || j.Tenant > *f.After) && !slices.Contains(names, j.Tenant) {
			names = append(names, j.Tenant)
		}
	}
	slices.Sort(names)
	limit := f.Limit
	if limit <= 0 {
		limit = later.DefaultListLimit
	}
	return names[:min(len(names), limit)]
}

func (s *Store) countTenant(name string, now time.Time) later.TenantCount {
	type place struct {
		queue, kind string
		priority    int16
	}
	due := map[place][]*job{}
	for _, j := range s.jobs {
		if j.Tenant == name && !j.RunAt.After(now) {
			at := place{j.Queue, j.Kind, j.Priority}
			due[at] = append(due[at], j)
		}
	}
	count := later.TenantCount{Tenant: name}
	for _, jobs := range due {
		slices.SortFunc(jobs, func(a, b *job) int { return a.RunAt.Compare(b.RunAt) })
		count.More = count.More || len(jobs) > later.MaxTenantCount
		for _, j := range jobs[:min(len(jobs), later.MaxTenantCount)] {
			if j.holds(now) {
				count.Running++
				continue
			}
			count.Due++
			if count.Oldest.IsZero() || j.RunAt.Before(count.Oldest) {
				count.Oldest = j.RunAt
			}
		}
	}
	return count
}

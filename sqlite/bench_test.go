package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

func benchStore(b *testing.B) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), b.TempDir()+"/later.db", sqlite.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkEnqueue is the group commit: many callers, one job each.
func BenchmarkEnqueue(b *testing.B) {
	s := benchStore(b)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Enqueue(b.Context(), work, later.Options{}); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkDrain claims and settles, 100 jobs at a time.
func BenchmarkDrain(b *testing.B) {
	s := benchStore(b)
	fill(b, s, "work", b.N, 0, "0")
	drain(b, s)
}

// BenchmarkDrainTenants is the same with jobs of so many tenants, who take turns.
func BenchmarkDrainTenants(b *testing.B) {
	for _, tenants := range []int{1, 3, 50, 1000, 10_000} {
		b.Run(fmt.Sprint(tenants), func(b *testing.B) {
			s := benchStore(b)
			fill(b, s, "work", b.N, 0, "0")
			if _, err := s.DB().Exec(`update later_job set tenant = printf('tenant-%06d', id * 7919 % ?)`, tenants); err != nil {
				b.Fatal(err)
			}
			drain(b, s)
		})
	}
}

// BenchmarkClaimPastScheduled claims one job beside those that so many other
// tenants have scheduled: a claim goes past each of them.
func BenchmarkClaimPastScheduled(b *testing.B) {
	for _, tenants := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprint(tenants), func(b *testing.B) {
			s := benchStore(b)
			fill(b, s, "work", tenants, 0, fmt.Sprint(later.Horizon.UnixMilli()-1))
			if _, err := s.DB().Exec(`update later_job set tenant = 'tenant-' || id`); err != nil {
				b.Fatal(err)
			}
			fill(b, s, "work", b.N, 0, "0")
			claimOneByOne(b, s)
		})
	}
}

// drain claims and settles the b.N jobs that were stored.
func drain(b *testing.B, s *sqlite.Store) {
	b.Helper()
	b.ResetTimer()
	for n := 0; n < b.N; {
		claimed, err := s.Claim(b.Context(), request(100))
		if err != nil {
			b.Fatal(err)
		}
		settlements := make([]later.Settlement, len(claimed))
		for i, c := range claimed {
			settlements[i] = later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDone}
		}
		if _, err := s.Settle(b.Context(), settlements); err != nil {
			b.Fatal(err)
		}
		n += len(claimed)
	}
}

// BenchmarkClaimBeside claims one job beside many that it must not take. What
// waits must not matter.
func BenchmarkClaimBeside(b *testing.B) {
	for _, waiting := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			s := benchStore(b)
			fill(b, s, "unknown", waiting, -2, "0")
			fill(b, s, "work", waiting, -1, fmt.Sprint(later.Horizon.UnixMilli()-1))
			fill(b, s, "work", b.N, 0, "0")
			claimOneByOne(b, s)
		})
	}
}

// fill stores n jobs.
func fill(b *testing.B, s *sqlite.Store, kind string, n, priority int, runAt string) {
	b.Helper()
	_, err := s.DB().Exec(`
with recursive n (i) as (select 1 where ?1 > 0 union all select i + 1 from n where i < ?1)
insert into later_job (kind, priority, run_at, payload)
select ?2, ?3, ?4, '{"order_id": ' || i || ', "note": "`+fmt.Sprintf("%080d", time.Now().Year())+`"}' from n`, n, kind, priority, runAt)
	if err != nil {
		b.Fatal(err)
	}
}

// claimOneByOne measures claims of one job, with what is there.
func claimOneByOne(b *testing.B, s *sqlite.Store) {
	b.ResetTimer()
	for range b.N {
		claimed, err := s.Claim(b.Context(), request(1))
		if err != nil || len(claimed) != 1 {
			b.Fatal(claimed, err)
		}
		b.StopTimer()
		if _, err := s.Settle(b.Context(), []later.Settlement{{Lease: claimed[0].Lease, Outcome: later.OutcomeDone}}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

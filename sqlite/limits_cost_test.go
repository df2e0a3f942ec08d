package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func limit(t *testing.T, s *Store, of later.ScopeOf, name string, l later.Limit) {
	t.Helper()
	if err := s.SetLimit(t.Context(), later.Scope{Of: of, Name: name}, l, "me"); err != nil {
		t.Fatal(err)
	}
}

func atMost(n int) later.Limit { return later.Limit{MaxRunning: &n} }

// jobsBehind stores n due jobs, of which the first to be claimed is the first.
func jobsBehind(t *testing.T, s *Store, queue, kind, tenant string, n int) {
	t.Helper()
	_, err := s.DB().ExecContext(t.Context(), `
with recursive n (i) as (select 1 union all select i + 1 from n where i < ?1)
insert into later_job (queue, kind, tenant, run_at, created_at, payload)
select ?2, ?3, ?4, 1000 + i, 1000 + i, '{}' from n`, n, queue, kind, tenant)
	if err != nil {
		t.Fatal(err)
	}
}

// Case 125: what is held back is left out as a whole, so that a claim reads as much whatever
// waits there.
func TestClaimBesideWhatIsHeldBack(t *testing.T) {
	hour := later.Limit{Rate: later.Rate{N: 1, Period: time.Hour}}
	for _, c := range []struct {
		behaviour string
		of        later.ScopeOf
		limit     later.Limit
		end       func(c *later.Claimed) *later.Settlement // of the job that was let in
	}{
		{"a full", later.ScopeQueue, atMost(1), nil},
		{"a full", later.ScopeKind, atMost(1), nil},
		{"a full", later.ScopeTenant, atMost(1), nil},
		{"every full", later.ScopeTenants, atMost(1), nil},
		{"a used up", later.ScopeTenant, hour, nil},
		{"a used up", later.ScopeKind, hour, nil},
		{"an ordered", later.ScopeTenant, later.Limit{Ordered: true}, func(c *later.Claimed) *later.Settlement {
			return &later.Settlement{Lease: c.Lease, Outcome: later.OutcomeRetry, Delay: time.Hour}
		}},
		{"an ordered", later.ScopeQueue, later.Limit{Ordered: true}, func(c *later.Claimed) *later.Settlement {
			return &later.Settlement{Lease: c.Lease, Outcome: later.OutcomeRetry, Delay: time.Hour}
		}},
	} {
		t.Run(c.behaviour+" "+string(c.of), func(t *testing.T) {
			s, _ := openFile(t)
			name := map[later.ScopeOf]string{later.ScopeQueue: "first", later.ScopeKind: "heavy", later.ScopeTenant: "a"}[c.of]
			limit(t, s, c.of, name, c.limit)
			claim := func(n int) []*later.Claimed {
				t.Helper()
				list, err := s.Claim(t.Context(), later.ClaimRequest{
					Queues: []later.QueueLimit{{Queue: "first", Limit: n}, {Queue: "second", Limit: n}}, Limit: n, Kinds: []string{"heavy", "light"},
					Worker: "worker-1", Token: later.NewToken(), Lease: time.Hour,
				})
				if err != nil {
					t.Fatal(err)
				}
				return list
			}
			pages := func() int {
				t.Helper()
				jobsBehind(t, s, "second", "light", "b", 1)
				before := writerPages(t, s)
				list := claim(100)
				if len(list) != 1 || list[0].Kind != "light" {
					t.Fatalf("claimed %d jobs, want the one that is not held back", len(list))
				}
				read := writerPages(t, s) - before
				settleDone(t, s, list)
				return read
			}
			jobsBehind(t, s, "first", "heavy", "a", 10)
			first := claim(100)
			if len(first) != 1 {
				t.Fatalf("claimed %d jobs of a scope that lets in one", len(first))
			}
			if c.end != nil {
				if refused, err := s.Settle(t.Context(), []later.Settlement{*c.end(first[0])}); err != nil || len(refused) > 0 {
					t.Fatal(refused, err)
				}
			}
			pages() // the first one reads the schema
			few := pages()
			jobsBehind(t, s, "first", "heavy", "a", 20_000)
			pages()
			// The trees have become higher.
			if many := pages(); few < 5 || many > 2*few+20 {
				t.Errorf("%d pages beside 10 jobs, and %d beside 20,010, want no more than the trees are higher", few, many)
			}
		})
	}
}

// A limit that has nothing to do with a claim costs it no statement.
func TestStatementsBesideLimits(t *testing.T) {
	s := openMemory(t)
	insertJobsOf(t, s, 100)
	per := func() int {
		t.Helper()
		before := executed(t, s)
		if got := len(claimed(t, s, 10)); got != 10 {
			t.Fatalf("claimed %d jobs, want 10", got)
		}
		return executed(t, s) - before - executed0(t, s)
	}
	per()
	without := per()
	limit(t, s, later.ScopeQueue, "other", atMost(0))
	limit(t, s, later.ScopeKind, "other", atMost(0))
	per() // the first one reads the limits
	if beside := per(); beside != without {
		t.Errorf("%d statements beside limits of others, want %d as without", beside, without)
	}
	limit(t, s, later.ScopeQueue, later.DefaultQueue, atMost(1000))
	per()
	// The gate, what is left of the lane after the first job, the jobs by their ids, the gate again.
	if under := per(); under > without+5 {
		t.Errorf("%d statements under a limit, want at most %d", under, without+5)
	}
}

// Full tenants cost a claim little, however many they are, and hide nobody.
func TestClaimPastFullTenants(t *testing.T) {
	s, _ := openFile(t)
	limit(t, s, later.ScopeTenants, "", atMost(1))
	fill := func(first, n int) {
		t.Helper()
		for i := range n {
			jobsBehind(t, s, later.DefaultQueue, "work", fmt.Sprintf("tenant-%04d", first+i), 3)
		}
	}
	fill(0, 300)
	if got := len(claimed(t, s, 1000)); got != 300 {
		t.Fatalf("claimed %d jobs of 300 tenants, want one of each", got)
	}
	jobsBehind(t, s, later.DefaultQueue, "work", "zz", 1)
	before := executed(t, s)
	if list := claimed(t, s, 10); len(list) != 1 || list[0].Tenant != "zz" {
		t.Fatalf("claimed %d jobs, want the one of the tenant that is not full", len(list))
	}
	if got := executed(t, s) - before - executed0(t, s); got > 40 {
		t.Errorf("%d statements to go past 300 full tenants, want at most 40", got)
	}
}

// Who waits for what a limit holds back is woken when a place becomes free, whatever frees it;
// and without a limit nobody is woken by the end of a job.
func TestWatchOfFreedPlaces(t *testing.T) {
	lease := func(c *later.Claimed, outcome later.Outcome) later.Settlement {
		return later.Settlement{Lease: c.Lease, Outcome: outcome, Delay: time.Hour, Reason: later.DeadFailed}
	}
	for _, limited := range []bool{false, true} {
		for _, outcome := range []later.Outcome{
			later.OutcomeDone, later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeDead, later.OutcomeCancelled, "in a transaction",
		} {
			t.Run(fmt.Sprintf("limited %v, %s", limited, outcome), func(t *testing.T) {
				s := openMemory(t)
				if limited {
					limit(t, s, later.ScopeKind, "work", atMost(1))
				}
				insertJobsOf(t, s, 2)
				first := claimed(t, s, 1)[0]
				if limited {
					if got := len(claimed(t, s, 1)); got != 0 {
						t.Fatalf("claimed %d jobs of a full kind", got)
					}
				}
				w := waitingFor(t, s)
				if outcome == "in a transaction" {
					tx, err := s.DB().Begin()
					if err != nil {
						t.Fatal(err)
					}
					if err := s.DoneSQLTx(t.Context(), tx, first); err != nil {
						t.Fatal(err)
					}
					if err := tx.Commit(); err != nil {
						t.Fatal(err)
					}
					limited = true // in memory, any transaction of the application wakes
				} else if refused, err := s.Settle(t.Context(), []later.Settlement{lease(first, outcome)}); err != nil || len(refused) > 0 {
					t.Fatal(refused, err)
				}
				select {
				case <-w.Wakes():
					if !limited {
						t.Error("woken without a limit")
					}
				default:
					if limited {
						t.Error("not woken")
					}
				}
			})
		}
	}
}

// Those who wait ask again when the rate lets the next one start, when the head is due, or
// within a second where a place may become free elsewhere.
func TestNextDueOfWhatIsHeldBack(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		limit     later.Limit
		least     time.Duration
		most      time.Duration
	}{
		{"full", atMost(1), 0, fullFor},
		{"at its rate", later.Limit{Rate: later.Rate{N: 1, Period: time.Hour}}, 50 * time.Minute, time.Hour},
		{"waiting for its head", later.Limit{Ordered: true}, 25 * time.Minute, 30 * time.Minute},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			s := openMemory(t)
			next := func() (time.Duration, bool) {
				t.Helper()
				in, ok, err := s.NextDue(t.Context(), []string{later.DefaultQueue}, []string{"work"})
				if err != nil {
					t.Fatal(err)
				}
				return in, ok
			}
			limit(t, s, later.ScopeQueue, later.DefaultQueue, c.limit)
			insertJobsOf(t, s, 1)
			first := claimed(t, s, 1)[0]
			claimed(t, s, 1)
			if in, ok := next(); ok {
				t.Errorf("with nothing held back: %v, want none", in)
			}
			if c.limit.Ordered {
				refused, err := s.Settle(t.Context(), []later.Settlement{{Lease: first.Lease, Outcome: later.OutcomeRetry, Delay: 30 * time.Minute}})
				if err != nil || len(refused) > 0 {
					t.Fatal(refused, err)
				}
			}
			insertJobsOf(t, s, 2)
			if got := len(claimed(t, s, 1)); got != 0 {
				t.Fatalf("claimed %d jobs, want none", got)
			}
			if in, ok := next(); !ok || in < c.least || in > c.most {
				t.Errorf("got %v, %v, want %v to %v", in, ok, c.least, c.most)
			}
			if err := s.RemoveLimit(t.Context(), later.Scope{Of: later.ScopeQueue, Name: later.DefaultQueue}); err != nil {
				t.Fatal(err)
			}
			claimed(t, s, 2)
			if in, ok := next(); ok != c.limit.Ordered {
				t.Errorf("with nothing held back any more: %v, %v", in, ok)
			}
		})
	}
}

// A head that its own rate holds back is asked for when the rate lets it start, though nobody
// waits behind it.
func TestNextDueOfAHeadAtItsRate(t *testing.T) {
	s := openMemory(t)
	limit(t, s, later.ScopeTenant, "a", later.Limit{Ordered: true, Rate: later.Rate{N: 1, Period: time.Hour}})
	jobsBehind(t, s, later.DefaultQueue, "work", "a", 1)
	if _, err := s.DB().ExecContext(t.Context(), `
insert into later_job (kind, tenant, run_at, payload) values ('work', 'b', 253402300000000, '{}')`); err != nil {
		t.Fatal(err)
	}
	refused, err := s.Settle(t.Context(), []later.Settlement{{Lease: claimed(t, s, 1)[0].Lease, Outcome: later.OutcomeRetry}})
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	if got := len(claimed(t, s, 1)); got != 0 {
		t.Fatalf("claimed %d jobs at a rate that is used up", got)
	}
	in, ok, err := s.NextDue(t.Context(), []string{later.DefaultQueue}, []string{"work"})
	if err != nil || !ok || in < 50*time.Minute || in > time.Hour {
		t.Errorf("got %v, %v, %v, want about an hour", in, ok, err)
	}
}

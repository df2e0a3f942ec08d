package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
)

// starts claims all that may start.
func starts(t *testing.T, store *memory.Store) []*later.Claimed {
	t.Helper()
	jobs, err := store.Claim(t.Context(), claimOf(100))
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// enqueueNotes stores n jobs of a tenant.
func enqueueNotes(t *testing.T, store *memory.Store, n int, tenant string) {
	t.Helper()
	requests := make([]later.Request, n)
	for i := range requests {
		requests[i] = later.Request{Args: note{}, Options: later.Options{Tenant: tenant}}
	}
	if _, err := store.EnqueueMany(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
}

func setLimit(t *testing.T, store *memory.Store, scope later.Scope, limit later.Limit) {
	t.Helper()
	if err := store.SetLimit(t.Context(), scope, limit, "me"); err != nil {
		t.Fatal(err)
	}
}

var acme = later.Scope{Of: later.ScopeTenant, Name: "acme"}

func TestLimitsByTheBubblesClock(t *testing.T) {
	t.Run("a rate lets the next job start to the instant, which NextDue and Standing know", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			setLimit(t, store, acme, later.Limit{Rate: later.Rate{N: 6, Period: time.Hour, Burst: 2}})
			enqueueNotes(t, store, 10, "acme")
			if got, want := len(starts(t, store)), 2; got != want {
				t.Fatalf("got a burst of %d, want %d", got, want)
			}
			for range 3 {
				if got := len(starts(t, store)); got != 0 {
					t.Fatalf("got %d starts before the time, want 0", got)
				}
				standing, err := store.Standing(t.Context(), acme)
				if got, want := standing.NextStart, time.Now().Add(10*time.Minute); !got.Equal(want) || err != nil {
					t.Errorf("got the next start at %v, %v, want %v", got, err, want)
				}
				in, ok, err := store.NextDue(t.Context(), []string{later.DefaultQueue}, []string{"note"})
				if in != 10*time.Minute || !ok || err != nil {
					t.Fatalf("NextDue: got %v, %v, %v, want 10 minutes", in, ok, err)
				}
				time.Sleep(in - time.Nanosecond)
				if got := len(starts(t, store)); got != 0 {
					t.Fatalf("got %d starts a moment too early, want 0", got)
				}
				time.Sleep(time.Nanosecond)
				if got := len(starts(t, store)); got != 1 {
					t.Fatalf("got %d starts at the time, want 1", got)
				}
			}
			time.Sleep(24 * time.Hour)
			if got, want := len(starts(t, store)), 2; got != want {
				t.Errorf("got a burst of %d after a day, want %d", got, want)
			}
		})
	})

	// Case 119: within a lease.
	t.Run("a dead worker's place is free when its lease has ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store, one := memory.New(), 1
			setLimit(t, store, acme, later.Limit{MaxRunning: &one})
			enqueueNotes(t, store, 5, "acme")
			starts(t, store)
			time.Sleep(time.Minute) // the lease of claimOf
			if got := len(starts(t, store)); got != 0 {
				t.Fatalf("got %d starts at the end of the lease, want 0", got)
			}
			time.Sleep(time.Nanosecond)
			if got := len(starts(t, store)); got != 1 {
				t.Errorf("got %d starts after the lease, want 1", got)
			}
		})
	})

	// Case 122: cap 1, 100 jobs of a second each.
	t.Run("a hundred jobs of a second each end in a hundred seconds at their first attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store, one := memory.New(), 1
			setLimit(t, store, acme, later.Limit{MaxRunning: &one})
			enqueueNotes(t, store, 100, "acme")
			begun := time.Now()
			for range 100 {
				jobs := starts(t, store)
				if len(jobs) != 1 || jobs[0].Attempt != 1 {
					t.Fatalf("got %d jobs, want one at its first attempt", len(jobs))
				}
				time.Sleep(time.Second)
				if _, err := store.Settle(t.Context(), []later.Settlement{{Lease: jobs[0].Lease, Outcome: later.OutcomeDone}}); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := time.Since(begun), 100*time.Second; got != want {
				t.Errorf("got them done in %v, want %v", got, want)
			}
		})
	})
}

// Case 125: a claim does not look through the backlog of who is held back. Here that would
// be 100 million jobs, which takes more than ten seconds.
func TestClaimsBesideABacklog(t *testing.T) {
	none := 0
	for _, scope := range []later.Scope{acme, {Of: later.ScopeQueue, Name: later.DefaultQueue}} {
		t.Run("of a "+string(scope.Of), func(t *testing.T) {
			store := memory.New()
			setLimit(t, store, scope, later.Limit{MaxRunning: &none})
			enqueueNotes(t, store, 100_000, "acme")
			began := time.Now()
			for range 1000 {
				if got := len(starts(t, store)); got != 0 {
					t.Fatalf("got %d starts, want 0", got)
				}
			}
			if got, most := time.Since(began), 5*time.Second; got > most {
				t.Errorf("a thousand claims took %v, want at most %v", got, most)
			}
		})
	}
}

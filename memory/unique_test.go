package memory_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
)

// Case 116, by the clock.
func TestUniqueWindows(t *testing.T) {
	for _, c := range []struct {
		sliding bool
		want    []later.EnqueueOutcome
	}{
		{false, []later.EnqueueOutcome{later.Inserted, later.Inserted, later.Skipped, later.Inserted, later.Skipped}},
		{true, []later.EnqueueOutcome{later.Inserted, later.Skipped, later.Skipped, later.Inserted, later.Skipped}},
	} {
		t.Run(fmt.Sprintf("one job for each hour, sliding %v", c.sliding), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				midnight := time.Now() // the bubble's clock begins at midnight in UTC
				var got []later.EnqueueOutcome
				for _, at := range []string{"10h59m59s", "11h0m1s", "11h59m58s", "12h0m1s", "12h59m58s"} {
					since, err := time.ParseDuration(at)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Until(midnight.Add(since)))
					if err := store.Maintain(t.Context()); err != nil {
						t.Fatal(err)
					}
					done, err := store.Enqueue(t.Context(), note{}, later.Options{Unique: &later.Unique{
						Key: "k", Until: later.ForWindow, Window: time.Hour, Sliding: c.sliding,
					}})
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, done.Outcome)
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A debounce to the instant: each request puts the job off by 5 minutes, and after an
// hour it runs whatever comes.
func TestDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, start := memory.New(), time.Now()
		for range 180 {
			if _, err := store.Enqueue(t.Context(), note{}, later.Options{Delay: 5 * time.Minute, Unique: &later.Unique{
				Key: "k", OnConflict: later.ReplaceAndPostpone, Latest: time.Hour,
			}}); err != nil {
				t.Fatal(err)
			}
			jobs, err := store.Claim(t.Context(), claimOf(1))
			if err != nil {
				t.Fatal(err)
			}
			if len(jobs) > 0 {
				break
			}
			time.Sleep(time.Minute)
		}
		if got, want := time.Since(start), time.Hour; got != want {
			t.Errorf("it ran after %v, want %v", got, want)
		}
	})
}

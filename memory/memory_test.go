package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
)

type note struct{}

func (note) Kind() string { return "note" }

func claimOf(limit int) later.ClaimRequest {
	return later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: limit}}, Limit: limit,
		Kinds: []string{"note"}, Worker: "w", Token: later.NewToken(), Lease: time.Minute,
	}
}

func TestStoreLivesByTheBubblesClock(t *testing.T) {
	t.Run("a job is due to the instant, and its lease ends after it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			if _, err := store.Enqueue(t.Context(), note{}, later.Options{Delay: time.Hour}); err != nil {
				t.Fatal(err)
			}
			claim := func() int {
				t.Helper()
				jobs, err := store.Claim(t.Context(), claimOf(10))
				if err != nil {
					t.Fatal(err)
				}
				return len(jobs)
			}
			time.Sleep(time.Hour - time.Nanosecond)
			if got, want := claim(), 0; got != want {
				t.Errorf("before its time: got %d jobs, want %d", got, want)
			}
			time.Sleep(time.Nanosecond)
			if got, want := claim(), 1; got != want {
				t.Errorf("at its time: got %d jobs, want %d", got, want)
			}
			time.Sleep(time.Minute)
			if got, want := claim(), 0; got != want {
				t.Errorf("at the end of its lease: got %d jobs, want %d", got, want)
			}
			time.Sleep(time.Nanosecond)
			if got, want := claim(), 1; got != want {
				t.Errorf("after its lease: got %d jobs, want %d", got, want)
			}
		})
	})

	// Case 98 with its times: 30 days ahead, 3 days to a retry, 10 days dead.
	t.Run("housekeeping forgets old history and old workers, and no job", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store, ctx := memory.New(), t.Context()
			var ids []int64
			for _, delay := range []time.Duration{0, 0, 0, 30 * 24 * time.Hour} {
				done, err := store.Enqueue(ctx, note{}, later.Options{Delay: delay})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, done.ID)
			}
			jobs, err := store.Claim(ctx, claimOf(3))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Settle(ctx, []later.Settlement{
				{Lease: jobs[0].Lease, Outcome: later.OutcomeDone},
				{Lease: jobs[1].Lease, Outcome: later.OutcomeDead, Reason: later.DeadFailed},
				{Lease: jobs[2].Lease, Outcome: later.OutcomeRetry, Delay: 30 * 24 * time.Hour},
			}); err != nil {
				t.Fatal(err)
			}
			if err := store.Beat(ctx, later.WorkerInfo{Name: "gone"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * 24 * time.Hour)
			if err := store.Maintain(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Find(ctx, ids[0]); err == nil {
				t.Errorf("job %d is still in the log", ids[0])
			}
			for i, want := range map[int]later.State{1: later.StateDead, 2: later.StateRetry, 3: later.StateScheduled} {
				info, err := store.Find(ctx, ids[i])
				if err != nil {
					t.Fatal(err)
				}
				if got := info.State; got != want {
					t.Errorf("job %d: got state %q, want %q", ids[i], got, want)
				}
			}
			workers, err := store.Workers(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(workers), 0; got != want {
				t.Errorf("got %d workers, want %d", got, want)
			}
		})
	})
}

// BenchmarkLife is the whole life of 10,000 jobs that wait together, claimed
// ten at a time: linear, or it would take minutes.
func BenchmarkLife(b *testing.B) {
	requests := make([]later.Request, 10_000)
	for i := range requests {
		requests[i] = later.Request{Args: note{}, Options: later.Options{Priority: int16(i % 7)}}
	}
	for b.Loop() {
		store := memory.New()
		if _, err := store.EnqueueMany(b.Context(), requests); err != nil {
			b.Fatal(err)
		}
		for {
			jobs, err := store.Claim(b.Context(), claimOf(10))
			if err != nil {
				b.Fatal(err)
			}
			if len(jobs) == 0 {
				break
			}
			ends := make([]later.Settlement, len(jobs))
			for i, job := range jobs {
				ends[i] = later.Settlement{Lease: job.Lease, Outcome: later.OutcomeDone}
			}
			if _, err := store.Settle(b.Context(), ends); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(requests)), "µs/job")
}

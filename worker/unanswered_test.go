package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestUnansweredClaims(t *testing.T) {
	t.Run("jobs of a claim whose answer was lost run at once, and nothing is counted", func(t *testing.T) {
		// Case 149: also a job that may be started only once.
		bubble(t, func(b *bed) {
			once := b.enqueue(task{}, later.Options{MaxAttempts: 1})
			many := b.enqueue(task{N: 1}, later.Options{})
			var lost atomic.Bool
			b.store.set(nil, func(op string, _ any) error {
				if op == "claim" && !lost.Swap(true) {
					return later.ErrUnavailable // after the claim was stored
				}
				return nil
			})
			var starts atomic.Int32
			h := handle(func(context.Context, *later.Job[task]) error {
				starts.Add(1)
				return nil
			})
			r := b.run(h, worker.Config{Lease: time.Hour})
			b.sleep(30 * time.Second) // less than the lease
			r.stop()
			if got := starts.Load(); got != 2 {
				t.Errorf("got %d starts, want 2", got)
			}
			b.wantOutcomes(once, "done")
			b.wantOutcomes(many, "done")
		})
	})
}

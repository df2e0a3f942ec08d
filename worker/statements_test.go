package worker_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later/worker"
)

func TestStatements(t *testing.T) {
	t.Run("a saturated drain needs few commits", func(t *testing.T) {
		// At most 0.02 for a job, with default settings and 2 ms for each.
		synctest.Test(t, func(t *testing.T) {
			const jobs = 50_000
			store := newEndless(jobs, 2*time.Millisecond)
			w, err := worker.New(store, handle(noop), worker.Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			begin := time.Now()
			go func() { ended <- w.Run(ctx) }()
			<-store.all
			took := time.Since(begin)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			claims, settles := store.claims.Load(), store.settles.Load()
			t.Logf("%d claims and %d settles for %d jobs in %v", claims, settles, jobs, took)
			if claims+settles > jobs/50 {
				t.Errorf("got %d claims and %d settles, want at most %d", claims, settles, jobs/50)
			}
			if took > 500*time.Millisecond {
				t.Errorf("got %v for %d jobs, want no waits but those for the store", took, jobs)
			}
		})
	})
}

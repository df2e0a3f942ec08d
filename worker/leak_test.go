package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
	"github.com/later-queue/later/worker"
)

// TestNoLeaks runs with the real clock: in a bubble a goroutine that ends late
// would not be seen.
func TestNoLeaks(t *testing.T) {
	// Case 133, the last clause.
	start := func(t *testing.T, handler func(context.Context, *later.Job[task]) error) (*worker.Worker, *memory.Store) {
		store := memory.New()
		for range 20 {
			if _, err := store.Enqueue(t.Context(), task{}, later.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		w, err := worker.New(store, handle(handler), worker.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return w, store
	}
	t.Run("after Run", func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		var n atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, _ := start(t, func(context.Context, *later.Job[task]) error {
			if n.Add(1) == 20 {
				cancel()
			}
			return errors.New("boom")
		})
		if err := w.Run(ctx); err != nil {
			t.Errorf("got the error %v, want none", err)
		}
	})
	t.Run("after Drain", func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		w, _ := start(t, noop)
		if _, err := w.Drain(t.Context()); err != nil {
			t.Errorf("got the error %v, want none", err)
		}
	})
	t.Run("after Stop but for the handlers that ignore it", func(t *testing.T) {
		release := make(chan struct{})
		ignore := goleak.IgnoreCurrent()
		started := make(chan struct{}, 20)
		w, _ := start(t, func(context.Context, *later.Job[task]) error {
			started <- struct{}{}
			<-release
			return nil
		})
		ended := make(chan error, 1)
		go func() { ended <- w.Run(context.Background()) }()
		for range worker.DefaultConcurrency {
			<-started
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := w.Stop(ctx); !errors.Is(err, worker.ErrDrainDeadline) {
			t.Errorf("got the error %v, want ErrDrainDeadline", err)
		}
		if err := <-ended; !errors.Is(err, worker.ErrDrainDeadline) {
			t.Errorf("got the error %v from Run, want ErrDrainDeadline", err)
		}
		if err := goleak.Find(ignore, goleak.IgnoreAnyFunction("github.com/later-queue/later/worker.call")); err != nil {
			t.Error(err)
		}
		close(release)
		goleak.VerifyNone(t, ignore)
	})
}

package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// passing is a store that passes every renewal over.
type passing struct{ later.Store }

func (s passing) Renew(_ context.Context, leases []later.Lease, _ time.Duration) (later.Renewed, error) {
	return later.Renewed{Passed: leases}, nil
}

func TestLeasePassedOver(t *testing.T) {
	t.Run("a lease that is passed over ends when it would have ended", func(t *testing.T) {
		// Cases 70 and 77.
		bubble(t, func(b *bed) {
			b.tasks(1, later.Options{})
			began, ended := time.Now(), time.Time{}
			h := handle(func(ctx context.Context, _ *later.Job[task]) error {
				err := obedient(ctx, time.Minute)
				if ended.IsZero() {
					ended = time.Now()
					if !errors.Is(context.Cause(ctx), later.ErrLeaseLost) {
						b.Errorf("got the cause %v, want a lost lease", context.Cause(ctx))
					}
				}
				return err
			})
			w, err := worker.New(passing{b.store}, h, worker.Config{Lease: 3 * time.Second, Logger: slog.New(b.log)})
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan error)
			go func() { done <- w.Run(ctx) }()
			b.sleep(4 * time.Second)
			stop()
			if err := <-done; err != nil {
				b.Error(err)
			}
			if got := ended.Sub(began).Round(time.Second); got != 3*time.Second {
				b.Errorf("the handler was told after %v, want 3s", got)
			}
		})
	})
}

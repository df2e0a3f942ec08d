package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestLeases(t *testing.T) {
	t.Run("a job that outlives its lease many times starts once", func(t *testing.T) {
		// Case 64.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			var starts atomic.Int32
			h := handle(func(ctx context.Context, j *later.Job[task]) error {
				starts.Add(1)
				if j.Attempt != 1 {
					t.Errorf("got attempt %d, want 1", j.Attempt)
				}
				return obedient(ctx, 10*time.Second)
			})
			one := b.run(h, worker.Config{Lease: time.Second, Poll: 100 * time.Millisecond})
			two := b.beside().run(h, worker.Config{Lease: time.Second, Poll: 100 * time.Millisecond})
			b.sleep(12 * time.Second)
			if starts.Load() != 1 {
				t.Errorf("got %d starts, want 1", starts.Load())
			}
			b.wantOutcomes(id, "done")
			one.stopped()
			two.stopped()
		})
	})

	t.Run("a worker that is cut off stops its handler, and one other runs the job", func(t *testing.T) {
		// Case 64, the second half, and 70: one result counts.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			var starts atomic.Int32
			var stoppedAfter time.Duration
			begin := time.Now()
			h := handle(func(ctx context.Context, j *later.Job[task]) error {
				starts.Add(1)
				err := obedient(ctx, 20*time.Second)
				if err != nil {
					stoppedAfter = time.Since(begin)
					if !errors.Is(context.Cause(ctx), later.ErrLeaseLost) {
						t.Errorf("got the cause %v, want a lost lease", context.Cause(ctx))
					}
				}
				return err
			})
			one := b.run(h, worker.Config{Lease: 3 * time.Second})
			synctest.Wait()
			b.store.failing(later.ErrUnavailable, everything...)
			two := b.beside().run(h, worker.Config{Lease: 3 * time.Second})
			b.sleep(40 * time.Second)
			if starts.Load() != 2 {
				t.Errorf("got %d starts, want 2", starts.Load())
			}
			if stoppedAfter != 3*time.Second {
				t.Errorf("got the first handler stopped after %v, want 3 s, the lease", stoppedAfter)
			}
			b.wantOutcomes(id, "lost done")
			b.store.failing(nil)
			b.sleep(10 * time.Second)
			b.wantOutcomes(id, "lost done")
			if s := one.Stats(); s.LostLeases != 1 || s.Refused+s.Unclear != 1 {
				t.Errorf("got %d lost leases and %d refused results, want 1 and 1", s.LostLeases, s.Refused+s.Unclear)
			}
			one.stopped()
			two.stopped()
		})
	})

	t.Run("a job whose lease nobody took is given back uncharged", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				if j.Crashes > 0 || j.Attempt > 1 {
					t.Errorf("got attempt %d with %d crashes, want 1 and 0", j.Attempt, j.Crashes)
				}
				return obedient(ctx, 5*time.Second)
			}), worker.Config{Lease: 3 * time.Second})
			synctest.Wait()
			b.store.failing(later.ErrUnavailable, "renew", "claim", "sweep")
			b.sleep(4 * time.Second)
			if j := b.find(id); j.State != later.StateReady || j.Attempt != 0 {
				t.Errorf("got %s with attempt %d, want ready and 0", j.State, j.Attempt)
			}
			b.store.failing(nil)
			b.sleep(15 * time.Second)
			b.wantOutcomes(id, "done")
			r.stopped()
		})
	})

	t.Run("a handler that does not heed a lost lease does not give the job back", func(t *testing.T) {
		// Given back it would start again uncharged, beside the one that runs.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			release := make(chan struct{})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				if j.Attempt == 1 {
					<-release
				}
				return nil
			}), worker.Config{Concurrency: 2, Lease: 3 * time.Second, Grace: 2 * time.Second})
			synctest.Wait()
			b.store.failing(later.ErrUnavailable, "renew", "claim", "sweep")
			b.sleep(6 * time.Second)
			if j := b.find(id); j.State != later.StateLost {
				t.Errorf("got %s, want lost", j.State)
			}
			if s := r.Stats(); s.Abandoned != 1 || s.Pending != 0 {
				t.Errorf("got %+v, want one abandoned handler and nothing pending", s)
			}
			b.store.failing(nil)
			b.sleep(7 * time.Second)
			b.wantOutcomes(id, "lost done")
			close(release)
			synctest.Wait()
			r.stopped()
		})
	})

	t.Run("a lease that the store says is lost ends the handler at the next renewal", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			var cause error
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				// Somebody else settles it, which no store lets happen by itself.
				if _, err := b.store.Store.Settle(ctx, []later.Settlement{{Lease: j.Lease, Outcome: later.OutcomeDone}}); err != nil {
					t.Error(err)
				}
				err := obedient(ctx, time.Minute)
				cause = context.Cause(ctx)
				return err
			}), worker.Config{Lease: 3 * time.Second})
			b.sleep(1100 * time.Millisecond)
			if !errors.Is(cause, later.ErrLeaseLost) {
				t.Errorf("got the cause %v after a renewal, want a lost lease", cause)
			}
			b.wantOutcomes(id, "done")
			b.wantLines(1, "WARN lease lost", "job=")
			b.wantLines(1, "WARN result refused, the lease was lost")
			r.stopped()
		})
	})

	t.Run("a restarted worker of the same name does not keep the dead one's jobs alive", func(t *testing.T) {
		// Case 68.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			cfg := worker.Config{Name: "worker-0", Lease: 10 * time.Second}
			release := make(chan struct{})
			defer close(release)
			dead := b.run(handle(deaf(release)), cfg)
			b.sleep(5 * time.Second)
			dead.crash()
			second := b.beside().run(handle(noop), cfg)
			// The last renewal was at 3⅓ s; the poll finds it within 1.1 s.
			b.sleep(10 * time.Second)
			b.wantOutcomes(id, "lost done")
			second.stopped()
		})
	})

	t.Run("a process that stood still finds its leases gone and works on", func(t *testing.T) {
		// Case 77: A stands still, its timers too, while B takes over and ends.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			resumed := make(chan struct{})
			frozen := func(string, any) error {
				<-resumed
				return nil
			}
			var cause error
			first := true
			one := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error {
				if !first {
					return nil
				}
				first = false
				<-resumed
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil // it even succeeds
			}), worker.Config{Lease: 10 * time.Second})
			synctest.Wait()
			b.store.set(frozen, nil)
			two := b.beside().run(handle(noop), worker.Config{Lease: 10 * time.Second})
			b.sleep(60 * time.Second)
			b.wantOutcomes(id, "lost done")
			two.stopped()
			b.store.set(nil, nil)
			close(resumed)
			b.sleep(10 * time.Second)
			if !errors.Is(cause, later.ErrLeaseLost) {
				t.Errorf("got the cause %v, want a lost lease", cause)
			}
			b.wantOutcomes(id, "lost done") // A changed nothing
			next := b.tasks(1, later.Options{})[0]
			b.sleep(2 * time.Second)
			b.wantOutcomes(next, "done") // A works on
			if one.Stats().Outcomes[later.OutcomeDone] != 1 {
				t.Errorf("got %d jobs done by A, want 1", one.Stats().Outcomes[later.OutcomeDone])
			}
			one.stopped()
		})
	})

	t.Run("one failed renewal in three does no harm", func(t *testing.T) {
		// Case 86.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			n := 0
			b.store.set(func(op string, _ any) error {
				if op != "renew" {
					return nil
				}
				if n++; n%3 == 0 {
					return later.ErrUnavailable
				}
				return nil
			}, nil)
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, time.Minute) }),
				worker.Config{Lease: 3 * time.Second})
			b.sleep(62 * time.Second)
			b.wantOutcomes(id, "done")
			if s := r.Stats(); s.LostLeases != 0 {
				t.Errorf("got %d lost leases, want 0", s.LostLeases)
			}
			r.stopped()
		})
	})

	t.Run("a renewal that failed is tried again well before the lease ends", func(t *testing.T) {
		// Case 86: the store is away for most of a lease.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, 2*time.Minute) }),
				worker.Config{Lease: 30 * time.Second})
			b.sleep(9 * time.Second) // the next renewal is due at 10 s
			b.store.failing(later.ErrUnavailable, "renew")
			b.sleep(18 * time.Second) // the lease ends at 30 s
			b.store.failing(nil)
			b.sleep(100 * time.Second)
			b.wantOutcomes(id, "done")
			r.stopped()
		})
	})

	t.Run("a renewal that hangs is cut off in time for another", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			hung := 0
			b.store.hanging(func(ctx context.Context, op string, _ any) error {
				if op == "renew" && hung < 2 {
					hung++
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
			w := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, time.Minute) }),
				worker.Config{Lease: 30 * time.Second})
			b.sleep(61 * time.Second)
			b.wantOutcomes(id, "done")
			if hung != 2 {
				t.Errorf("got %d renewals that hung, want 2", hung)
			}
			w.stopped()
		})
	})

	t.Run("finished jobs that wait to be settled keep their leases", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			b.store.failing(later.ErrUnavailable, "settle")
			one := b.run(handle(noop), worker.Config{Lease: 3 * time.Second})
			synctest.Wait() // one has it
			two := b.beside().run(handle(noop), worker.Config{Lease: 3 * time.Second})
			b.sleep(time.Minute)
			b.store.failing(nil)
			b.sleep(6 * time.Second)
			b.wantOutcomes(id, "done")
			one.stopped()
			two.stopped()
		})
	})
}

func TestCancel(t *testing.T) {
	cancelling := func(t *testing.T, handler func(context.Context) error, grace time.Duration, want string) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			var cause error
			release := make(chan struct{})
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error {
				go func() {
					select {
					case <-ctx.Done():
						cause = context.Cause(ctx)
					case <-release:
					}
				}()
				return handler(ctx)
			}), worker.Config{Grace: grace})
			b.sleep(5 * time.Second)
			if running, err := b.store.Cancel(b.Context(), id); err != nil || !running {
				t.Fatalf("got running %t and the error %v, want a running job", running, err)
			}
			b.sleep(1200 * time.Millisecond) // a poll
			if !errors.Is(cause, later.ErrCancelled) {
				t.Errorf("got the cause %v, want a cancel", cause)
			}
			b.sleep(grace)
			b.wantOutcomes(id, want)
			close(release)
			b.sleep(time.Hour)
			b.wantOutcomes(id, want)
			r.stopped()
		})
	}
	t.Run("a running job that returns an error is cancelled", func(t *testing.T) {
		cancelling(t, func(ctx context.Context) error { return obedient(ctx, time.Minute) }, time.Second, "cancelled")
	})
	t.Run("a running job that returns nil is done", func(t *testing.T) {
		cancelling(t, func(ctx context.Context) error { obedient(ctx, time.Minute); return nil }, time.Second, "done")
	})
	t.Run("a running job that does not return is cancelled after the grace", func(t *testing.T) {
		cancelling(t, func(context.Context) error { time.Sleep(time.Minute); return nil }, 2*time.Second, "cancelled")
	})

	t.Run("a job whose worker is gone is cancelled by another's sweep", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			release := make(chan struct{})
			defer close(release)
			dead := b.run(handle(deaf(release)), worker.Config{Lease: 10 * time.Second})
			b.sleep(time.Second)
			dead.crash()
			if _, err := b.store.Cancel(b.Context(), id); err != nil {
				t.Fatal(err)
			}
			other := b.beside().run(handle(noop), worker.Config{Lease: 10 * time.Second})
			b.sleep(15 * time.Second)
			b.wantOutcomes(id, "lost cancelled")
			other.stopped()
		})
	})
}

package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestDoneTxRolledBack(t *testing.T) {
	t.Run("the job keeps its lease, and nobody else starts it", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			var starts atomic.Int32
			h := handle(func(ctx context.Context, j *later.Job[task]) error {
				starts.Add(1)
				j.MarkSettled() // and its transaction is rolled back
				if err := obedient(ctx, 30*time.Second); err != nil {
					t.Errorf("got %v, want no interruption", err)
				}
				b.store.settleInTx(t, j) // the second transaction is committed
				return nil
			})
			one := b.run(h, worker.Config{Lease: 3 * time.Second})
			two := b.beside().run(h, worker.Config{Lease: 3 * time.Second})
			b.sleep(40 * time.Second)
			if starts.Load() != 1 {
				t.Errorf("got %d starts, want 1", starts.Load())
			}
			b.wantOutcomes(id, "done")
			done := one.Stats().Outcomes[later.OutcomeDone] + two.Stats().Outcomes[later.OutcomeDone]
			if s := one.Stats(); done != 1 || s.Refused+s.Unclear != 0 {
				t.Errorf("got %+v, want the job counted as done", s)
			}
			one.stopped()
			two.stopped()
		})
	})

	t.Run("the handler is told when the lease is lost later on", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(1, later.Options{MaxAttempts: 1})
			begin := time.Now()
			var told time.Duration
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				if told > 0 {
					return nil // given back, it runs once more
				}
				j.MarkSettled()
				err := obedient(ctx, time.Minute)
				told = time.Since(begin)
				if !errors.Is(context.Cause(ctx), later.ErrLeaseLost) {
					t.Errorf("got the cause %v, want a lost lease", context.Cause(ctx))
				}
				return err
			}), worker.Config{Lease: 3 * time.Second})
			b.sleep(1500 * time.Millisecond) // the renewal at 1 s shows the rollback
			b.store.failing(later.ErrUnavailable, everything...)
			b.sleep(10 * time.Second)
			if told != 4*time.Second {
				t.Errorf("got the handler told after %v, want 4 s: a lease after the renewal", told)
			}
			b.store.failing(nil)
			b.sleep(10 * time.Second)
			if s := r.Stats(); s.LostLeases != 1 {
				t.Errorf("got %d lost leases, want 1", s.LostLeases)
			}
			r.stopped()
		})
	})

	t.Run("a handler that then returns nil has not done its job", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				if j.Attempt == 1 {
					j.MarkSettled()
					return obedient(ctx, 5*time.Second)
				}
				return nil
			}), worker.Config{Lease: 3 * time.Second})
			b.sleep(6 * time.Second)
			b.wantOutcomes(id, "retry")
			r.stopped()
		})
	})

	t.Run("a renewal from before a second DoneTx says nothing of that one", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			renewed, committed := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			b.store.set(nil, func(op string, _ any) error {
				if op == "renew" && once.CompareAndSwap(false, true) {
					close(renewed) // the store has renewed it, the answer comes
					<-committed
				}
				return nil
			})
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				j.MarkSettled()
				<-renewed
				b.store.settleInTx(t, j)
				close(committed)
				return obedient(ctx, 10*time.Second)
			}), worker.Config{Lease: 3 * time.Second})
			b.sleep(20 * time.Second)
			b.wantOutcomes(id, "done")
			if s := r.Stats(); s.Outcomes[later.OutcomeDone] != 1 || s.LostLeases+s.Refused+s.Unclear != 0 {
				t.Errorf("got %+v, want one done and no lost lease", s)
			}
			r.stopped()
		})
	})

	t.Run("an open transaction does not make renewals more frequent", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			locked := &lockedRow{Store: b.store}
			w, err := worker.New(locked, handle(func(ctx context.Context, j *later.Job[task]) error {
				locked.id.Store(id)
				j.MarkSettled()
				err := obedient(ctx, 30*time.Second)
				locked.id.Store(0)
				b.store.settleInTx(t, j)
				return err
			}), worker.Config{Lease: 3 * time.Second, Logger: slog.New(b.log)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan error)
			go func() { done <- w.Run(ctx) }()
			b.sleep(31 * time.Second)
			b.wantOutcomes(id, "done")
			if s := w.Stats(); s.LostLeases != 0 || s.Outcomes[later.OutcomeDone] != 1 {
				t.Errorf("got %+v, want one done and no lost lease", s)
			}
			if n := locked.renewals.Load(); n > 31 {
				t.Errorf("got %d renewals in 30 s, want one a second", n)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	})
}

// lockedRow is a store whose row with that id a transaction locks, so that it is
// neither renewed nor claimed.
type lockedRow struct {
	later.Store
	id       atomic.Int64
	renewals atomic.Int64
}

func (s *lockedRow) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	req.Lease = time.Hour
	return s.Store.Claim(ctx, req)
}

func (s *lockedRow) Renew(ctx context.Context, leases []later.Lease, d time.Duration) (later.Renewed, error) {
	s.renewals.Add(1)
	var passed []later.Lease
	free := slices.DeleteFunc(slices.Clone(leases), func(l later.Lease) bool {
		if l.ID == s.id.Load() {
			passed = append(passed, l)
			return true
		}
		return false
	})
	renewed, err := s.Store.Renew(ctx, free, d)
	renewed.Passed = passed
	return renewed, err
}

func TestFailureLog(t *testing.T) {
	t.Run("a failed attempt is a warning, a death an error, both after they were stored", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.store.failing(later.ErrUnavailable, "settle")
			b.enqueue(task{}, later.Options{Tenant: "acme", MaxAttempts: 2})
			r := b.run(handleEvery(time.Second, func(context.Context, *later.Job[task]) error {
				return errors.New("boom" + strings.Repeat("x", 10_000))
			}), worker.Config{})
			synctest.Wait()
			b.wantLines(0, "attempt failed")
			b.store.failing(nil)
			b.sleep(10 * time.Second)
			b.wantLines(1, "WARN attempt failed", "job=1", "kind=task", "queue=default", "tenant=acme", "attempt=1", "worker="+r.Name(), "err=boom", "retry_in=1s")
			b.wantLines(1, "ERROR job is dead", "job=1", "attempt=2", "worker="+r.Name(), "err=boom", "reason=failed")
			b.wantLines(0, strings.Repeat("x", 600))
			r.stopped()
		})
	})
}

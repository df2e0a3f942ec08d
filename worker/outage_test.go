package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestOutages(t *testing.T) {
	t.Run("results wait for a database that is away for minutes", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := b.tasks(30, later.Options{})
			var mu sync.Mutex
			starts := map[int64]int{}
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				mu.Lock()
				starts[j.ID]++
				mu.Unlock()
				time.Sleep(time.Duration(j.Payload.N+1) * time.Second)
				return nil
			}), worker.Config{Concurrency: 10})
			b.sleep(500 * time.Millisecond)
			b.store.failing(later.ErrUnavailable, everything...)
			b.sleep(5 * time.Minute)
			if s := r.Stats(); s.Pending != 10 || s.Running != 0 {
				t.Errorf("got %d pending and %d running, want 10 and 0: no slot is free", s.Pending, s.Running)
			}
			b.store.failing(nil)
			b.sleep(2 * time.Minute)
			for _, id := range ids {
				b.wantOutcomes(id, "done")
				if starts[id] != 1 {
					t.Errorf("got %d starts of job %d, want 1", starts[id], id)
				}
			}
			r.stopped()
		})
	})

	t.Run("results that somebody else overtook are reported as refused", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			one := b.run(handle(func(context.Context, *later.Job[task]) error { time.Sleep(time.Millisecond); return nil }), worker.Config{Lease: 5 * time.Second})
			synctest.Wait()
			b.store.failing(later.ErrFull, "settle", "renew", "claim", "sweep") // certainly not stored
			b.sleep(time.Second)
			two := b.beside().run(handle(noop), worker.Config{Lease: 5 * time.Second})
			b.sleep(20 * time.Second)
			b.wantOutcomes(id, "lost done")
			b.store.failing(nil)
			b.sleep(10 * time.Second)
			b.wantOutcomes(id, "lost done")
			b.wantLines(1, "WARN result refused, the lease was lost", "job=1", "attempt=1")
			if s := one.Stats(); s.Refused != 1 || s.Unclear != 0 || s.Outcomes[later.OutcomeDone] != 0 {
				t.Errorf("got %+v, want one refused result", s)
			}
			one.stopped()
			two.stopped()
		})
	})

	t.Run("a settle whose answer was lost is repeated and reported as unclear", func(t *testing.T) {
		// Case 149.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			first := true
			b.store.set(nil, func(op string, _ any) error {
				if op == "settle" && first {
					first = false
					return later.ErrUnavailable
				}
				return nil
			})
			r := b.run(handle(noop), worker.Config{})
			b.sleep(10 * time.Second)
			b.wantOutcomes(id, "done")
			b.wantLines(1, "WARN result refused after a try without an answer", "job=1")
			if s := r.Stats(); s.Unclear != 1 || s.Refused != 0 || s.Pending != 0 {
				t.Errorf("got %+v, want one unclear result", s)
			}
			r.stopped()
		})
	})

	t.Run("a job that this worker claims again while its first result waits is done once", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			b.store.failing(later.ErrFull, "settle", "renew")
			r := b.run(handle(noop), worker.Config{Lease: 5 * time.Second})
			b.sleep(10 * time.Second)
			if s := r.Stats(); s.Pending != 2 {
				t.Errorf("got %d pending results, want those of both claims", s.Pending)
			}
			b.store.failing(nil)
			b.sleep(7 * time.Second)
			b.wantOutcomes(id, "lost done")
			if s := r.Stats(); s.Refused != 1 || s.Outcomes[later.OutcomeDone] != 1 {
				t.Errorf("got %+v, want one done and one refused", s)
			}
			r.stopped()
		})
	})

	t.Run("a settle that loses a deadlock is repeated with the same token", func(t *testing.T) {
		// Case 157: the store gave up after its own tries.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			n, starts := 0, 0
			b.store.set(func(op string, _ any) error {
				if op == "settle" {
					if n++; n <= 3 {
						return later.ErrUnavailable
					}
				}
				return nil
			}, nil)
			r := b.run(handle(func(context.Context, *later.Job[task]) error { starts++; return nil }), worker.Config{})
			b.sleep(5 * time.Second)
			b.wantOutcomes(id, "done")
			tokens := map[int64]bool{}
			for _, c := range b.store.called("settle") {
				tokens[c.arg.([]later.Settlement)[0].Lease.Token] = true
			}
			if starts != 1 || len(tokens) != 1 || n != 4 {
				t.Errorf("got %d starts, %d tokens and %d settles, want 1, 1, 4", starts, len(tokens), n)
			}
			r.stopped()
		})
	})

	t.Run("a full disk makes no storm of messages, and work goes on when there is space", func(t *testing.T) {
		// Case 155.
		bubble(t, func(b *bed) {
			ids := b.tasks(100, later.Options{})
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, time.Second) }), worker.Config{Lease: 30 * time.Second})
			b.sleep(1500 * time.Millisecond)
			b.store.failing(later.ErrFull, "claim", "settle", "renew", "sweep", "beat", "maintain")
			b.sleep(20 * time.Second)
			if n := b.log.count("WARN"); n > 6 {
				t.Errorf("got %d warnings, want at most one for each operation: %s", n, strings.Join(b.log.lines, "\n"))
			}
			b.store.failing(nil)
			b.sleep(2 * time.Minute)
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
			if s := r.Stats(); s.Refused+s.Unclear != 0 {
				t.Errorf("got %+v, want nothing refused", s)
			}
			r.stopped()
		})
	})

	t.Run("a sweep that is too much for its bound is made smaller", func(t *testing.T) {
		bubble(t, func(b *bed) {
			var ids []int64
			for range 150 {
				ids = append(ids, b.enqueue(raw("unknown", `{}`), later.Options{ExpiresIn: time.Second}))
			}
			b.store.hanging(func(ctx context.Context, op string, arg any) error {
				if op == "sweep" && arg.(later.SweepRequest).Limit > 30 {
					<-ctx.Done() // so much cannot be read in time
					return later.ErrUnavailable
				}
				return nil
			})
			r := b.run(handle(noop), worker.Config{Lease: 4 * time.Second})
			b.sleep(time.Minute)
			for _, id := range ids {
				b.wantOutcomes(id, "expired")
			}
			r.stopped()
		})
	})

	t.Run("doomed jobs do not pile up in memory while nothing can be stored", func(t *testing.T) {
		bubble(t, func(b *bed) {
			for range 5000 {
				b.enqueue(raw("unknown", `{}`), later.Options{ExpiresIn: time.Second})
			}
			b.store.failing(later.ErrUnavailable, "settle")
			r := b.run(handle(noop), worker.Config{Lease: 4 * time.Second})
			b.sleep(time.Minute)
			if n := r.Stats().Pending; n > 220 {
				t.Errorf("got %d pending results, want at most two sweeps' worth", n)
			}
			b.store.failing(nil)
			b.sleep(time.Minute)
			if got := r.Stats().Outcomes[later.OutcomeExpired]; got != 5000 {
				t.Errorf("got %d expired, want 5000", got)
			}
			r.stopped()
		})
	})
}

func TestDoneTx(t *testing.T) {
	t.Run("a job that its handler settled in a transaction is done", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error { b.store.settleInTx(t, j); return nil }), worker.Config{})
			synctest.Wait()
			b.wantOutcomes(id, "done")
			if s := r.Stats(); s.Outcomes[later.OutcomeDone] != 1 || s.Refused+s.Unclear != 0 {
				t.Errorf("got %+v, want 1 done and nothing refused", s)
			}
			if n := b.log.count("WARN"); n != 0 {
				t.Errorf("got %d warnings, want none", n)
			}
			r.stopped()
		})
	})

	t.Run("an error after the commit is unclear: it may have come from a rollback", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error { b.store.settleInTx(t, j); return errors.New("boom") }),
				worker.Config{OnError: func(context.Context, worker.Failure) { t.Error("got OnError, want none") }})
			synctest.Wait()
			b.wantOutcomes(id, "done")
			b.wantLines(1, "WARN handler failed after DoneTx; whether its transaction was committed is not known", "boom")
			if s := r.Stats(); s.Unclear != 1 || s.Outcomes[later.OutcomeDone] != 0 {
				t.Errorf("got %+v, want one unclear result", s)
			}
			r.stopped()
		})
	})

	t.Run("a transaction that was not committed is a failed attempt", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ends := []error{nil, errors.New("boom"), later.Permanent(errors.New("boom")), later.Snooze(time.Hour)}
			ids := b.tasks(len(ends), later.Options{})
			last := b.enqueue(task{N: 0}, later.Options{MaxAttempts: 1})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				j.MarkSettled() // and its transaction is rolled back
				return ends[j.Payload.N]
			}), worker.Config{})
			synctest.Wait()
			b.wantOutcomes(ids[0], "retry")
			b.wantOutcomes(ids[1], "retry")
			b.wantOutcomes(ids[2], "dead")
			b.wantOutcomes(ids[3], "snoozed")
			b.wantOutcomes(last, "dead")
			for _, id := range []int64{ids[0], ids[1], ids[2], last} {
				if got := b.find(id).Errors[0].Error; !strings.HasPrefix(got, "the transaction of DoneTx was not committed") {
					t.Errorf("got the error %q, want it to say that", got)
				}
			}
			r.stopped()
		})
	})

	t.Run("a handler may go on after the commit for as long as it likes", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				b.store.settleInTx(t, j)
				if err := obedient(ctx, time.Minute); err != nil {
					t.Errorf("got %v, want no interruption", err)
				}
				return nil
			}), worker.Config{Lease: 3 * time.Second})
			b.sleep(61 * time.Second)
			b.wantOutcomes(id, "done")
			if s := r.Stats(); s.LostLeases != 0 || s.Outcomes[later.OutcomeDone] != 1 {
				t.Errorf("got %+v, want no lost lease and 1 done", s)
			}
			r.stopped()
		})
	})

	t.Run("a transaction that nobody ends delays no other job", func(t *testing.T) {
		bubble(t, func(b *bed) {
			stuck := b.tasks(1, later.Options{})[0]
			var locked atomic.Bool
			locked.Store(true)
			b.store.hanging(func(ctx context.Context, op string, arg any) error {
				if op == "settle" && locked.Load() {
					for _, s := range arg.([]later.Settlement) {
						if s.Lease.ID == stuck {
							<-ctx.Done() // waits for the row's lock
							return later.ErrUnavailable
						}
					}
				}
				return nil
			})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				if j.ID == stuck {
					j.MarkSettled()
				}
				return nil
			}), worker.Config{RenewEvery: time.Second})
			synctest.Wait()
			ids := b.tasks(500, later.Options{})
			b.sleep(1200 * time.Millisecond) // a poll
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
			b.sleep(11 * time.Second)
			tries := 0
			for _, c := range b.store.called("settle") {
				if s := c.arg.([]later.Settlement); len(s) == 1 && s[0].Lease.ID == stuck {
					tries++
				}
			}
			if tries < 2 || tries > 4 {
				t.Errorf("got %d tries that hang for 2 s in 12 s, want 2 to 4", tries)
			}
			locked.Store(false)
			b.sleep(10 * time.Second)
			if j := b.find(stuck); j.State == later.StateRunning {
				t.Errorf("got %s, want the job settled", j.State)
			}
			r.stopped()
		})
	})
}

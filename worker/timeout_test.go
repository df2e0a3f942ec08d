package worker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestTimeouts(t *testing.T) {
	t.Run("timeouts are counted", func(t *testing.T) {
		// Case 95.
		bubble(t, func(b *bed) {
			starts := 0
			id := b.tasks(1, later.Options{MaxAttempts: 3, Timeout: time.Second})[0]
			r := b.run(handleEvery(time.Second, func(ctx context.Context, _ *later.Job[task]) error {
				starts++
				return obedient(ctx, time.Hour)
			}), worker.Config{})
			b.sleep(time.Minute)
			j := b.find(id)
			if starts != 3 || j.State != later.StateDead || j.DeadReason != later.DeadTimeout || len(j.Errors) != 3 {
				t.Errorf("got %d starts and %s (%q), want 3 and dead, timeout", starts, j.State, j.DeadReason)
			}
			for _, e := range j.Errors {
				if !strings.HasPrefix(e.Error, "timed out after 1s") {
					t.Errorf("got the error %q, want it to begin with the timeout", e.Error)
				}
			}
			r.stopped()
		})
	})

	t.Run("the result of a handler whose context ended is stored at once", func(t *testing.T) {
		// Case 97.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{Timeout: 100 * time.Millisecond})[0]
			b.store.hanging(func(ctx context.Context, op string, _ any) error { return ctx.Err() })
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error { <-ctx.Done(); return ctx.Err() }), worker.Config{})
			b.sleep(101 * time.Millisecond)
			b.wantOutcomes(id, "retry")
			r.stopped()
		})
	})

	t.Run("a handler that ignores its timeout is abandoned, its slot stays taken", func(t *testing.T) {
		// Case 76.
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			id := b.tasks(1, later.Options{Timeout: time.Second})[0]
			first := true
			var others atomic.Int32
			r := b.run(handleEvery(time.Minute, func(ctx context.Context, j *later.Job[task]) error {
				if j.ID == id && first {
					first = false
					<-release
				}
				if j.ID != id {
					if n := others.Add(1); n > 1 {
						t.Errorf("got %d others at once, want 1: the other slot is taken", n)
					}
					defer others.Add(-1)
					runtime.Gosched()
				}
				return nil
			}), worker.Config{Concurrency: 2, Grace: 2 * time.Second, Lease: 3 * time.Second})
			b.sleep(2900 * time.Millisecond)
			b.wantOutcomes(id, "")
			b.sleep(200 * time.Millisecond)
			b.wantOutcomes(id, "retry")
			if got := b.find(id).Errors[0].Error; got != "timed out after 1s; still running 2s later" {
				t.Errorf("got the error %q, want that it timed out and still runs", got)
			}
			if s := r.Stats(); s.Abandoned != 1 || s.AbandonedTotal != 1 || s.Running != 0 {
				t.Errorf("got %+v, want one abandoned handler", s)
			}
			renewals := len(b.store.called("renew"))
			began := time.Now()
			ids := b.tasks(10, later.Options{})
			b.sleep(10 * time.Second)
			for _, other := range ids {
				b.wantOutcomes(other, "done") // the other slot works
			}
			for _, c := range b.store.called("claim") {
				if c.at.Before(began) {
					continue
				}
				if limit := c.arg.(later.ClaimRequest).Limit; limit > 1 {
					t.Errorf("got a claim for %d jobs, want 1: the other slot is taken", limit)
				}
				if c.got > 0 {
					break // from now on, jobs as short as these are claimed ahead
				}
			}
			if n := len(b.store.called("renew")); n != renewals {
				t.Errorf("got %d renewals for an abandoned job, want none", n-renewals)
			}
			b.sleep(2 * time.Minute)
			b.wantOutcomes(id, "retry done")
			close(release)
			synctest.Wait()
			b.wantOutcomes(id, "retry done")
			b.wantLines(1, "WARN late result of a handler ignored")
			if s := r.Stats(); s.Abandoned != 0 {
				t.Errorf("got %d abandoned handlers after it returned, want 0", s.Abandoned)
			}
			r.stopped()
		})
	})

	t.Run("when abandoned handlers hold all slots, Run says so and ends", func(t *testing.T) {
		// Case 139.
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			defer close(release)
			ids := b.tasks(4, later.Options{Timeout: time.Second})
			r := b.run(handle(deaf(release)), worker.Config{Concurrency: 4})
			<-r.done
			if !errors.Is(r.err, worker.ErrStuck) {
				t.Errorf("got the error %v, want ErrStuck", r.err)
			}
			for _, id := range ids {
				b.wantOutcomes(id, "retry")
			}
		})
	})

	t.Run("jobs are ended by the sweep while all slots hang", func(t *testing.T) {
		// Case 74.
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			hanging := b.tasks(2, later.Options{Timeout: time.Hour})
			r := b.run(handle(deaf(release)), worker.Config{Concurrency: 2, Lease: 4 * time.Second})
			b.sleep(time.Second)
			expiring := b.tasks(300, later.Options{ExpiresIn: 10 * time.Second})
			b.sleep(12 * time.Second)
			for _, id := range expiring {
				b.wantOutcomes(id, "expired")
			}
			close(release)
			synctest.Wait()
			for _, id := range hanging {
				b.wantOutcomes(id, "done")
			}
			r.stopped()
		})
	})

	t.Run("runtime.Goexit frees the slot", func(t *testing.T) {
		// Case 137.
		bubble(t, func(b *bed) {
			ids := b.tasks(3, later.Options{MaxAttempts: 1})
			r := b.run(handle(func(context.Context, *later.Job[task]) error { runtime.Goexit(); return nil }), worker.Config{Concurrency: 1})
			synctest.Wait()
			for _, id := range ids {
				j := b.find(id)
				if j.State != later.StateDead || !strings.Contains(j.Errors[0].Error, "handler goroutine exited") {
					t.Errorf("got %s with %+v, want dead because it exited", j.State, j.Errors)
				}
			}
			r.stopped()
		})
	})
}

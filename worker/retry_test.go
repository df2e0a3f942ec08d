package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestRetries(t *testing.T) {
	t.Run("texts that no database stores are stored", func(t *testing.T) {
		// Case 2; the table of TestDecide has the texts themselves.
		bubble(t, func(b *bed) {
			ends := []func() error{
				func() error { return errors.New("boom\x00tail") },
				func() error { return errors.New("caf\xe9") },
				func() error { panic(strings.Repeat("x", 5<<20)) },
				func() error { return errors.New("é€"[:4]) },
			}
			ids := b.tasks(len(ends), later.Options{MaxAttempts: 2})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error { return ends[j.Payload.N]() }), worker.Config{})
			b.sleep(time.Minute)
			for i, id := range ids {
				j := b.find(id)
				if j.State != later.StateDead || j.Attempt != 2 || len(j.Errors) != 2 {
					t.Errorf("job %d: got %s after %d attempts with %d errors, want dead, 2, 2", i, j.State, j.Attempt, len(j.Errors))
				}
			}
			r.stopped()
		})
	})

	t.Run("a text that the store refuses all the same is replaced", func(t *testing.T) {
		// Case 2: the attempt counts, the worker lives, and so do the others.
		bubble(t, func(b *bed) {
			refuse := errors.New("invalid byte sequence")
			b.store.set(func(op string, arg any) error {
				if op == "settle" {
					for _, s := range arg.([]later.Settlement) {
						if strings.Contains(s.Error, "cursed") {
							return refuse
						}
					}
				}
				return nil
			}, nil)
			ids := b.tasks(20, later.Options{MaxAttempts: 2})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				if j.Payload.N == 7 {
					return errors.New("cursed")
				}
				return nil
			}), worker.Config{Concurrency: 20})
			synctest.Wait()
			for i, id := range ids {
				if i == 7 {
					b.wantOutcomes(id, "retry")
					if got := b.find(id).Errors; len(got) != 1 || got[0].Error != "failed; its error could not be stored" {
						t.Errorf("got the history %+v, want one that says it", got)
					}
				} else {
					b.wantOutcomes(id, "done")
				}
			}
			b.sleep(time.Minute)
			if j := b.find(ids[7]); j.State != later.StateDead || len(j.Errors) != 2 {
				t.Errorf("got %s with %d errors, want dead with 2", j.State, len(j.Errors))
			}
			r.stopped()
		})
	})

	t.Run("a result that the store never takes is kept without a storm", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.store.set(func(op string, arg any) error {
				if op == "settle" && arg.([]later.Settlement)[0].Lease.ID == 1 {
					return errors.New("permission denied")
				}
				return nil
			}, nil)
			ids := b.tasks(2, later.Options{})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error { return nil }), worker.Config{Concurrency: 1})
			b.sleep(10 * time.Minute)
			b.wantOutcomes(ids[1], "done") // the other goes on, although there is one slot
			b.wantLines(1, "ERROR outcome could not be stored")
			if n := len(b.store.called("settle")); n > 300 {
				t.Errorf("got %d settles in 10 min, want one in about 5 s", n)
			}
			b.store.failing(nil)
			b.sleep(10 * time.Second)
			b.wantOutcomes(ids[0], "done")
			r.stopped()
		})
	})

	t.Run("delays grow up to the cap and never run over", func(t *testing.T) {
		// Case 91, through the runtime.
		bubble(t, func(b *bed) {
			h := later.NewHandlers()
			later.HandleWith(h, later.HandlerConfig{Backoff: later.Backoff{Base: time.Second, Factor: 10, Cap: time.Hour, Jitter: -1}},
				func(context.Context, *later.Job[task]) error { return errors.New("boom") })
			b.tasks(1, later.Options{MaxAttempts: 100})
			r := b.run(h, worker.Config{Poll: 10 * time.Second})
			b.sleep(5 * 24 * time.Hour)
			var last time.Duration
			n := 0
			for _, c := range b.store.called("settle") {
				s := c.arg.([]later.Settlement)[0]
				if s.Outcome != later.OutcomeRetry {
					continue
				}
				n++
				if s.Delay < last || s.Delay > time.Hour {
					t.Fatalf("got the delay %v after %v, want it to grow up to 1 h", s.Delay, last)
				}
				last = s.Delay
			}
			if n != 99 || last != time.Hour {
				t.Errorf("got %d retries, the last after %v, want 99 and 1 h", n, last)
			}
			r.stopped()
		})
	})

	t.Run("attempts and expiry: whichever limit comes first", func(t *testing.T) {
		// Case 94.
		for _, c := range []struct {
			every  time.Duration
			starts []time.Duration
			reason later.DeadReason
		}{
			{time.Minute, []time.Duration{0, 1, 2, 3, 4}, later.DeadFailed},
			{3 * time.Minute, []time.Duration{0, 3, 6, 9}, later.DeadExpired},
		} {
			bubble(t, func(b *bed) {
				begin := time.Now()
				var starts []time.Duration
				id := b.tasks(1, later.Options{MaxAttempts: 5, ExpiresIn: 10 * time.Minute})[0]
				r := b.run(handleEvery(c.every, func(context.Context, *later.Job[task]) error {
					starts = append(starts, time.Since(begin).Truncate(time.Minute)/time.Minute)
					return errors.New("boom")
				}), worker.Config{Poll: 100 * time.Millisecond})
				time.Sleep(20 * time.Minute)
				if got, want := fmt.Sprint(starts), fmt.Sprint(c.starts); got != want {
					t.Errorf("every %v: got starts at %v min, want %v", c.every, got, want)
				}
				j := b.find(id)
				if j.State != later.StateDead || j.DeadReason != c.reason {
					t.Errorf("every %v: got %s (%q), want dead, %q", c.every, j.State, j.DeadReason, c.reason)
				}
				if c.reason == later.DeadExpired && !strings.Contains(j.Errors[len(j.Errors)-1].Error, "expires at") {
					t.Errorf("got the error %q, want the limit in it", j.Errors[len(j.Errors)-1].Error)
				}
				r.stopped()
			})
		}
	})

	t.Run("a job that expires while it waits is expired, not failed", func(t *testing.T) {
		// Case 94, the last sentence.
		bubble(t, func(b *bed) {
			id := b.enqueue(raw("unknown", `{}`), later.Options{ExpiresIn: time.Minute})
			r := b.run(handle(noop), worker.Config{})
			b.sleep(2 * time.Minute)
			b.wantOutcomes(id, "expired")
			r.stopped()
		})
	})

	t.Run("snoozes cost no attempt", func(t *testing.T) {
		bubble(t, func(b *bed) {
			runs := 0
			id := b.tasks(1, later.Options{MaxAttempts: 1})[0]
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				if j.Attempt != 1 {
					t.Errorf("got attempt %d, want 1", j.Attempt)
				}
				if runs++; runs <= 300 {
					return later.Snooze(time.Second)
				}
				return nil
			}), worker.Config{})
			b.sleep(20 * time.Minute)
			if j := b.find(id); j.State != later.StateEnded || runs != 301 {
				t.Errorf("got %s after %d runs, want ended after 301", j.State, runs)
			}
			r.stopped()
		})
	})

	t.Run("ten thousand failures leave a short history", func(t *testing.T) {
		// Cases 89, 103.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{MaxAttempts: later.UnlimitedAttempts})[0]
			n := 0
			r := b.run(handleEvery(time.Millisecond, func(context.Context, *later.Job[task]) error {
				if n++; n > 10_000 {
					return later.Permanent(errors.New("enough"))
				}
				return errors.New(fmt.Sprint(n, strings.Repeat("x", 64<<10)))
			}), worker.Config{Poll: time.Millisecond})
			b.sleep(time.Minute)
			j := b.find(id)
			if j.State != later.StateDead || j.Attempt != 10_001 {
				t.Fatalf("got %s after %d attempts, want dead after 10001", j.State, j.Attempt)
			}
			if len(j.Errors) > later.MaxAttemptErrors || j.Errors[0].Attempt != 1 || j.Errors[len(j.Errors)-1].Error != "enough" {
				t.Errorf("got %d errors, want at most %d with the first and the newest", len(j.Errors), later.MaxAttemptErrors)
			}
			for _, e := range j.Errors {
				if len(e.Error) > later.MaxErrorBytes {
					t.Errorf("got an error of %d bytes, want at most %d", len(e.Error), later.MaxErrorBytes)
				}
			}
			r.stopped()
		})
	})
}

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
			r := b.run(handleEvery(time.Minute, func(ctx context.Context, j *later.Job[task]) error {
				if j.ID == id && first {
					first = false
					<-release
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
			others := b.tasks(10, later.Options{})
			b.sleep(10 * time.Second)
			for _, other := range others {
				b.wantOutcomes(other, "done") // the other slot works
			}
			for _, c := range b.store.called("claim") {
				if c.at.After(time.Now().Add(-9*time.Second)) && c.arg.(later.ClaimRequest).Limit > 1 {
					t.Fatalf("got a claim for %d jobs, want 1: the other slot is taken", c.arg.(later.ClaimRequest).Limit)
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

func TestHooks(t *testing.T) {
	t.Run("OnError is called for each failed attempt, OnDead once", func(t *testing.T) {
		bubble(t, func(b *bed) {
			var mu sync.Mutex
			var calls []string
			note := func(hook string) func(context.Context, worker.Failure) {
				return func(ctx context.Context, f worker.Failure) {
					mu.Lock()
					defer mu.Unlock()
					calls = append(calls, fmt.Sprintf("%s attempt %d %s %s %q errors %d", hook, f.Job.Attempt, f.Outcome, f.Reason, f.Err, len(f.Job.Errors)))
					// What the hook is told has been stored.
					if j := b.find(f.Job.ID); len(j.Errors) != f.Job.Attempt {
						t.Errorf("%s: got %d stored errors, want %d", hook, len(j.Errors), f.Job.Attempt)
					}
				}
			}
			b.tasks(1, later.Options{MaxAttempts: 2})
			r := b.run(handleEvery(time.Second, func(context.Context, *later.Job[task]) error { return errors.New("boom") }),
				worker.Config{OnError: note("OnError"), OnDead: note("OnDead")})
			b.sleep(10 * time.Second)
			want := []string{
				`OnError attempt 1 retry  "boom" errors 1`,
				`OnError attempt 2 dead failed "boom" errors 2`,
				`OnDead attempt 2 dead failed "boom" errors 2`,
			}
			if got := strings.Join(calls, "\n"); got != strings.Join(want, "\n") {
				t.Errorf("got the calls\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
			r.stopped()
		})
	})

	t.Run("a panic in a handler reaches the hook as an error with a stack", func(t *testing.T) {
		bubble(t, func(b *bed) {
			cause := errors.New("inner")
			b.tasks(1, later.Options{})
			r := b.run(handle(func(context.Context, *later.Job[task]) error { panic(cause) }), worker.Config{
				OnError: func(_ context.Context, f worker.Failure) {
					var p *worker.PanicError
					if !errors.As(f.Err, &p) || p.Value != cause || !errors.Is(f.Err, cause) || !strings.Contains(f.Stack, "retry_test.go") {
						t.Errorf("got %v with the stack %q, want a PanicError", f.Err, f.Stack)
					}
				},
			})
			synctest.Wait()
			r.stopped()
		})
	})

	t.Run("hooks that panic, exit or hang stop nothing", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			defer close(release)
			ids := b.tasks(3, later.Options{MaxAttempts: 1})
			r := b.run(handle(func(context.Context, *later.Job[task]) error { return errors.New("boom") }), worker.Config{
				Concurrency: 1,
				OnDead: func(ctx context.Context, f worker.Failure) {
					switch f.Job.ID {
					case ids[0]:
						panic("hook")
					case ids[1]:
						runtime.Goexit()
					}
					<-release
				},
			})
			b.sleep(worker.HookTimeout + time.Second)
			for _, id := range ids {
				b.wantOutcomes(id, "dead")
			}
			b.wantLines(1, "ERROR hook panicked", "OnDead")
			b.wantLines(1, "ERROR hook does not return", "OnDead")
			id := b.enqueue(task{}, later.Options{MaxAttempts: 1})
			b.sleep(time.Minute)
			b.wantOutcomes(id, "dead")
			r.stopped()
		})
	})

	t.Run("a slow hook holds its slot, so that hooks do not pile up", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(10, later.Options{MaxAttempts: 1})
			now, most := 0, 0
			var mu sync.Mutex
			r := b.run(handle(func(context.Context, *later.Job[task]) error { return errors.New("boom") }), worker.Config{
				Concurrency: 2,
				OnError: func(context.Context, worker.Failure) {
					mu.Lock()
					now++
					most = max(most, now)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					now--
					mu.Unlock()
				},
			})
			b.sleep(20 * time.Second)
			if most != 2 {
				t.Errorf("got %d hooks at once, want 2", most)
			}
			r.stopped()
		})
	})
}

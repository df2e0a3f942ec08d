package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

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

	t.Run("OnDead is called when the answer of the settle was lost", func(t *testing.T) {
		bubble(t, func(b *bed) {
			var first atomic.Bool
			lose := func(op string, _ any) error {
				if op == "settle" && first.CompareAndSwap(true, false) {
					return later.ErrUnavailable
				}
				return nil
			}
			var calls []string
			r := b.run(handle(func(context.Context, *later.Job[task]) error { return later.Permanent(errors.New("boom")) }), worker.Config{
				Poll:    100 * time.Millisecond,
				OnError: func(_ context.Context, f worker.Failure) { calls = append(calls, fmt.Sprint("OnError ", f.Job.ID)) },
				OnDead:  func(_ context.Context, f worker.Failure) { calls = append(calls, fmt.Sprint("OnDead ", f.Job.ID)) },
			})
			first.Store(true)
			b.store.set(nil, lose)
			b.tasks(1, later.Options{})
			b.sleep(5 * time.Second)
			if got := strings.Join(calls, ", "); got != "OnError 1, OnDead 1" {
				t.Errorf("got the calls %q, want both for job 1", got)
			}
			b.wantLines(1, "ERROR job is dead", "job=1")
			if s := r.Stats(); s.Outcomes[later.OutcomeDead] != 1 || s.Unclear+s.Refused != 0 {
				t.Errorf("got %+v, want one dead and nothing unclear", s)
			}
			r.stopped()
		})
	})

	t.Run("OnDead is not called for a death that was not stored", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			b.store.failing(later.ErrUnavailable, "settle")
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				// Somebody else ends it meanwhile.
				if _, err := b.store.Store.Settle(b.Context(), []later.Settlement{{Lease: j.HeldLease(), Outcome: later.OutcomeDone}}); err != nil {
					t.Error(err)
				}
				return later.Permanent(errors.New("boom"))
			}), worker.Config{OnDead: func(context.Context, worker.Failure) { t.Error("got OnDead, want none") }})
			synctest.Wait()
			b.store.failing(nil)
			b.sleep(5 * time.Second)
			b.wantOutcomes(id, "done")
			if s := r.Stats(); s.Unclear != 1 || s.Outcomes[later.OutcomeDead] != 0 {
				t.Errorf("got %+v, want one unclear result", s)
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
					if !errors.As(f.Err, &p) || p.Value != cause || !errors.Is(f.Err, cause) || !strings.Contains(f.Stack, "hooks_test.go") {
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

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestClaiming(t *testing.T) {
	t.Run("never more than there are free slots", func(t *testing.T) {
		// Case 82: what is claimed runs at once; nothing waits in memory while
		// its lease runs out.
		bubble(t, func(b *bed) {
			ids := b.tasks(50, later.Options{})
			var now, most atomic.Int32
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return obedient(ctx, 5*time.Second)
			}), worker.Config{Concurrency: 1, Lease: 30 * time.Second})
			b.sleep(4 * time.Minute)
			if most.Load() != 1 {
				t.Errorf("got %d jobs at once, want 1", most.Load())
			}
			b.sleep(2 * time.Minute)
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
			for _, c := range b.store.called("claim") {
				if limit := c.arg.(later.ClaimRequest).Limit; limit != 1 {
					t.Fatalf("got a claim of %d jobs, want 1", limit)
				}
			}
			r.stopped()
		})
	})

	t.Run("claimed and running are never more than the slots", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(200, later.Options{})
			var now atomic.Int32
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				if n := now.Add(1); n > 7 {
					t.Errorf("got %d jobs at once, want at most 7", n)
				}
				defer now.Add(-1)
				return obedient(ctx, time.Duration(j.Payload.N%13+1)*100*time.Millisecond)
			}), worker.Config{Concurrency: 7})
			b.sleep(time.Minute)
			if got := r.Stats().Outcomes[later.OutcomeDone]; got != 200 {
				t.Errorf("got %d jobs done, want 200", got)
			}
			r.stopped()
		})
	})

	t.Run("a backlog is drained without waiting for a poll", func(t *testing.T) {
		// Cases 170, 173: no cool-down after a full claim.
		bubble(t, func(b *bed) {
			b.tasks(1000, later.Options{})
			begin := time.Now()
			r := b.run(handle(noop), worker.Config{Concurrency: 10, Poll: time.Minute})
			synctest.Wait()
			if got := r.Stats().Outcomes[later.OutcomeDone]; got != 1000 {
				t.Errorf("got %d jobs done, want 1000", got)
			}
			if took := time.Since(begin); took != 0 {
				t.Errorf("got %v for it, want no wait at all", took)
			}
			r.stopped()
		})
	})

	t.Run("an idle worker asks once in each Poll, with jitter", func(t *testing.T) {
		bubble(t, func(b *bed) {
			r := b.run(handle(noop), worker.Config{Poll: time.Second})
			b.sleep(100 * time.Second)
			claims := b.store.called("claim")
			if n := len(claims); n < 90 || n > 112 {
				t.Errorf("got %d claims in 100 s, want about 100", n)
			}
			waits := map[time.Duration]bool{}
			for i := 1; i < len(claims); i++ {
				wait := claims[i].at.Sub(claims[i-1].at)
				waits[wait] = true
				if wait < 900*time.Millisecond || wait > 1100*time.Millisecond {
					t.Fatalf("got %v between two claims, want 1 s ±10%%", wait)
				}
			}
			if len(waits) < 50 {
				t.Errorf("got %d different waits, want jitter", len(waits))
			}
			r.stopped()
		})
	})

	t.Run("jobs that trickle in do not make it ask more often", func(t *testing.T) {
		bubble(t, func(b *bed) {
			r := b.run(handle(noop), worker.Config{Poll: time.Second})
			for range 100 {
				b.tasks(1, later.Options{})
				time.Sleep(300 * time.Millisecond)
			}
			if n := len(b.store.called("claim")); n > 34 {
				t.Errorf("got %d claims in 30 s, want about 30", n)
			}
			r.stopped()
		})
	})

	t.Run("a claim that is too much for its bound is made smaller, then larger again", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := b.tasks(60, later.Options{})
			var huge atomic.Bool
			huge.Store(true)
			b.store.hanging(func(ctx context.Context, op string, arg any) error {
				if op == "claim" && huge.Load() && arg.(later.ClaimRequest).Limit > 7 {
					<-ctx.Done() // so much cannot be read in time
					return fmt.Errorf("%w: %w", later.ErrUnavailable, ctx.Err())
				}
				return nil
			})
			r := b.run(handle(noop), worker.Config{Concurrency: 30, Lease: 2 * time.Second})
			b.sleep(time.Minute)
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
			var limits []int
			for _, c := range b.store.called("claim")[:4] {
				limits = append(limits, c.arg.(later.ClaimRequest).Limit)
			}
			if got := fmt.Sprint(limits); got != "[30 15 7 14]" {
				t.Errorf("got the limits %s, want them halved until it works, then doubled", got)
			}
			huge.Store(false)
			b.sleep(10 * time.Second)
			claims := b.store.called("claim")
			if got := claims[len(claims)-1].arg.(later.ClaimRequest).Limit; got != 30 {
				t.Errorf("got the limit %d in the end, want all 30 slots", got)
			}
			r.stopped()
		})
	})

	t.Run("kinds without a handler are left alone", func(t *testing.T) {
		// Case 142.
		bubble(t, func(b *bed) {
			var unknown []int64
			for i := range 100 {
				unknown = append(unknown, b.enqueue(raw("gone", fmt.Sprint(i)), later.Options{}))
			}
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(noop), worker.Config{Poll: time.Minute})
			b.sleep(24 * time.Hour)
			if got := b.find(id).State; got != later.StateEnded {
				t.Errorf("got the state %s for the known kind, want ended", got)
			}
			for _, id := range unknown {
				if j := b.find(id); j.State != later.StateReady || j.Attempt != 0 {
					t.Fatalf("got %s with attempt %d for an unknown kind, want ready and untouched", j.State, j.Attempt)
				}
			}
			r.stopped()
		})
	})

	t.Run("a store that fails is asked again with growing pauses, and said so once", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.store.failing(later.ErrUnavailable, "claim", "renew", "sweep", "beat", "maintain", "cancel requests")
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(noop), worker.Config{Poll: time.Second})
			b.sleep(10 * time.Minute)
			if n := len(b.store.called("claim")); n < 90 || n > 220 {
				t.Errorf("got %d claims in 10 min, want one in about 5 s", n)
			}
			b.wantLines(1, "WARN", "op=claim")
			b.store.failing(nil)
			b.sleep(7 * time.Second)
			b.wantOutcomes(id, "done")
			b.wantLines(1, "INFO store operation works again", "op=claim")
			r.stopped()
		})
	})

	for name, op := range map[string]string{"at the start": "check", "later on": "claim"} {
		t.Run("a schema that does not fit ends Run "+name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				b.store.failing(fmt.Errorf("%w: run later migrate up", later.ErrSchema), op)
				r := b.run(handle(noop), worker.Config{})
				<-r.done
				if r.err == nil || !strings.Contains(r.err.Error(), "later migrate up") {
					t.Errorf("got the error %v, want the store's advice", r.err)
				}
			})
		})
	}

	t.Run("a closed store ends Run", func(t *testing.T) {
		bubble(t, func(b *bed) {
			r := b.run(handle(noop), worker.Config{})
			b.sleep(time.Second)
			b.store.Close()
			<-r.done
			if r.err == nil {
				t.Error("got no error, want one")
			}
		})
	})
}

func TestHandlers(t *testing.T) {
	t.Run("a payload that does not decode harms nobody else", func(t *testing.T) {
		// Case 11.
		bubble(t, func(b *bed) {
			bad := b.enqueue(raw("task", `{"n":"x"}`), later.Options{MaxAttempts: 3})
			good := b.tasks(10, later.Options{})
			r := b.run(handleEvery(time.Second, noop), worker.Config{Concurrency: 2})
			b.sleep(time.Minute)
			for _, id := range good {
				b.wantOutcomes(id, "done")
			}
			j := b.find(bad)
			if j.State != later.StateDead || j.DeadReason != later.DeadUndecodable || len(j.Errors) != 3 {
				t.Errorf("got %s (%q) with %d errors, want dead, undecodable, 3", j.State, j.DeadReason, len(j.Errors))
			}
			if string(j.Payload) != `{"n":"x"}` {
				t.Errorf("got the payload %s, want it as it was", j.Payload)
			}
			r.stopped()
		})
	})

	t.Run("payloads of an older and a newer version of the kind are decoded", func(t *testing.T) {
		// Case 143: missing and added fields are tolerated.
		bubble(t, func(b *bed) {
			older := b.enqueue(raw("task", `{}`), later.Options{})
			newer := b.enqueue(raw("task", `{"n":2,"added":{"x":1}}`), later.Options{})
			b.drain(handle(noop), worker.Config{})
			b.wantOutcomes(older, "done")
			b.wantOutcomes(newer, "done")
		})
	})

	t.Run("the handler gets the job with all its options", func(t *testing.T) {
		// Case 209.
		bubble(t, func(b *bed) {
			want := later.Options{
				Queue: "q", Priority: -3, Tenant: "acme", MaxAttempts: 7, Timeout: 90 * time.Second,
				ExpiresIn: time.Hour, Headers: map[string]string{"traceparent": "00-1"},
			}
			id := b.enqueue(raw("task", `{"n": 9007199254740993, "c":1.10}`), want)
			h := later.NewHandlers()
			later.HandleRaw(h, "task", later.HandlerConfig{}, func(ctx context.Context, j *later.Job[json.RawMessage]) error {
				deadline, ok := ctx.Deadline()
				if !ok || time.Until(deadline) != 90*time.Second {
					t.Errorf("got %v until the deadline, want 90 s", time.Until(deadline))
				}
				if string(j.Payload) != `{"n": 9007199254740993, "c":1.10}` {
					t.Errorf("got the payload %s, want the bytes that were enqueued", j.Payload)
				}
				if j.ID != id || j.Queue != "q" || j.Priority != -3 || j.Tenant != "acme" || j.MaxAttempts != 7 || j.Attempt != 1 ||
					j.Timeout != 90*time.Second || !j.ExpiresAt.Equal(j.CreatedAt.Add(time.Hour)) || j.Headers["traceparent"] != "00-1" {
					t.Errorf("got %+v, want what was enqueued", j.Record)
				}
				return nil
			})
			b.drain(h, worker.Config{Queues: []worker.Queue{{Name: "q"}}})
			b.wantOutcomes(id, "done")
		})
	})

	t.Run("what a handler does to its job changes nothing", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := b.tasks(2, later.Options{})
			b.drain(handle(func(_ context.Context, j *later.Job[task]) error {
				j.ID, j.Lease, j.Attempt, j.Kind = 0, later.Lease{}, 99, ""
				return nil
			}), worker.Config{})
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
		})
	})

	t.Run("values of Run's context reach the handlers, its end does not", func(t *testing.T) {
		type key struct{}
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			w := b.worker(handle(func(ctx context.Context, _ *later.Job[task]) error {
				if ctx.Value(key{}) != "v" {
					t.Errorf("got the value %v, want v", ctx.Value(key{}))
				}
				return obedient(ctx, 10*time.Second)
			}), worker.Config{})
			ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), key{}, "v"), time.Second)
			defer cancel()
			if err := w.Run(ctx); err != nil {
				t.Errorf("got the error %v, want none", err)
			}
			b.wantOutcomes(id, "done")
		})
	})

	t.Run("handlers that hold everything of the application's starve nothing here", func(t *testing.T) {
		// Cases 151, 152: no operation of the store is open while handlers run,
		// and renewals and sweeps go on.
		bubble(t, func(b *bed) {
			b.tasks(20, later.Options{})
			var open atomic.Int32
			b.store.set(func(string, any) error { open.Add(1); return nil }, func(string, any) error { open.Add(-1); return nil })
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error {
				return obedient(ctx, 30*time.Second)
			}), worker.Config{Concurrency: 20, Lease: 3 * time.Second})
			for range 29 {
				time.Sleep(time.Second)
				synctest.Wait()
				if n := open.Load(); n != 0 {
					t.Fatalf("got %d open operations while handlers run, want 0", n)
				}
			}
			if n := len(b.store.called("renew")); n < 28 {
				t.Errorf("got %d renewals in 29 s, want one a second", n)
			}
			if n := len(b.store.called("sweep")); n < 25 {
				t.Errorf("got %d sweeps in 29 s, want about one a second", n)
			}
			r.stopped()
		})
	})

	t.Run("a failed enqueue in a handler is an ordinary error to it, tried once", func(t *testing.T) {
		// Cases 158, 161: the library never repeats an insert.
		bubble(t, func(b *bed) {
			inserts := 0
			client := later.NewClient(inserter(func() error { inserts++; return later.ErrUnavailable }))
			id := b.tasks(1, later.Options{})[0]
			b.drain(handle(func(ctx context.Context, _ *later.Job[task]) error {
				if _, err := client.Enqueue(ctx, task{}, later.Options{Priority: 1}); err == nil {
					t.Error("got no error from Enqueue, want one")
				}
				if _, err := client.Enqueue(ctx, raw("task", `{"n":`), later.Options{}); err == nil {
					t.Error("got no error from Enqueue, want one")
				}
				return nil
			}), worker.Config{})
			b.wantOutcomes(id, "done")
			if inserts != 1 {
				t.Errorf("got %d inserts, want 1", inserts)
			}
		})
	})
}

type inserter func() error

func (i inserter) Insert(context.Context, []later.NewJob) ([]later.Enqueued, error) { return nil, i() }

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestShutdown(t *testing.T) {
	t.Run("short jobs finish, long ones are released in time, the rest is not claimed", func(t *testing.T) {
		// Case 131.
		bubble(t, func(b *bed) {
			causes := make(chan error, 60)
			ids := b.tasks(60, later.Options{})
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				if j.Payload.N < 5 {
					return obedient(ctx, 5*time.Second)
				}
				err := obedient(ctx, 60*time.Second)
				causes <- context.Cause(ctx)
				return err
			}), worker.Config{Concurrency: 10})
			synctest.Wait()
			claims := len(b.store.called("claim"))
			begin := time.Now()
			if err := r.stop(); err != nil {
				t.Errorf("got the error %v, want none: all handlers returned", err)
			}
			if took := time.Since(begin); took < 25*time.Second || took > 29*time.Second {
				t.Errorf("got %v for the drain, want 25 s to 29 s", took)
			}
			if n := len(b.store.called("claim")) - claims; n != 0 {
				t.Errorf("got %d claims after the signal, want 0", n)
			}
			for i, id := range ids {
				if i < 5 {
					b.wantOutcomes(id, "done")
				} else if j := b.find(id); j.State != later.StateReady || j.Attempt != 0 {
					t.Errorf("job %d: got %s with attempt %d, want ready and 0", i, j.State, j.Attempt)
				}
			}
			close(causes)
			for cause := range causes {
				if !errors.Is(cause, later.ErrShutdown) {
					t.Errorf("got the cause %v, want a shutdown", cause)
				}
			}
			if s := r.Stats(); s.Outcomes[later.OutcomeReleased] != 5 || s.Outcomes[later.OutcomeDone] != 5 {
				t.Errorf("got the outcomes %v, want 5 done and 5 released", s.Outcomes)
			}
		})
	})

	t.Run("under SIGKILL all jobs come back by their leases", func(t *testing.T) {
		// Case 131, the last sentence.
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			defer close(release)
			ids := b.tasks(10, later.Options{})
			dead := b.run(handle(deaf(release)), worker.Config{Lease: 10 * time.Second})
			synctest.Wait()
			dead.crash()
			other := b.beside().run(handle(noop), worker.Config{})
			b.sleep(12 * time.Second)
			for _, id := range ids {
				b.wantOutcomes(id, "lost done")
			}
			other.stopped()
		})
	})

	for _, c := range []struct {
		name string
		down bool
	}{{"", false}, {" with the database down", true}} {
		t.Run("Stop returns at its deadline"+c.name, func(t *testing.T) {
			// Case 133.
			bubble(t, func(b *bed) {
				release := make(chan struct{})
				ids := b.tasks(2, later.Options{})
				r := b.run(handle(deaf(release)), worker.Config{})
				synctest.Wait()
				if c.down {
					b.store.hanging(func(ctx context.Context, _ string, _ any) error { <-ctx.Done(); return later.ErrUnavailable })
				}
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				begin := time.Now()
				err := r.Stop(ctx)
				if took := time.Since(begin); took > 2500*time.Millisecond {
					t.Errorf("got %v for Stop, want at most 2.5 s", took)
				}
				var left *worker.DrainError
				if !errors.Is(err, worker.ErrDrainDeadline) || !errors.As(err, &left) || len(left.Running) != 2 || left.Running[0].ID != ids[0] {
					t.Fatalf("got the error %v, want one that names both jobs", err)
				}
				if !strings.Contains(err.Error(), "job 1 (task), job 2 (task)") {
					t.Errorf("got the error %q, want the jobs in it", err)
				}
				if got := len(left.Unsettled) == 2; got != c.down {
					t.Errorf("got %d unsettled jobs, want them exactly when the database is down", len(left.Unsettled))
				}
				if again := r.Stop(ctx); again != nil {
					t.Errorf("got the error %v from a second Stop, want none: nothing runs", again)
				}
				for _, id := range ids {
					if j := b.find(id); !c.down && (j.State != later.StateReady || j.Attempt != 0) {
						t.Errorf("got %s with attempt %d, want released", j.State, j.Attempt)
					}
				}
				// Nothing of the library's runs any more: after the handlers
				// returned, the bubble would not end otherwise.
				close(release)
			})
		})
	}

	t.Run("Stop before Run makes Run return at once", func(t *testing.T) {
		// Cases 133, 146.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			w := b.worker(handle(noop), worker.Config{})
			for range 2 {
				if err := w.Stop(b.Context()); err != nil {
					t.Errorf("got the error %v, want none", err)
				}
			}
			if err := w.Run(b.Context()); err != nil {
				t.Errorf("got the error %v from Run, want none", err)
			}
			if sum, err := w.Drain(b.Context()); err != nil || sum.Claimed != 0 {
				t.Errorf("got %+v and the error %v from Drain, want nothing", sum, err)
			}
			if j := b.find(id); j.State != later.StateReady {
				t.Errorf("got %s, want ready", j.State)
			}
		})
	})

	t.Run("a signal during the start leaves nothing claimed", func(t *testing.T) {
		// Case 146: at every operation of the start.
		for _, at := range []string{"before", "check", "claim", "claimed", "sweep", "beat"} {
			bubble(t, func(b *bed) {
				id := b.tasks(1, later.Options{MaxAttempts: 1})[0]
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if at == "before" {
					cancel()
				}
				signal := func() {
					cancel()
					synctest.Wait()             // Run has seen it
					time.Sleep(time.Nanosecond) // and done what it does
				}
				b.store.set(func(op string, _ any) error {
					if op == at {
						signal()
					}
					return nil
				}, func(op string, _ any) error {
					if op == "claim" && at == "claimed" {
						signal() // the store has leased the job, its answer comes
					}
					return nil
				})
				started := false
				w := b.worker(handle(func(context.Context, *later.Job[task]) error { started = true; return nil }), worker.Config{})
				if err := w.Run(ctx); err != nil {
					t.Errorf("at %s: got the error %v, want none", at, err)
				}
				j := b.find(id)
				if !started && (j.State != later.StateReady || j.Attempt != 0) {
					t.Errorf("at %s: got %s with attempt %d, want ready and untouched", at, j.State, j.Attempt)
				}
				if started && j.State != later.StateEnded {
					t.Errorf("at %s: got %s for a started job, want ended", at, j.State)
				}
				if strings.HasPrefix(at, "claim") && started {
					t.Error("got a job started by a claim that came back after the signal, want it released")
				}
			})
		}
	})

	t.Run("handlers that end at the very moment of the signal are stored", func(t *testing.T) {
		// Case 134.
		bubble(t, func(b *bed) {
			ids := b.tasks(10, later.Options{})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() { time.Sleep(time.Second); cancel() }()
			w := b.worker(handle(func(ctx context.Context, _ *later.Job[task]) error { time.Sleep(time.Second); return nil }), worker.Config{})
			if err := w.Run(ctx); err != nil {
				t.Errorf("got the error %v, want none", err)
			}
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
		})
	})

	t.Run("a second signal releases at once", func(t *testing.T) {
		// Case 146.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, time.Hour) }), worker.Config{})
			synctest.Wait()
			r.cancel()
			b.sleep(time.Second)
			begin := time.Now()
			now, cancel := context.WithCancel(context.Background())
			cancel()
			if err := r.Stop(now); err != nil {
				t.Errorf("got the error %v, want none", err)
			}
			if took := time.Since(begin); took > 500*time.Millisecond {
				t.Errorf("got %v, want it at once", took)
			}
			b.wantLines(1, "WARN job is interrupted, its worker stops", "job=1", "worker="+r.Name())
			b.wantLines(0, "deadline") // it was none
			b.wantLines(1, "INFO worker drains")
			b.wantLines(1, "INFO worker stopped")
			if j := b.find(id); j.State != later.StateReady || j.Attempt != 0 {
				t.Errorf("got %s with attempt %d, want released", j.State, j.Attempt)
			}
		})
	})

	t.Run("results wait for a database that comes back before the deadline", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := b.tasks(10, later.Options{})
			r := b.run(handle(func(context.Context, *later.Job[task]) error { time.Sleep(time.Second); return nil }), worker.Config{})
			synctest.Wait()
			b.store.failing(later.ErrUnavailable, "settle")
			b.sleep(10 * time.Second)
			go func() { time.Sleep(10 * time.Second); b.store.failing(nil) }()
			r.stopped()
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
		})
	})

	for _, inTx := range []bool{false, true} {
		t.Run(fmt.Sprintf("results are stored when the database comes back before the deadline of Stop (settled in a transaction: %t)", inTx), func(t *testing.T) {
			bubble(t, func(b *bed) {
				id := b.tasks(1, later.Options{})[0]
				var back atomic.Bool
				b.store.hanging(func(ctx context.Context, op string, _ any) error {
					switch {
					case op != "settle" || back.Load():
						return nil
					case inTx:
						<-ctx.Done() // the row is locked
					}
					return later.ErrUnavailable
				})
				r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
					if inTx {
						j.MarkSettled()
					}
					return nil
				}), worker.Config{Lease: time.Hour}) // as long as its row is locked
				b.sleep(time.Minute)
				// The pauses between the tries are long by now. One has just begun.
				tries := func() int { return len(b.store.called("settle")) }
				for n := tries(); tries() == n; {
					b.sleep(time.Millisecond)
				}
				go func() {
					time.Sleep(time.Second)
					back.Store(true)
				}()
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				if err := r.Stop(ctx); err != nil {
					t.Errorf("got the error %v, want none", err)
				}
				if got := b.outcomes(id); got == "" {
					t.Error("got no outcome, want one")
				}
			})
		})
	}

	t.Run("a drain does not lengthen the grace of a handler that has timed out", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			defer close(release)
			id := b.tasks(1, later.Options{Timeout: time.Second})[0]
			r := b.run(handle(deaf(release)), worker.Config{Grace: 2 * time.Second, DrainTimeout: 500 * time.Millisecond, Concurrency: 2})
			b.sleep(2 * time.Second)
			r.cancel()
			b.sleep(1100 * time.Millisecond)
			b.wantOutcomes(id, "retry")
			<-r.done
		})
	})

	t.Run("a handler that has timed out is charged, although the drain ends first", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			id := b.tasks(1, later.Options{Timeout: time.Second})[0]
			r := b.run(handle(deaf(release)), worker.Config{Grace: time.Minute, DrainTimeout: 5 * time.Second})
			b.sleep(2 * time.Second)
			if err := r.stop(); !errors.Is(err, worker.ErrDrainDeadline) {
				t.Errorf("got the error %v, want ErrDrainDeadline", err)
			}
			b.wantOutcomes(id, "retry")
			close(release)
		})
	})

	t.Run("results that cannot be stored in time are named", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(2, later.Options{})
			b.store.failing(later.ErrUnavailable, "settle")
			r := b.run(handle(noop), worker.Config{DrainTimeout: time.Second})
			synctest.Wait()
			err := r.stop()
			var left *worker.DrainError
			if !errors.As(err, &left) || len(left.Unsettled) != 2 || len(left.Running) != 0 {
				t.Errorf("got the error %v, want the two jobs whose results are not stored", err)
			}
		})
	})

	t.Run("the worker is listed while it runs", func(t *testing.T) {
		bubble(t, func(b *bed) {
			r := b.run(handle(noop), worker.Config{Version: "v1.2.3", Concurrency: 3})
			b.sleep(time.Minute)
			list, err := b.store.Workers(b.Context())
			if err != nil || len(list) != 1 || list[0].Name != r.Name() || list[0].Version != "v1.2.3" || list[0].Slots != 3 ||
				time.Since(list[0].SeenAt) > 20*time.Second {
				t.Errorf("got the workers %+v and the error %v, want this one", list, err)
			}
			r.stopped()
			if list, _ := b.store.Workers(b.Context()); len(list) != 0 {
				t.Errorf("got the workers %+v after Run, want none", list)
			}
		})
	})

	t.Run("only one Run at a time", func(t *testing.T) {
		bubble(t, func(b *bed) {
			r := b.run(handle(noop), worker.Config{})
			synctest.Wait()
			if err := r.Run(b.Context()); !errors.Is(err, worker.ErrBusy) {
				t.Errorf("got the error %v, want ErrBusy", err)
			}
			if _, err := r.Drain(b.Context()); !errors.Is(err, worker.ErrBusy) {
				t.Errorf("got the error %v, want ErrBusy", err)
			}
			r.stopped()
		})
	})
}

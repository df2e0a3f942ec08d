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

func TestDrain(t *testing.T) {
	t.Run("it runs what is due, and what that makes, and returns", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(100, later.Options{})
			later1 := b.enqueue(task{}, later.Options{Delay: time.Hour})
			sum := b.drain(handle(func(ctx context.Context, j *later.Job[task]) error {
				time.Sleep(100 * time.Millisecond)
				switch {
				case j.Payload.N == 3:
					return errors.New("boom") // retried later
				case j.Payload.N == 4:
					return later.Permanent(errors.New("boom"))
				case j.Payload.N < 10:
					b.enqueue(task{N: 1000 + j.Payload.N}, later.Options{})
				}
				return nil
			}), worker.Config{})
			if !sum.Empty || sum.Claimed != 108 || sum.Outcomes[later.OutcomeDone] != 106 || sum.Outcomes[later.OutcomeRetry] != 1 || sum.Outcomes[later.OutcomeDead] != 1 {
				t.Errorf("got %+v, want 106 done, 1 retry, 1 dead, nothing left", sum)
			}
			if j := b.find(later1); j.State != later.StateScheduled {
				t.Errorf("got %s for a job of the future, want scheduled", j.State)
			}
		})
	})

	t.Run("a chain of jobs runs to its end without waiting for a poll", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(1, later.Options{})
			begin := time.Now()
			sum := b.drain(handle(func(_ context.Context, j *later.Job[task]) error {
				if j.Payload.N < 9 {
					b.enqueue(task{N: j.Payload.N + 1}, later.Options{})
				}
				return nil
			}), worker.Config{})
			if took := time.Since(begin); sum.Outcomes[later.OutcomeDone] != 10 || took != 0 {
				t.Errorf("got %+v after %v, want 10 done at once", sum, took)
			}
		})
	})

	t.Run("it has the store look at everything before it says that nothing is due", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.drain(handle(noop), worker.Config{})
			claims := b.store.called("claim")
			if last := claims[len(claims)-1].arg.(later.ClaimRequest); !last.Thorough {
				t.Errorf("got %+v as the last claim, want a thorough one", last)
			}
		})
	})

	t.Run("it looks at everything in every queue before it says that nothing is due", func(t *testing.T) {
		// A thorough claim that fails is repeated, and each queue gets its own
		// where an abandoned handler leaves no slot for both.
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			defer close(release)
			hung := b.enqueue(task{N: 1}, later.Options{Queue: "one", Timeout: time.Second, MaxAttempts: 1})
			hidden := map[string]int64{} // what only a thorough claim of the queue finds
			fails := 2
			b.store.hanging(func(_ context.Context, op string, arg any) error {
				if op != "claim" || !arg.(later.ClaimRequest).Thorough {
					return nil
				}
				if fails--; fails >= 0 {
					return later.ErrUnavailable
				}
				for _, limit := range arg.(later.ClaimRequest).Queues {
					if hidden[limit.Queue] == 0 {
						hidden[limit.Queue] = b.enqueue(task{}, later.Options{Queue: limit.Queue})
					}
				}
				return nil
			})
			_, err := b.worker(handle(func(_ context.Context, j *later.Job[task]) error {
				if j.Payload.N == 1 {
					<-release
				}
				return nil
			}), worker.Config{Concurrency: 2, Grace: time.Second, Queues: []worker.Queue{{Name: "one"}, {Name: "two"}}}).Drain(b.Context())
			if !errors.Is(err, worker.ErrDrainDeadline) {
				t.Errorf("got the error %v, want one that names job %d", err, hung)
			}
			if len(hidden) != 2 {
				t.Errorf("got thorough claims that found %v, want them of both queues", hidden)
			}
			for _, id := range hidden {
				b.wantOutcomes(id, "done")
			}
		})
	})

	t.Run("a handler that never returns does not keep it, and is named", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			defer close(release)
			id := b.tasks(1, later.Options{Timeout: time.Second, MaxAttempts: 1})[0]
			others := b.tasks(20, later.Options{})
			begin := time.Now()
			sum, err := b.worker(handle(func(_ context.Context, j *later.Job[task]) error {
				if j.ID == id {
					<-release
				}
				return nil
			}), worker.Config{Concurrency: 2, Grace: 2 * time.Second}).Drain(b.Context())
			var left *worker.DrainError
			if !errors.As(err, &left) || len(left.Running) != 1 || left.Running[0].ID != id {
				t.Errorf("got the error %v, want one that names the job", err)
			}
			if took := time.Since(begin); !sum.Empty || took > 4*time.Second {
				t.Errorf("got %+v after %v, want it empty after 3 s", sum, took)
			}
			b.wantOutcomes(id, "dead")
			for _, other := range others {
				b.wantOutcomes(other, "done")
			}
		})
	})

	t.Run("the deadline is kept when the store is closed under it", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(1, later.Options{})
			release := make(chan struct{})
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			go func() { time.Sleep(time.Second); b.store.Close() }()
			begin := time.Now()
			_, err := b.worker(handle(deaf(release)), worker.Config{}).Drain(ctx)
			if took := time.Since(begin); took > 10200*time.Millisecond {
				t.Errorf("got %v, want at most the 10 s of the deadline", took)
			}
			if !errors.Is(err, later.ErrClosed) {
				t.Errorf("got the error %v, want that the store is closed", err)
			}
			close(release)
		})
	})

	t.Run("the worker is listed meanwhile, and not any more afterwards", func(t *testing.T) {
		for _, slow := range []time.Duration{0, 300 * time.Millisecond} {
			bubble(t, func(b *bed) {
				b.tasks(1, later.Options{})
				listed := 0
				w, err := worker.New(lateBeats{b.store, slow}, handle(func(ctx context.Context, _ *later.Job[task]) error {
					time.Sleep(500*time.Millisecond - slow) // or less than the beat takes
					list, err := b.store.Workers(ctx)
					listed = len(list)
					return err
				}), worker.Config{Logger: slog.New(b.log)})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Drain(b.Context()); err != nil {
					t.Fatal(err)
				}
				b.sleep(time.Second)
				list, err := b.store.Workers(b.Context())
				if err != nil || len(list) != 0 || slow == 0 && listed != 1 {
					t.Errorf("got %d workers meanwhile, then %v and the error %v, want 1 and none", listed, list, err)
				}
				b.wantLines(1, "INFO worker drains")
				b.wantLines(1, "INFO worker stopped")
			})
		}
	})

	t.Run("a job that snoozes for no time does not keep it", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			runs := 0
			sum := b.drain(handle(func(context.Context, *later.Job[task]) error { runs++; return later.Snooze(0) }), worker.Config{})
			if !sum.Empty || runs != 1 {
				t.Errorf("got %+v after %d runs, want it empty after 1", sum, runs)
			}
			if in := time.Until(b.find(id).RunAt); in != worker.MinSnooze {
				t.Errorf("got the job due in %v, want %v", in, worker.MinSnooze)
			}
		})
	})

	t.Run("it can be called again, and counts anew", func(t *testing.T) {
		bubble(t, func(b *bed) {
			w := b.worker(handle(noop), worker.Config{})
			for _, n := range []int{3, 0, 2} {
				b.tasks(n, later.Options{})
				sum, err := w.Drain(b.Context())
				if err != nil || sum.Outcomes[later.OutcomeDone] != int64(n) || !sum.Empty {
					t.Errorf("got %+v and the error %v, want %d done", sum, err, n)
				}
			}
		})
	})

	t.Run("it ends the jobs that only the sweep finds, and runs suspects", func(t *testing.T) {
		bubble(t, func(b *bed) {
			expired := b.enqueue(raw("unknown", `{}`), later.Options{ExpiresIn: time.Second})
			suspect := b.tasks(1, later.Options{})[0]
			for range later.SuspectCrashes {
				b.loseOnce(suspect)
			}
			sum := b.drain(handle(noop), worker.Config{})
			b.wantOutcomes(expired, "expired")
			if j := b.find(suspect); j.State != later.StateEnded || !sum.Empty {
				t.Errorf("got %s and %+v, want the suspect ended", j.State, sum)
			}
		})
	})

	t.Run("the deadline of its context is kept, and nothing is left claimed", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := b.tasks(1000, later.Options{})
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			begin := time.Now()
			sum, err := b.worker(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, 7*time.Second) }),
				worker.Config{}).Drain(ctx)
			if err != nil || sum.Empty {
				t.Errorf("got the error %v and empty %t, want neither", err, sum.Empty)
			}
			if took := time.Since(begin); took > time.Minute || took < 50*time.Second {
				t.Errorf("got %v, want most of the minute", took)
			}
			if n := sum.Outcomes[later.OutcomeDone]; n < 70 {
				t.Errorf("got %d done, want at least 70", n)
			}
			for _, id := range ids {
				if j := b.find(id); j.State == later.StateRunning || j.State == later.StateReady && j.Attempt != 0 {
					t.Errorf("got %s with attempt %d, want done or untouched", j.State, j.Attempt)
				}
			}
		})
	})

	t.Run("a database that is away for the whole budget is an error", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.store.failing(later.ErrUnavailable, everything...)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, err := b.worker(handle(noop), worker.Config{}).Drain(ctx)
			if !errors.Is(err, later.ErrUnavailable) {
				t.Errorf("got the error %v, want the store's", err)
			}
		})
	})

	t.Run("cancelling its context lets running jobs finish", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := b.tasks(20, later.Options{})
			ctx, cancel := context.WithCancel(context.Background())
			go func() { time.Sleep(time.Second); cancel() }()
			sum, err := b.worker(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, 3*time.Second) }),
				worker.Config{}).Drain(ctx)
			if err != nil || sum.Empty || sum.Outcomes[later.OutcomeDone] != 10 || len(ids) != 20 {
				t.Errorf("got %+v and the error %v, want 10 done", sum, err)
			}
		})
	})
}

// lateBeats is a store whose beats take effect late, even when they were given
// up, as a statement does that is on its way already.
type lateBeats struct {
	later.Store
	by time.Duration
}

func (s lateBeats) Beat(ctx context.Context, w later.WorkerInfo) error {
	time.Sleep(s.by)
	return s.Store.Beat(context.WithoutCancel(ctx), w)
}

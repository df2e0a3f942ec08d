package worker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestCrashes(t *testing.T) {
	t.Run("a job that kills its process ends dead, its bystanders are done", func(t *testing.T) {
		// Case 136: as os.Exit in a handler does it.
		bubble(t, func(b *bed) {
			var ids []int64
			var killer int64
			for i := range 10 {
				id := b.enqueue(task{N: i}, later.Options{MaxAttempts: 3})
				if i == 4 {
					killer = id
				}
				ids = append(ids, id)
			}
			kill := make(chan struct{})
			var dead []worker.Failure
			var running atomic.Int32
			cfg := worker.Config{
				Concurrency: 10, Lease: 5 * time.Second, Name: "victim",
				OnDead: func(_ context.Context, f worker.Failure) { dead = append(dead, f) },
			}
			h := handleEvery(time.Second, func(ctx context.Context, j *later.Job[task]) error {
				beside := running.Add(1) - 1
				defer running.Add(-1)
				if j.Crashes >= later.SuspectCrashes && beside > 0 {
					t.Errorf("got %d jobs beside suspect %d, want it alone", beside, j.ID)
				}
				if j.ID == killer {
					kill <- struct{}{}
					<-ctx.Done() // the process is gone
					return ctx.Err()
				}
				return obedient(ctx, time.Second)
			})
			kills := 0
			for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
				r := b.beside().run(h, cfg)
				select {
				case <-kill:
					kills++
					r.crash()
				case <-time.After(time.Until(end)):
					r.stopped()
				}
			}
			if kills != later.CrashLimit {
				t.Errorf("got %d kills, want %d", kills, later.CrashLimit)
			}
			for _, id := range ids {
				j := b.find(id)
				switch {
				case id != killer && !strings.HasSuffix(b.outcomes(id), "done"):
					t.Errorf("bystander %d: got %s after %q, want it done", id, j.State, b.outcomes(id))
				case id == killer && (j.State != later.StateDead || j.DeadReason != later.DeadLost):
					t.Errorf("killer: got %s (%q), want dead, lost", j.State, j.DeadReason)
				}
			}
			// Case 140: the errors say which workers were lost, and when.
			j := b.find(killer)
			if len(j.Errors) != 1 || !strings.Contains(j.Errors[0].Error, "worker victim-") || !strings.Contains(j.Errors[0].Error, "was lost (lease ended at 2000-01-01T") {
				t.Errorf("got the errors %+v, want the lost worker's", j.Errors)
			}
			if len(dead) != 1 || dead[0].Job.ID != killer || dead[0].Reason != later.DeadLost || !strings.Contains(dead[0].Err.Error(), "lost 5 times") {
				t.Errorf("got OnDead for %+v, want it once, for the killer", dead)
			}
		})
	})

	t.Run("with one attempt a crash is the end", func(t *testing.T) {
		// Case 88: at most one start was asked for.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{MaxAttempts: 1})[0]
			starts := 0
			release := make(chan struct{})
			defer close(release)
			h := handle(func(ctx context.Context, j *later.Job[task]) error { starts++; <-release; return nil })
			first := b.run(h, worker.Config{Lease: 5 * time.Second})
			synctest.Wait()
			first.crash()
			deaths := 0
			second := b.beside().run(h, worker.Config{Lease: 5 * time.Second, Concurrency: 1,
				OnDead: func(context.Context, worker.Failure) { deaths++ },
				OnError: func(context.Context, worker.Failure) {
					t.Error("got OnError for a lost worker, want it for failed attempts only")
				},
			})
			b.sleep(10 * time.Second)
			if j := b.find(id); j.State != later.StateDead || j.DeadReason != later.DeadLost || starts != 1 || deaths != 1 {
				t.Errorf("got %s (%q), %d starts, %d calls of OnDead, want dead, lost, 1, 1", j.State, j.DeadReason, starts, deaths)
			}
			second.stopped()
		})
	})

	t.Run("a lost attempt is in the history when the job later fails", func(t *testing.T) {
		// Case 140.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			b.loseOnce(id)
			b.drain(handle(func(context.Context, *later.Job[task]) error { return later.Permanent(context.Canceled) }), worker.Config{})
			j := b.find(id)
			if len(j.Errors) != 2 || j.Errors[0].Attempt != 1 || j.Errors[0].Worker != "killed" ||
				!strings.Contains(j.Errors[0].Error, "worker killed was lost") || j.Errors[1].Attempt != 2 {
				t.Errorf("got the history %+v, want the lost attempt and this one", j.Errors)
			}
		})
	})

	// Three jobs have become suspects, and all slots are busy for minutes.
	suspects := func(b *bed, d time.Duration) (ids []int64, most, now *atomic.Int32, h *later.Handlers) {
		ids = b.tasks(3, later.Options{})
		b.loseAll(later.SuspectCrashes)
		most, now = &atomic.Int32{}, &atomic.Int32{}
		h = handle(func(ctx context.Context, j *later.Job[task]) error {
			if j.Crashes > 0 {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return obedient(ctx, 4*d)
			}
			return obedient(ctx, d)
		})
		b.tasks(1000, later.Options{})
		return ids, most, now, h
	}

	t.Run("suspects run one at a time", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids, most, _, h := suspects(b, 900*time.Millisecond)
			r := b.run(h, worker.Config{Concurrency: 2, Lease: 4 * time.Second}) // a sweep comes each second
			b.sleep(time.Minute)
			for _, id := range ids {
				b.wantOutcomes(id, "lost lost done")
			}
			if most.Load() != 1 {
				t.Errorf("got %d suspects at once, want 1", most.Load())
			}
			r.stopped()
		})
	})

	t.Run("innocent suspects are through at once, one after the other", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := b.tasks(20, later.Options{})
			b.loseAll(later.SuspectCrashes)
			var first, last time.Time
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error {
				if last = time.Now(); first.IsZero() {
					first = last
				}
				return obedient(ctx, 10*time.Millisecond)
			}), worker.Config{})
			b.sleep(17 * time.Second) // the first sweep comes within 15 s
			for _, id := range ids {
				b.wantOutcomes(id, "lost lost done")
			}
			if took := last.Sub(first); took > time.Second {
				t.Errorf("got %v for 20 of them, want under 1 s", took)
			}
			r.stopped()
		})
	})

	t.Run("a suspect that hangs does not keep the others", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			defer close(release)
			ids := b.tasks(5, later.Options{Timeout: time.Second})
			b.loseAll(later.SuspectCrashes)
			r := b.run(handleEvery(time.Hour, func(_ context.Context, j *later.Job[task]) error {
				if j.ID == ids[0] {
					<-release
				}
				return nil
			}), worker.Config{Concurrency: 3, Grace: 2 * time.Second, Lease: 4 * time.Second})
			b.sleep(5 * time.Second)
			b.wantOutcomes(ids[0], "lost lost retry")
			for _, id := range ids[1:] {
				b.wantOutcomes(id, "lost lost done")
			}
			r.stop() // its error names the one that hangs
		})
	})

	t.Run("losses that are not in a row do not add up", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{})[0]
			for range later.CrashLimit + 1 {
				sum := b.drain(handle(func(context.Context, *later.Job[task]) error { return later.Snooze(time.Second) }), worker.Config{})
				if sum.Outcomes[later.OutcomeSnoozed] != 1 {
					t.Errorf("got %+v, want one snooze", sum)
				}
				time.Sleep(time.Second)
				b.loseOnce(id)
			}
			b.drain(handle(noop), worker.Config{})
			b.wantOutcomes(id, strings.Repeat("snoozed lost ", later.CrashLimit+1)+"done")
		})
	})

	t.Run("a suspect gets the next slot that becomes free", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids, _, now, h := suspects(b, 250*time.Millisecond)
			var waitsSince atomic.Pointer[time.Time]
			b.store.set(func(op string, arg any) error {
				at := time.Now()
				since := waitsSince.Load()
				switch {
				case op == "sweep" && arg.(later.SweepRequest).Suspect:
					waitsSince.Store(nil)
				case op == "claim" && since != nil && at.After(*since):
					t.Error("got a claim while the sweep waits for the slot, want the sweep first")
				}
				return nil
			}, nil)
			b.store.hanging(func(ctx context.Context, op string, arg any) error {
				if op == "sweep" && !arg.(later.SweepRequest).Suspect {
					time.Sleep(time.Nanosecond) // a suspect that was just started has begun
					if at := time.Now(); now.Load() == 0 {
						waitsSince.Store(&at)
					}
					obedient(ctx, 400*time.Millisecond) // meanwhile the slot becomes free
				}
				return nil
			})
			r := b.run(h, worker.Config{Concurrency: 1, Lease: 4 * time.Second})
			b.sleep(30 * time.Second)
			for _, id := range ids {
				b.wantOutcomes(id, "lost lost done")
			}
			r.stopped()
		})
	})
}

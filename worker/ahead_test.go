package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// limits are how many jobs each claim asked for.
func (f *faulty) limits() (limits []int) {
	for _, c := range f.called("claim") {
		limits = append(limits, c.arg.(later.ClaimRequest).Limit)
	}
	return limits
}

// stuck is a worker with two slots of which short jobs had many claimed ahead,
// when its handlers began to hang: jobs with a number from hang on do so until
// release is closed. It returns when jobs wait.
func (b *bed) stuck(hang int, release chan struct{}, cfg worker.Config) *running {
	b.Helper()
	cfg.Concurrency = 2
	r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
		if j.Payload.N < hang {
			return obedient(ctx, time.Millisecond)
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	}), cfg)
	ready := func(s worker.Stats) bool {
		return s.Outcomes[later.OutcomeDone] == int64(hang) && s.Running == 2 && s.Waiting >= 10
	}
	for end := time.Now().Add(time.Minute); !ready(r.Stats()); b.sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("got %+v, want jobs that wait", r.Stats())
		}
	}
	return r
}

// leased are those of the jobs that this worker holds.
func (b *bed) leased(ids []int64) (leased []int64) {
	for _, id := range ids {
		if b.find(id).State == later.StateRunning {
			leased = append(leased, id)
		}
	}
	return leased
}

func TestAhead(t *testing.T) {
	t.Run("long jobs are never claimed ahead, however many end at once", func(t *testing.T) {
		// Case 82.
		bubble(t, func(b *bed) {
			b.tasks(1000, later.Options{})
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error {
				return obedient(ctx, 5*time.Second)
			}), worker.Config{Concurrency: 100})
			for range 31 {
				b.sleep(time.Second)
				if s := r.Stats(); s.Waiting != 0 {
					t.Fatalf("got %d jobs that wait, want none", s.Waiting)
				}
			}
			if most := slices.Max(b.store.limits()); most != 100 {
				t.Errorf("got a claim for %d jobs, want at most 100", most)
			}
			if got := r.Stats().Outcomes[later.OutcomeDone]; got != 600 {
				t.Errorf("got %d jobs done, want 20 a second", got)
			}
			r.stopped()
		})
	})

	t.Run("no more short jobs are claimed than start within 100 ms", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(5000, later.Options{})
			var longest time.Duration
			var mu sync.Mutex
			claimed := map[int64]time.Time{}
			b.store.alter = func(c *later.Claimed) {
				mu.Lock()
				defer mu.Unlock()
				claimed[c.ID] = time.Now()
			}
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				mu.Lock()
				longest = max(longest, time.Since(claimed[j.ID]))
				mu.Unlock()
				return obedient(ctx, 20*time.Millisecond)
			}), worker.Config{Concurrency: 10})
			b.sleep(9 * time.Second)
			if longest > 100*time.Millisecond || longest < 40*time.Millisecond {
				t.Errorf("got a job that waited for %v, want at most 100 ms and more than half of it", longest)
			}
			if got := r.Stats().Outcomes[later.OutcomeDone]; got < 4400 {
				t.Errorf("got %d jobs done in 9 s, want nearly 500 a second", got)
			}
			claims := b.store.limits()
			if n := len(claims); n > 200 {
				t.Errorf("got %d claims for 4,500 jobs, want 20 and more at a time", n)
			}
			r.stopped()
		})
	})

	t.Run("what waits is bounded", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(20_000, later.Options{})
			b.store.hanging(func(context.Context, string, any) error { time.Sleep(2 * time.Millisecond); return nil })
			r := b.run(handle(noop), worker.Config{Concurrency: 10})
			b.sleep(time.Minute)
			limits := b.store.limits()
			if most := slices.Max(limits); most > 4010 || most < 1000 {
				t.Errorf("got a claim for %d jobs, want 1,000 to 4,010", most)
			}
			if limits[0] != 10 {
				t.Errorf("got a first claim for %d jobs, want the 10 that have slots", limits[0])
			}
			sum := 10
			for _, limit := range limits {
				if limit > sum {
					t.Fatalf("got the limits %v, want no more ahead than jobs have run before", limits)
				}
				sum += limit
			}
			r.stopped()
		})
	})

	t.Run("big payloads are claimed ahead by their size", func(t *testing.T) {
		bubble(t, func(b *bed) {
			big := strings.Repeat("x", 1<<20)
			for range 60 {
				b.enqueue(raw("raw", `"`+big+`"`), later.Options{})
			}
			h := later.NewHandlers()
			later.HandleRaw(h, "raw", later.HandlerConfig{}, func(context.Context, *later.Job[json.RawMessage]) error { return nil })
			r := b.run(h, worker.Config{Concurrency: 2})
			b.sleep(time.Minute)
			if most := slices.Max(b.store.limits()); most > 10 {
				t.Errorf("got a claim for %d jobs of 1 MiB, want at most 2 and 8 ahead", most)
			}
			r.stopped()
		})
	})

	t.Run("slots are filled with jobs of huge payloads by claims of some MiB", func(t *testing.T) {
		bubble(t, func(b *bed) {
			big := `"` + strings.Repeat("x", 6<<20) + `"`
			for range 20 {
				b.enqueue(raw("raw", big), later.Options{})
			}
			h := later.NewHandlers()
			later.HandleRaw(h, "raw", later.HandlerConfig{}, func(ctx context.Context, _ *later.Job[json.RawMessage]) error {
				return obedient(ctx, time.Minute)
			})
			r := b.run(h, worker.Config{Concurrency: 10, Poll: time.Hour})
			b.sleep(time.Second)
			if n := r.Stats().Running; n != 10 {
				t.Errorf("got %d that run, want as many as there are slots", n)
			}
			for _, call := range b.store.called("claim") {
				if call.got > 3 {
					t.Errorf("got %d jobs of 6 MiB by one claim, want at most 3", call.got)
				}
			}
			b.sleep(2 * time.Minute)
			if n := r.Stats().Outcomes[later.OutcomeDone]; n != 20 {
				t.Errorf("got %d done, want all 20", n)
			}
			r.stopped()
		})
	})

	t.Run("when jobs become slow, those that wait are given back in half a second", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			ids := b.tasks(400, later.Options{})
			r := b.stuck(300, release, worker.Config{})
			b.sleep(550 * time.Millisecond)
			if s := r.Stats(); s.Waiting != 0 || s.Running != 2 {
				t.Errorf("got %d jobs that wait and %d that run, want 0 and 2", s.Waiting, s.Running)
			}
			if n := len(b.leased(ids)); n != 2 {
				t.Errorf("got %d leased jobs, want those that run", n)
			}
			for _, id := range ids[300:] {
				if j := b.find(id); j.State == later.StateReady && j.Attempt != 0 {
					t.Errorf("job %d: got attempt %d, want none charged", id, j.Attempt)
				}
			}
			b.sleep(20 * time.Second)
			if s := r.Stats(); s.Waiting != 0 || s.Outcomes[later.OutcomeReleased] > 250 {
				t.Errorf("got %+v, want each given back once", s)
			}
			close(release)
			b.sleep(10 * time.Second)
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
			r.stopped()
		})
	})

	t.Run("a drain gives back at once what waits", func(t *testing.T) {
		// Case 82, the last sentence.
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			ids := b.tasks(400, later.Options{MaxAttempts: 2})
			r := b.stuck(300, release, worker.Config{})
			r.cancel()
			synctest.Wait()
			if n := len(b.leased(ids)); n != 2 {
				t.Errorf("got %d leased jobs, want the 2 that run", n)
			}
			for _, id := range ids {
				if j := b.find(id); j.State == later.StateReady && j.Attempt != 0 {
					t.Errorf("job %d: got attempt %d, want none charged", id, j.Attempt)
				}
			}
			close(release)
			r.stopped()
		})
	})

	t.Run("a job that is cancelled while it waits is not started", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			ids := b.tasks(400, later.Options{})
			r := b.stuck(300, release, worker.Config{Poll: 50 * time.Millisecond})
			leased := b.leased(ids)
			last := leased[len(leased)-1]
			if _, err := b.store.Cancel(b.Context(), last); err != nil {
				t.Fatal(err)
			}
			b.sleep(60 * time.Millisecond)
			b.wantOutcomes(last, "cancelled")
			close(release)
			b.sleep(10 * time.Second)
			b.wantOutcomes(last, "cancelled")
			r.stopped()
		})
	})

	t.Run("a job whose lease is lost while it waits is not started", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			ids := b.tasks(400, later.Options{})
			var mu sync.Mutex
			leases := map[int64]later.Lease{}
			b.store.alter = func(c *later.Claimed) {
				mu.Lock()
				defer mu.Unlock()
				leases[c.ID] = c.Lease
			}
			r := b.stuck(300, release, worker.Config{RenewEvery: 10 * time.Millisecond})
			leased := b.leased(ids)
			last := leased[len(leased)-1]
			// Somebody else ends it.
			if _, err := b.store.Store.Settle(b.Context(), []later.Settlement{{Lease: leases[last], Outcome: later.OutcomeDone}}); err != nil {
				t.Fatal(err)
			}
			b.sleep(20 * time.Millisecond)
			if s := r.Stats(); s.LostLeases != 1 || s.Waiting != len(leased)-3 {
				t.Errorf("got %d lost leases and %d jobs that wait, want 1 and %d", s.LostLeases, s.Waiting, len(leased)-3)
			}
			b.wantLines(1, "WARN lease lost")
			b.wantLines(0, "refused")
			close(release)
			b.sleep(10 * time.Second)
			b.wantOutcomes(last, "done")
			r.stopped()
		})
	})

	t.Run("the leases of jobs that wait are renewed", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			ids := b.tasks(400, later.Options{})
			r := b.stuck(300, release, worker.Config{RenewEvery: 50 * time.Millisecond})
			leased := b.leased(ids)
			b.sleep(100 * time.Millisecond)
			renewals := b.store.called("renew")
			if got := renewals[len(renewals)-1].got; got != len(leased) {
				t.Errorf("got %d leases renewed, want all %d", got, len(leased))
			}
			close(release)
			r.stopped()
		})
	})

	t.Run("the timeout counts from the start of the handler", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(1000, later.Options{Timeout: time.Second})
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error {
				if deadline, _ := ctx.Deadline(); time.Until(deadline) != time.Second {
					t.Errorf("got %v until the deadline, want 1 s", time.Until(deadline))
				}
				return obedient(ctx, 5*time.Millisecond)
			}), worker.Config{Concurrency: 3})
			b.sleep(time.Minute)
			r.stopped()
		})
	})

	t.Run("a job that expires while it waits is not started", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			ids := b.tasks(300, later.Options{})
			for i := range 100 {
				ids = append(ids, b.enqueue(task{N: 300 + i}, later.Options{ExpiresIn: 450 * time.Millisecond}))
			}
			r := b.stuck(300, release, worker.Config{})
			leased := b.leased(ids)
			b.sleep(400 * time.Millisecond)
			close(release)
			synctest.Wait()
			expired := 0
			for _, id := range leased {
				if b.outcomes(id) == "expired" {
					expired++
				}
			}
			if expired != len(leased)-2 {
				t.Errorf("got %d expired, want all %d that waited", expired, len(leased)-2)
			}
			r.stopped()
		})
	})

	t.Run("an urgent job goes ahead of those that wait", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(3000, later.Options{Priority: 10})
			var started atomic.Int64
			begin := time.Now()
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				if j.Payload.N == -1 {
					started.Store(int64(time.Since(begin)))
				}
				return obedient(ctx, 5*time.Millisecond)
			}), worker.Config{Concurrency: 4, LowestEvery: -1})
			b.sleep(time.Second)
			begin = time.Now()
			b.enqueue(task{N: -1}, later.Options{Priority: -10})
			b.sleep(500 * time.Millisecond)
			if got := time.Duration(started.Load()); got == 0 || got > 60*time.Millisecond {
				// It takes as long again if the next claim begins at the lowest priority.
				t.Errorf("got it started after %v, want half of 100 ms and a job", got)
			}
			r.stopped()
		})
	})

	t.Run("shares hold between queues whose jobs are claimed ahead", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(5000, later.Options{Queue: "a"})
			b.tasks(5000, later.Options{Queue: "b"})
			var c census
			r := b.run(c.handlers(2*time.Millisecond), worker.Config{
				Queues: []worker.Queue{{Name: "a", Share: 3}, {Name: "b"}}, Concurrency: 1,
			})
			b.sleep(2 * time.Second)
			if a, bb := c.started["a"], c.started["b"]; a < 700 || a > 780 || bb < 220 || bb > 270 {
				t.Errorf("got %d and %d starts, want three to one", a, bb)
			}
			r.stopped()
		})
	})

	t.Run("after an outage of the claims alone, what waits has run", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := b.tasks(1000, later.Options{})
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error {
				return obedient(ctx, 5*time.Millisecond)
			}), worker.Config{Concurrency: 4})
			b.sleep(500 * time.Millisecond)
			b.store.failing(errors.Join(later.ErrUnavailable), "claim")
			b.sleep(time.Second)
			if s := r.Stats(); s.Waiting != 0 || s.Outcomes[later.OutcomeReleased] != 0 {
				t.Errorf("got %d jobs that wait and %v, want none and none released", s.Waiting, s.Outcomes)
			}
			b.store.failing(nil)
			b.sleep(10 * time.Second)
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
			r.stopped()
		})
	})
}

// A job with a single attempt is dead when its worker dies, whether it has run or not: so
// it never waits for a slot.
func TestSingleAttemptsAreNotClaimedAhead(t *testing.T) {
	bubble(t, func(b *bed) {
		b.tasks(3000, later.Options{})
		ids := b.tasks(500, later.Options{MaxAttempts: 1})
		b.tasks(3000, later.Options{})
		var running, most atomic.Int64
		h := handle(func(ctx context.Context, j *later.Job[task]) error {
			defer running.Add(-1)
			most.Store(max(most.Load(), running.Add(1)))
			if j.MaxAttempts == 1 {
				// Ten that run, and those whose results are on their way.
				if held := len(b.leased(ids)); held > 50 {
					t.Errorf("%d jobs with a single attempt are leased, with 10 slots", held)
				}
			}
			return obedient(ctx, time.Millisecond)
		})
		r := b.run(h, worker.Config{Concurrency: 10})
		b.sleep(30 * time.Second)
		for _, id := range ids {
			b.wantOutcomes(id, "done")
		}
		r.stopped()
	})
}

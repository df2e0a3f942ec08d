package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// statements counts what an idle worker asks of its store.
func (f *faulty) statements() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

func TestWaiting(t *testing.T) {
	for _, c := range []struct {
		queues int
		heard  bool
		most   int // in a minute
	}{{1, true, 60}, {50, true, 60}, {1, false, 120}, {50, false, 120}} {
		t.Run(fmt.Sprintf("an idle worker of %d queues makes few statements, heard: %t", c.queues, c.heard), func(t *testing.T) {
			// Case 166: not more than one a second with wake-ups, two without.
			bubble(t, func(b *bed) {
				if c.heard {
					b.hearing()
				}
				var queues []worker.Queue
				for i := range c.queues {
					queues = append(queues, worker.Queue{Name: fmt.Sprintf("q%d", i)})
				}
				r := b.run(handle(noop), worker.Config{Queues: queues})
				b.sleep(30 * time.Second) // after what the start needs
				before := b.store.statements()
				b.sleep(time.Minute)
				if n := b.store.statements() - before; n > c.most || n < c.most/3 {
					by := map[string]int{}
					for _, call := range b.store.calls[before:] {
						by[call.op]++
					}
					t.Errorf("got %d statements in a minute, want at most %d: %v", n, c.most, by)
				}
				r.stopped()
			})
		})
	}

	t.Run("a wake-up starts a job at once", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h := b.hearing()
			var at time.Time
			r := b.run(handle(func(context.Context, *later.Job[task]) error { at = time.Now(); return nil }), worker.Config{Poll: time.Minute})
			b.sleep(10 * time.Second)
			begin := time.Now()
			b.tasks(1, later.Options{})
			h.wake()
			b.sleep(time.Second)
			if at.IsZero() || at.Sub(begin) != 0 {
				t.Errorf("got it started at %v, want it at once, at %v", at, begin)
			}
			r.stopped()
			if !h.closed || h.watches != 1 {
				t.Errorf("got %d watches, closed: %t, want one, closed", h.watches, h.closed)
			}
		})
	})

	t.Run("a job that comes just before the store knows of the wait is found", func(t *testing.T) {
		// It makes no wake-up: whoever enqueued it saw nobody wait.
		bubble(t, func(b *bed) {
			h := b.hearing()
			var id int64
			h.onTold = func() {
				if h.waited == 1 {
					id = b.tasks(1, later.Options{})[0]
				}
			}
			r := b.run(handle(noop), worker.Config{Poll: time.Minute})
			b.sleep(time.Second)
			b.wantOutcomes(id, "done")
			r.stopped()
		})
	})

	t.Run("a wake-up that came while others were held up is not kept back by a job that was found meanwhile", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h := b.hearing()
			r := b.run(handle(noop), worker.Config{Poll: time.Minute})
			b.sleep(10 * time.Second)
			b.tasks(1, later.Options{Delay: 700 * time.Millisecond})
			for range 139 { // until 695 ms
				h.wake()
				b.sleep(5 * time.Millisecond)
			}
			b.sleep(10 * time.Millisecond)
			id := b.tasks(1, later.Options{})[0]
			h.wake()
			b.sleep(100 * time.Millisecond)
			b.wantOutcomes(id, "done")
			r.stopped()
		})
	})

	t.Run("useless wake-ups cost ten claims a second, and the last is not forgotten", func(t *testing.T) {
		// Case 166.
		bubble(t, func(b *bed) {
			h := b.hearing()
			r := b.run(handle(noop), worker.Config{Poll: time.Minute})
			b.sleep(10 * time.Second)
			before := len(b.store.called("claim"))
			h.wake()
			synctest.Wait()
			if n := len(b.store.called("claim")) - before; n != 1 {
				t.Errorf("got %d claims after the first wake-up, want 1 at once", n)
			}
			for range 10_000 {
				h.wake()
				b.sleep(time.Millisecond)
			}
			n := len(b.store.called("claim")) - before
			if n > 220 || n < 90 {
				t.Errorf("got %d claims in 10 s, want 100 to 200", n)
			}
			id := b.tasks(1, later.Options{})[0]
			h.wake()
			b.sleep(100 * time.Millisecond)
			b.wantOutcomes(id, "done")
			r.stopped()
		})
	})

	t.Run("wake-ups that find jobs are not held up", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h := b.hearing()
			var late atomic.Int64
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				late.Store(max(late.Load(), int64(time.Since(j.CreatedAt))))
				return nil
			}), worker.Config{Poll: time.Minute})
			b.sleep(time.Second)
			for range 1000 {
				b.tasks(1, later.Options{})
				h.wake()
				b.sleep(700 * time.Microsecond)
			}
			if got := time.Duration(late.Load()); got != 0 {
				t.Errorf("got a job started %v late, want none", got)
			}
			if got := r.Stats().Outcomes[later.OutcomeDone]; got != 1000 {
				t.Errorf("got %d done, want 1000", got)
			}
			if waited, busied := h.said(); busied != 0 || waited > 1010 {
				t.Errorf("got %d times busy, want none: there were free slots all the time", busied)
			}
			r.stopped()
		})
	})

	for _, heard := range []bool{true, false} {
		t.Run(fmt.Sprintf("a job that is due before the next poll starts on time, heard: %t", heard), func(t *testing.T) {
			// Case 173.
			bubble(t, func(b *bed) {
				if heard {
					b.hearing()
				}
				var at time.Time
				b.enqueue(task{}, later.Options{Delay: 17 * time.Second})
				begin := time.Now()
				r := b.run(handle(func(context.Context, *later.Job[task]) error { at = time.Now(); return nil }), worker.Config{Poll: 30 * time.Second})
				b.sleep(20 * time.Second)
				if got := at.Sub(begin); got != 17*time.Second {
					t.Errorf("got it started after %v, want 17 s", got)
				}
				r.stopped()
			})
		})
	}

	t.Run("an earlier job sets the alarm anew", func(t *testing.T) {
		// Case 173: it wakes, but is not due yet. One that is far ahead wakes nobody.
		bubble(t, func(b *bed) {
			h := b.hearing()
			var at []time.Duration
			begin := time.Now()
			b.enqueue(task{}, later.Options{Delay: 50 * time.Second})
			r := b.run(handle(func(context.Context, *later.Job[task]) error { at = append(at, time.Since(begin)); return nil }), worker.Config{Poll: 5 * time.Minute})
			b.sleep(10 * time.Second)
			b.enqueue(task{}, later.Options{Delay: 2 * time.Second})
			h.wake()
			b.sleep(5 * time.Second)
			b.enqueue(task{}, later.Options{Delay: later.WakeAhead + 3*time.Second})
			b.sleep(50 * time.Second)
			if got := fmt.Sprint(at); got != "[12s 28s 50s]" {
				t.Errorf("got the starts %s, want 12, 28 and 50 s", got)
			}
			r.stopped()
		})
	})

	t.Run("when the next job is gone, the one after it starts on time", func(t *testing.T) {
		bubble(t, func(b *bed) {
			var at time.Duration
			begin := time.Now()
			gone := b.enqueue(task{}, later.Options{Delay: 5 * time.Second})
			b.enqueue(task{}, later.Options{Delay: 8 * time.Second})
			r := b.run(handle(func(context.Context, *later.Job[task]) error { at = time.Since(begin); return nil }), worker.Config{Poll: 5 * time.Minute})
			b.sleep(2 * time.Second)
			if _, err := b.store.Cancel(b.Context(), gone); err != nil {
				t.Fatal(err)
			}
			b.sleep(10 * time.Second)
			if at != 8*time.Second {
				t.Errorf("got it started after %v, want 8 s", at)
			}
			r.stopped()
		})
	})

	t.Run("what this worker has put off itself starts on time", func(t *testing.T) {
		bubble(t, func(b *bed) {
			var at []time.Duration
			begin := time.Now()
			b.tasks(1, later.Options{})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				at = append(at, time.Since(begin))
				switch len(at) {
				case 1:
					time.Sleep(3 * time.Second) // the loop has long asked when the next is due
					return later.RetryAfter(errors.New("boom"), 1500*time.Millisecond)
				case 2:
					return later.Snooze(300 * time.Millisecond)
				}
				return nil
			}), worker.Config{Poll: time.Minute})
			b.sleep(10 * time.Second)
			if got := fmt.Sprint(at); got != "[0s 4.5s 4.8s]" {
				t.Errorf("got the starts %s, want 0, 4.5 and 4.8 s", got)
			}
			r.stopped()
		})
	})

	t.Run("a worker with more than it has slots for says so after 20 ms, and then that it waits", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h := b.hearing()
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, 300*time.Millisecond) }),
				worker.Config{Concurrency: 2, Poll: time.Minute})
			b.sleep(10 * time.Second)
			b.tasks(6, later.Options{})
			h.wake()
			b.sleep(15 * time.Millisecond)
			if _, busied := h.said(); busied != 0 {
				t.Errorf("got it busy after 15 ms, want it to wait for 20")
			}
			b.sleep(10 * time.Millisecond)
			if _, busied := h.said(); busied != 1 {
				t.Errorf("got it busy %d times after 25 ms, want once", busied)
			}
			b.sleep(time.Second)
			if _, busied := h.said(); busied != 1 || !h.told {
				t.Errorf("got it busy %d times, waiting: %t, want once and that it waits again", busied, h.told)
			}
			if got := r.Stats().Outcomes[later.OutcomeDone]; got != 6 {
				t.Errorf("got %d done, want 6", got)
			}
			r.stopped()
		})
	})

	t.Run("isolated jobs do not make it say that it is busy", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h := b.hearing()
			r := b.run(handle(noop), worker.Config{Concurrency: 1, Poll: time.Minute})
			b.sleep(time.Second)
			before, _ := h.said()
			for range 100 {
				b.tasks(1, later.Options{})
				h.wake()
				b.sleep(50 * time.Millisecond)
			}
			if waited, busied := h.said(); busied != 0 || waited-before > 110 {
				t.Errorf("got it waiting %d times and busy %d times, want no change", waited-before, busied)
			}
			r.stopped()
		})
	})

	t.Run("a worker that is not heard polls, until it is", func(t *testing.T) {
		// Case 169.
		bubble(t, func(b *bed) {
			h := b.hearing()
			h.deaf = true
			r := b.run(handle(noop), worker.Config{Poll: time.Second})
			b.sleep(3 * time.Second)
			id := b.tasks(1, later.Options{})[0]
			b.sleep(1100 * time.Millisecond)
			b.wantOutcomes(id, "done")
			before := len(b.store.called("claim"))
			b.sleep(20 * time.Second)
			if n := len(b.store.called("claim")) - before; n < 17 || n > 23 {
				t.Errorf("got %d claims in 20 s, want one a second", n)
			}
			h.deaf = false
			waited, _ := h.said()
			h.wake() // as the store does when it hears again
			synctest.Wait()
			if now, _ := h.said(); now != waited+1 {
				t.Errorf("got the store asked %d times whether it hears, want once, at once", now-waited)
			}
			b.sleep(time.Second)
			before = len(b.store.called("claim"))
			b.sleep(20 * time.Second)
			if n := len(b.store.called("claim")) - before; n < 8 || n > 12 {
				t.Errorf("got %d claims in 20 s, want one in 2 s", n)
			}
			r.stopped()
		})
	})

	t.Run("a store that cannot be told is not asked all the time", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h := b.hearing()
			h.err = later.ErrUnavailable
			r := b.run(handle(noop), worker.Config{Poll: time.Second})
			b.sleep(20 * time.Second)
			if waited, _ := h.said(); waited < 15 || waited > 25 {
				t.Errorf("got it told %d times in 20 s, want once a second", waited)
			}
			b.wantLines(1, "WARN store operation failed", "op=wait")
			h.mu.Lock()
			h.err = nil
			h.mu.Unlock()
			b.sleep(2 * time.Second)
			b.wantLines(1, "INFO store operation works again", "op=wait")
			r.stopped()
		})
	})

	t.Run("a Drain has no use for wake-ups", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h := b.hearing()
			b.enqueue(task{}, later.Options{Delay: time.Hour})
			b.drain(handle(noop), worker.Config{})
			if h.watches != 0 || len(b.store.called("next due")) != 0 {
				t.Errorf("got %d watches, want none", h.watches)
			}
		})
	})

	t.Run("it works with a store's own Watch", func(t *testing.T) {
		bubble(t, func(b *bed) {
			var late atomic.Int64
			w, err := worker.New(b.store.Store, handle(func(_ context.Context, j *later.Job[task]) error {
				late.Store(max(late.Load(), int64(time.Since(j.RunAt))))
				return nil
			}), worker.Config{Poll: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error)
			go func() { ended <- w.Run(ctx) }()
			for i := range 50 {
				b.sleep(time.Duration(i*37%400) * time.Millisecond)
				b.tasks(i%3, later.Options{})
				b.enqueue(task{}, later.Options{Delay: time.Duration(i) * 400 * time.Millisecond})
			}
			b.sleep(40 * time.Second)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if got := time.Duration(late.Load()); got > 20*time.Millisecond {
				t.Errorf("got a job started %v late, want at most 20 ms", got)
			}
			if got := w.Stats().Outcomes[later.OutcomeDone]; got != 99 {
				t.Errorf("got %d done, want 99", got)
			}
		})
	})
}

package worker_test

import (
	"context"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// goroutinesMade is how many goroutines this process has ever made.
func goroutinesMade() uint64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// census counts the jobs that run, by queue.
type census struct {
	mu      sync.Mutex
	running map[string]int
	started map[string]int
}

func (c *census) handlers(d time.Duration) *later.Handlers {
	c.running, c.started = map[string]int{}, map[string]int{}
	return handle(func(ctx context.Context, j *later.Job[task]) error {
		c.add(j.Queue, 1)
		defer c.add(j.Queue, -1)
		return obedient(ctx, d)
	})
}

func (c *census) add(queue string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[queue] += n
	if n > 0 {
		c.started[queue]++
	}
}

func (c *census) want(t *testing.T, want map[string]int) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for queue, n := range want {
		if c.running[queue] != n {
			t.Errorf("got %v running, want %v", c.running, want)
			return
		}
	}
}

func TestShares(t *testing.T) {
	queues := []worker.Queue{{Name: "a", Share: 3}, {Name: "b", Share: 1}, {Name: "c"}}

	t.Run("jobs that must not start yet cost nothing", func(t *testing.T) {
		// Goroutines once started each other for as long as a queue with its part of the
		// slots had jobs in line, and the other's claim was under way.
		bubble(t, func(b *bed) {
			var starts atomic.Int64
			b.tasks(2000, later.Options{Queue: "a"})
			b.tasks(2000, later.Options{Queue: "b"})
			b.store.hanging(func(_ context.Context, op string, _ any) error {
				if op == "claim" {
					time.Sleep(20 * time.Millisecond)
				}
				return nil
			})
			h := handle(func(ctx context.Context, j *later.Job[task]) error {
				starts.Add(1)
				if j.Queue == "b" {
					return obedient(ctx, 120*time.Millisecond)
				}
				return obedient(ctx, 5*time.Millisecond)
			})
			before := goroutinesMade()
			r := b.run(h, worker.Config{Queues: []worker.Queue{{Name: "a"}, {Name: "b"}}, Concurrency: 10})
			b.sleep(3 * time.Second)
			r.stop()
			if made := goroutinesMade() - before; made > uint64(starts.Load())+5_000 {
				t.Errorf("%d goroutines were made for %d jobs", made, starts.Load())
			}
		})
	})

	t.Run("the slots are divided by shares while all queues have work", func(t *testing.T) {
		bubble(t, func(b *bed) {
			for _, q := range []string{"a", "b", "c"} {
				b.tasks(1000, later.Options{Queue: q})
			}
			var c census
			r := b.run(c.handlers(time.Second), worker.Config{Queues: queues, Concurrency: 10})
			for range 20 {
				c.want(t, map[string]int{"a": 6, "b": 2, "c": 2})
				time.Sleep(time.Second)
			}
			r.stopped()
		})
	})

	t.Run("slots that a queue has no work for are lent", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(1000, later.Options{Queue: "c"})
			var c census
			r := b.run(c.handlers(time.Second), worker.Config{Queues: queues, Concurrency: 10})
			for range 20 {
				c.want(t, map[string]int{"a": 0, "b": 0, "c": 10})
				time.Sleep(time.Second)
			}
			r.stopped()
		})
	})

	t.Run("lent slots come back within a job and a poll", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(1000, later.Options{Queue: "c"})
			var c census
			r := b.run(c.handlers(time.Second), worker.Config{Queues: queues, Concurrency: 8})
			b.sleep(10500 * time.Millisecond)
			b.tasks(1000, later.Options{Queue: "a"})
			b.sleep(3 * time.Second)
			c.want(t, map[string]int{"a": 6, "c": 2})
			r.stopped()
		})
	})

	t.Run("a queue whose jobs are long does not take the others' slots", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(100, later.Options{Queue: "a"})
			b.tasks(10_000, later.Options{Queue: "b"})
			var mu sync.Mutex
			long, most, short := 0, 0, 0
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				if j.Queue == "b" {
					mu.Lock()
					short++
					mu.Unlock()
					return obedient(ctx, 10*time.Millisecond)
				}
				mu.Lock()
				long++
				most = max(most, long)
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				long--
				mu.Unlock()
				return nil
			}), worker.Config{Queues: []worker.Queue{{Name: "a"}, {Name: "b"}}, Concurrency: 10, DrainTimeout: time.Hour})
			b.sleep(10 * time.Second)
			if most != 5 {
				t.Errorf("got %d slots for the long jobs, want 5", most)
			}
			if short < 4000 {
				t.Errorf("got %d short jobs in 10 s, want 5 slots' worth", short)
			}
			r.stopped()
		})
	})

	t.Run("one slot goes round by shares", func(t *testing.T) {
		bubble(t, func(b *bed) {
			for _, q := range []string{"a", "b", "c"} {
				b.tasks(1000, later.Options{Queue: q})
			}
			var c census
			r := b.run(c.handlers(time.Second), worker.Config{Queues: queues, Concurrency: 1})
			b.sleep(100 * time.Second)
			if c.started["a"] < 55 || c.started["a"] > 65 || c.started["b"] < 17 || c.started["c"] < 17 {
				t.Errorf("got the starts %v, want about 60, 20, 20", c.started)
			}
			r.stopped()
		})
	})

	t.Run("an idle worker with several queues asks once in each Poll", func(t *testing.T) {
		bubble(t, func(b *bed) {
			r := b.run(handle(noop), worker.Config{Queues: queues})
			b.sleep(100 * time.Second)
			if n := len(b.store.called("claim")); n > 112 {
				t.Errorf("got %d claims in 100 s, want about 100", n)
			}
			r.stopped()
		})
	})

	t.Run("jobs of other queues are left alone", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{Queue: "other"})[0]
			r := b.run(handle(noop), worker.Config{Queues: queues})
			b.sleep(10 * time.Second)
			if j := b.find(id); j.State != later.StateReady || j.Attempt != 0 {
				t.Errorf("got %s with attempt %d, want ready and untouched", j.State, j.Attempt)
			}
			r.stopped()
		})
	})
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// Lack is what a store does not have of what the suite tests; see [Run].
type Lack int

const (
	// LackWaker: the store is no [later.Waker].
	LackWaker Lack = iota + 1
	// LackHearing: the store is a [later.Waker], but hears nothing where it is tested.
	LackHearing
)

// testWake says that a wake-up comes; that none came too many a suite that any store
// passes cannot say, because one may come for no reason.
func testWake(t *testing.T, open Open) {
	// woken. Case 169 begins like this too: nothing is known before.
	t.Run("a worker that waits is woken by a job of any of its queues", func(t *testing.T) {
		w := newWorld(t, open)
		watch := w.watch(t, "mail", queue)
		for _, q := range []string{queue, "mail", queue} {
			w.waitsCalmly(watch)
			w.enqueue(later.Options{Queue: q})
			w.woken(watch)
			watch.Busy()
		}
	})

	t.Run("a worker that waits is woken by a job with a key", func(t *testing.T) {
		w := newWorld(t, open)
		watch := w.watch(t, queue)
		for _, hold := range holds {
			u := hold.unique
			u.Key = "k"
			w.waitsCalmly(watch)
			w.takes(u, later.Options{Tenant: hold.name})
			w.woken(watch)
			watch.Busy()
		}
	})

	t.Run("many jobs at once wake those who wait for any of their queues", func(t *testing.T) {
		w := newWorld(t, open)
		queues := []string{"a", "b", "c"}
		var watches []later.Watch
		var requests []later.Request
		for _, q := range queues {
			watch := w.watch(t, q)
			w.waits(watch)
			watches = append(watches, watch)
			requests = append(requests, later.Request{Args: raw(`{}`), Options: later.Options{Queue: q}})
		}
		if _, err := w.client().EnqueueMany(w.ctx, requests); err != nil {
			t.Fatal(err)
		}
		for _, watch := range watches {
			w.woken(watch)
		}
	})

	t.Run("a worker of very many queues is woken like any other", func(t *testing.T) {
		w := newWorld(t, open)
		var queues []string
		for n := range 100 {
			queues = append(queues, fmt.Sprintf("queue-%d", n))
		}
		watch := w.watch(t, queues...)
		w.waitsCalmly(watch)
		w.enqueue(later.Options{Queue: "queue-63"})
		w.woken(watch)
	})

	// Case 173: who sleeps until the next job that it knows of must learn of an earlier one.
	t.Run("a job that is due soon wakes as well", func(t *testing.T) {
		w := newWorld(t, open)
		watch := w.watch(t, queue)
		w.waitsCalmly(watch)
		w.enqueue(later.Options{Delay: later.WakeAhead / 2})
		w.woken(watch)
	})

	t.Run("who waits is woken when what was paused goes on", func(t *testing.T) {
		w := newWorld(t, open)
		for _, scope := range scopesOf() {
			w.pause(scope, "")
		}
		w.enqueue(later.Options{Tenant: "acme"})
		watch := w.watch(t, queue)
		for _, scope := range scopesOf() {
			w.waitsCalmly(watch)
			w.resume(scope)
			w.wokenBy(watch, "resume of a "+string(scope.Of))
		}
	})

	t.Run("a job that becomes due in another way wakes", func(t *testing.T) {
		w := newWorld(t, open)
		watch := w.watch(t, queue)
		later1 := w.enqueue(later.Options{Delay: long})
		dead1 := w.die(raw(`{}`), later.Options{}, later.DeadFailed, "it failed")
		dead2 := w.die(raw(`{}`), later.Options{}, later.DeadFailed, "it failed")
		for _, act := range []struct {
			name string
			do   func() error
		}{
			{"retry of a job that waits", func() error { return w.store.Retry(w.ctx, later1) }},
			{"retry of a dead job", func() error { return w.store.Retry(w.ctx, dead1) }},
			{"retry of dead jobs", func() error {
				n, err := w.store.RetryDead(w.ctx, later.Filter{})
				equal(t, fmt.Sprintf("dead jobs retried, of which %d is one", dead2), n, 1)
				return err
			}},
			{"release", func() error {
				w.settle(end(w.claim(1)[0], later.OutcomeReleased))
				return nil
			}},
		} {
			w.waitsCalmly(watch)
			if err := act.do(); err != nil {
				t.Fatalf("%s: %v", act.name, err)
			}
			w.wokenBy(watch, act.name)
		}
	})

	// found. What was enqueued while the worker was busy has woken nobody.
	t.Run("a claim after Waiting finds what came without a wake-up", func(t *testing.T) {
		w := newWorld(t, open)
		watch := w.watch(t, queue)
		for range 20 {
			w.waits(watch)
			watch.Busy()
			id := w.enqueue(later.Options{})
			w.waits(watch)
			equal(t, "the job that was claimed", w.claimOne().ID, id)
		}
	})

	// found. Case 166, and the wake-ups that get lost between the looks.
	t.Run("workers that look only when they are woken find everything", func(t *testing.T) {
		w := newWorld(t, open)
		const workers, producers, each = 3, 4, 50
		var mu sync.Mutex
		found := map[int64]bool{}
		ctx, stop := context.WithCancel(w.ctx)
		defer stop()
		var working sync.WaitGroup
		for n := range workers {
			watch := w.watch(t, queue)
			working.Go(func() { w.workWhenWoken(ctx, watch, n, &mu, found) })
		}
		inParallel(t, producers, func(ctx context.Context, _ int) error {
			for range each {
				if _, err := w.client().Enqueue(ctx, raw(`{}`), later.Options{}); err != nil {
					return err
				}
			}
			return nil
		})
		w.eventually("all jobs are found", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(found) == producers*each
		})
		stop()
		working.Wait()
	})

	t.Run("nothing comes after Close", func(t *testing.T) {
		w := newWorld(t, open)
		watch, other := w.watch(t, queue), w.watch(t, queue)
		w.waits(watch)
		w.waits(other)
		drained(watch)
		watch.Close()
		watch.Close()
		drained(watch) // what came before
		w.enqueue(later.Options{})
		w.woken(other)
		if heard, err := watch.Waiting(w.ctx); heard || err != nil {
			t.Errorf("Waiting after Close: got %v, %v", heard, err)
		}
		watch.Busy()
		if drained(watch) {
			t.Error("a wake-up came after Close")
		}
	})

	t.Run("a context that has ended is an error, and a store that was closed", func(t *testing.T) {
		w := newWorld(t, open)
		watch := w.watch(t, queue)
		ended, cancel := context.WithCancel(w.ctx)
		cancel()
		if heard, err := watch.Waiting(ended); heard || !errors.Is(err, context.Canceled) {
			t.Errorf("Waiting: got %v, %v, want context.Canceled", heard, err)
		}
		w.waits(watch)
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := watch.Waiting(w.ctx)
		isError(t, "Waiting", err, later.ErrClosed)
		watch.Busy()
	})
}

// testDeaf is what remains where wake-ups are not heard.
func testDeaf(t *testing.T, open Open) {
	t.Run("a worker is told to poll, and finds its jobs", func(t *testing.T) {
		w := newWorld(t, open)
		watch := w.watch(t, queue)
		for range 3 {
			heard, err := watch.Waiting(w.ctx)
			if heard || err != nil {
				t.Fatalf("Waiting: got %v, %v, want false", heard, err)
			}
			id := w.enqueue(later.Options{})
			equal(t, "the job that was claimed", w.claimOne().ID, id)
			watch.Busy()
		}
	})
}

// watch begins to watch, until the test's end.
func (w *world) watch(t *testing.T, queues ...string) later.Watch {
	w.t.Helper()
	watch := w.store.(later.Waker).Watch(worker, queues)
	t.Cleanup(watch.Close)
	return watch
}

// quiet is for how long none of the wake-ups has come that come for no reason.
const quiet = 700 * time.Millisecond

// waitsCalmly is waits, and then waits for an end of the wake-ups that come for no
// reason, so that the next one has one.
func (w *world) waitsCalmly(watch later.Watch) {
	w.t.Helper()
	w.waits(watch)
	last := time.Now()
	w.eventually("no wake-up comes", func() bool {
		if drained(watch) {
			last = time.Now()
		}
		return time.Since(last) > quiet
	})
}

// waits says so until wake-ups are heard, and takes those that came.
func (w *world) waits(watch later.Watch) {
	w.t.Helper()
	w.eventually("wake-ups are heard", func() bool {
		heard, err := watch.Waiting(w.ctx)
		if err != nil {
			w.t.Fatalf("Waiting: %v", err)
		}
		return heard
	})
	drained(watch)
}

// drained takes a wake-up, and reports whether there was one.
func drained(watch later.Watch) bool {
	select {
	case <-watch.Wakes():
		return true
	default:
		return false
	}
}

func (w *world) woken(watch later.Watch) {
	w.t.Helper()
	w.wokenBy(watch, "enqueue")
}

func (w *world) wokenBy(watch later.Watch, what string) {
	w.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case <-watch.Wakes():
	case <-deadline.C:
		w.t.Fatalf("gave up waiting for the wake-up after %s", what)
	}
}

// workWhenWoken claims after each wake-up until nothing is left. As a worker does, it
// also looks each WakeAhead.
func (w *world) workWhenWoken(ctx context.Context, watch later.Watch, n int, mu *sync.Mutex, found map[int64]bool) {
	poll := time.NewTicker(later.WakeAhead)
	defer poll.Stop()
	for ctx.Err() == nil {
		req := ask(10)
		req.Worker = fmt.Sprintf("worker-%d", n)
		jobs, err := w.store.Claim(ctx, req)
		if err != nil {
			continue // the test has ended, or will find jobs missing
		}
		mu.Lock()
		for _, c := range jobs {
			found[c.ID] = true
		}
		mu.Unlock()
		if len(jobs) > 0 {
			watch.Busy()
			continue
		}
		heard, err := watch.Waiting(ctx)
		if err != nil || !heard {
			continue
		}
		if jobs, err = w.store.Claim(ctx, req); err != nil || len(jobs) > 0 {
			mu.Lock()
			for _, c := range jobs {
				found[c.ID] = true
			}
			mu.Unlock()
			continue
		}
		select {
		case <-watch.Wakes():
		case <-poll.C:
		case <-ctx.Done():
		}
	}
}

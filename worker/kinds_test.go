package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// kindCensus counts the jobs that run, by kind.
type kindCensus struct {
	mu      sync.Mutex
	running map[string]int
	most    map[string]int
	started map[string]int
	lost    int // how many that were lost before have begun
}

func newKindCensus() *kindCensus {
	return &kindCensus{running: map[string]int{}, most: map[string]int{}, started: map[string]int{}}
}

// handle adds a handler to h that takes d.
func (c *kindCensus) handle(h *later.Handlers, kind string, d time.Duration) {
	later.HandleRaw(h, kind, later.HandlerConfig{}, func(ctx context.Context, j *later.Job[json.RawMessage]) error {
		c.add(kind, 1)
		defer c.add(kind, -1)
		if j.Crashes > 0 {
			c.mu.Lock()
			c.lost++
			c.mu.Unlock()
		}
		return obedient(ctx, d)
	})
}

func (c *kindCensus) add(kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[kind] += n
	c.most[kind] = max(c.most[kind], c.running[kind])
	if n > 0 {
		c.started[kind]++
	}
}

// get returns a copy of what was counted.
func (c *kindCensus) get(of *map[string]int, kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (*of)[kind]
}

func (b *bed) ofKind(kind string, n int, opts later.Options) (ids []int64) {
	b.Helper()
	for range n {
		ids = append(ids, b.enqueue(raw(kind, "1"), opts))
	}
	return ids
}

// suspectsOf makes the due jobs of a kind suspects.
func (b *bed) suspectsOf(kind string) {
	b.Helper()
	for range later.SuspectCrashes {
		if _, err := b.store.Store.Claim(b.Context(), later.ClaimRequest{
			Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: 1000}}, Limit: 1000, Kinds: []string{kind},
			Worker: "killed", Token: later.NewToken(), Lease: time.Second,
		}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
	}
}

func TestKindSlots(t *testing.T) {
	t.Run("a kind has no more jobs than its slots, and always as many while there are any", func(t *testing.T) {
		bubble(t, func(b *bed) {
			c, h := newKindCensus(), later.NewHandlers()
			c.handle(h, "few", time.Second)
			c.handle(h, "many", time.Second)
			few := b.ofKind("few", 90, later.Options{})
			b.ofKind("many", 200, later.Options{})
			// Its sweeps, one a second, cost no place.
			r := b.run(h, worker.Config{Concurrency: 10, KindSlots: map[string]int{"few": 3}, Lease: 4 * time.Second})
			b.sleep(30500 * time.Millisecond)
			if n := c.get(&c.most, "few"); n != 3 {
				t.Errorf("got up to %d at once, want 3", n)
			}
			if n := c.get(&c.most, "many"); n != 7 {
				t.Errorf("got up to %d of the other kind at once, want the other slots used", n)
			}
			for _, id := range few {
				b.wantOutcomes(id, "done")
			}
			r.stopped()
		})
	})

	t.Run("what is claimed ahead of free slots keeps to it, too", func(t *testing.T) {
		bubble(t, func(b *bed) {
			c, h := newKindCensus(), later.NewHandlers()
			c.handle(h, "few", 20*time.Millisecond)
			c.handle(h, "many", 20*time.Millisecond)
			var few []int64
			for range 300 {
				few = append(few, b.ofKind("few", 1, later.Options{})...)
				b.ofKind("many", 10, later.Options{})
			}
			waited := 0
			r := b.run(h, worker.Config{Concurrency: 10, KindSlots: map[string]int{"few": 3}})
			for range 80 {
				b.sleep(100 * time.Millisecond)
				waited = max(waited, r.Stats().Waiting)
				if n := len(b.leased(few)); n > 3 {
					b.Fatalf("got %d that run or wait, want at most 3", n)
				}
			}
			if n := c.get(&c.most, "few"); n > 3 || n < 2 || waited < 20 {
				t.Errorf("got up to %d at once, and up to %d jobs that wait, want 3 and many", n, waited)
			}
			for _, id := range few {
				b.wantOutcomes(id, "done")
			}
			r.stopped()
		})
	})

	t.Run("while no kind has room nothing is asked for", func(t *testing.T) {
		bubble(t, func(b *bed) {
			c, h := newKindCensus(), later.NewHandlers()
			c.handle(h, "a", 10*time.Second)
			c.handle(h, "b", 10*time.Second)
			b.ofKind("a", 3, later.Options{})
			b.ofKind("b", 2, later.Options{})
			r := b.run(h, worker.Config{Concurrency: 10, KindSlots: map[string]int{"a": 2, "b": 1}})
			b.sleep(time.Second)
			before := len(b.store.called("claim"))
			b.sleep(8 * time.Second)
			if n := len(b.store.called("claim")) - before; n != 0 {
				t.Errorf("got %d claims while all have as many as they may, want none", n)
			}
			b.sleep(2 * time.Second)
			if a, bb := c.get(&c.started, "a"), c.get(&c.started, "b"); a != 3 || bb != 2 {
				t.Errorf("got %d and %d started, want the others as soon as there was room", a, bb)
			}
			r.stopped()
		})
	})

	t.Run("a kind without room is asked for with 0, one with some with that many", func(t *testing.T) {
		bubble(t, func(b *bed) {
			c, h := newKindCensus(), later.NewHandlers()
			c.handle(h, "a", 10*time.Second)
			c.handle(h, "b", 10*time.Second)
			c.handle(h, "free", 10*time.Second)
			b.ofKind("a", 3, later.Options{})
			b.ofKind("b", 1, later.Options{})
			r := b.run(h, worker.Config{Concurrency: 10, KindSlots: map[string]int{"a": 2, "b": 3}})
			b.sleep(5 * time.Second)
			claims := b.store.called("claim")
			for i, want := range map[int]string{0: "map[a:2 b:3]", len(claims) - 1: "map[a:0 b:2]"} {
				if got := fmt.Sprint(claims[i].arg.(later.ClaimRequest).MostOfKind); got != want {
					t.Errorf("claim %d: got the bounds %s, want %s", i, got, want)
				}
			}
			r.stopped()
		})
	})

	t.Run("without bounds none are sent", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.tasks(1, later.Options{})
			b.drain(handle(noop), worker.Config{})
			if req := b.store.called("claim")[0].arg.(later.ClaimRequest); req.MostOfKind != nil || req.Tenants != nil || req.Free != 0 || req.FromLowest {
				t.Errorf("got the request %+v, want none of what was not set", req)
			}
		})
	})

	t.Run("a job whose retry is due at once counts like any other", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h, c := later.NewHandlers(), newKindCensus()
			later.HandleRaw(h, "few", later.HandlerConfig{}, func(ctx context.Context, j *later.Job[json.RawMessage]) error {
				c.add("few", 1)
				defer c.add("few", -1)
				time.Sleep(100 * time.Millisecond)
				if j.Attempt < 3 {
					return later.RetryAfter(context.Canceled, 0)
				}
				return nil
			})
			ids := b.ofKind("few", 20, later.Options{})
			b.drain(h, worker.Config{Concurrency: 10, KindSlots: map[string]int{"few": 2}})
			for _, id := range ids {
				b.wantOutcomes(id, "retry retry done")
			}
			if n := c.get(&c.most, "few"); n != 2 {
				t.Errorf("got up to %d at once, want 2", n)
			}
		})
	})

	t.Run("room that is made while a claim is under way is not forgotten", func(t *testing.T) {
		// The claim was asked for none of the kind, and finds the queue empty.
		for phase := time.Duration(0); phase < time.Second; phase += 50 * time.Millisecond {
			bubble(t, func(b *bed) {
				hears := b.hearing()
				b.store.hanging(func(ctx context.Context, op string, _ any) error {
					if op == "claim" {
						return obedient(ctx, 300*time.Millisecond)
					}
					return nil
				})
				c, h := newKindCensus(), later.NewHandlers()
				c.handle(h, "few", time.Second)
				c.handle(h, "other", time.Millisecond)
				b.ofKind("few", 10, later.Options{})
				r := b.run(h, worker.Config{KindSlots: map[string]int{"few": 1}, Poll: time.Hour})
				b.sleep(3*time.Second + phase)
				b.ofKind("other", 1, later.Options{})
				hears.wake()
				b.sleep(15 * time.Second)
				if n := c.get(&c.started, "few"); n != 10 {
					t.Errorf("phase %v: got %d started, want all 10", phase, n)
				}
				r.stopped()
			})
		}
	})

	t.Run("hooks keep the place of their job", func(t *testing.T) {
		bubble(t, func(b *bed) {
			c, h := newKindCensus(), later.NewHandlers()
			c.handle(h, "few", time.Millisecond)
			later.HandleRaw(h, "failing", later.HandlerConfig{}, func(context.Context, *later.Job[json.RawMessage]) error {
				c.add("failing", 1)
				return later.Permanent(context.Canceled)
			})
			b.ofKind("failing", 3, later.Options{})
			r := b.run(h, worker.Config{KindSlots: map[string]int{"failing": 1}, OnDead: func(context.Context, worker.Failure) {
				time.Sleep(time.Second)
				c.add("failing", -1)
			}})
			b.sleep(3500 * time.Millisecond)
			if most, all := c.get(&c.most, "failing"), c.get(&c.started, "failing"); most != 1 || all != 3 {
				t.Errorf("got %d started and up to %d with their hooks, want 3 one after the other", all, most)
			}
			r.stopped()
		})
	})

	t.Run("what is given back leaves its place", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			ids := b.tasks(400, later.Options{})
			// As TestAhead: two handlers hang, and some 50 jobs wait behind them.
			r := b.stuck(300, release, worker.Config{KindSlots: map[string]int{"task": 20}})
			b.sleep(time.Second)
			if s := r.Stats(); s.Waiting != 0 || s.Outcomes[later.OutcomeReleased] == 0 {
				t.Errorf("got %+v, want what waited given back", s)
			}
			close(release)
			b.sleep(10 * time.Second)
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
			claims := b.store.called("claim")
			for _, call := range claims {
				if n := call.arg.(later.ClaimRequest).Limit; n > 20 {
					t.Errorf("got a claim for %d jobs, want at most as many as may be held", n)
				}
			}
			if n := claims[len(claims)-1].arg.(later.ClaimRequest).MostOfKind["task"]; n != 20 {
				t.Errorf("got a claim for %d jobs of the kind when none is left, want 20", n)
			}
			r.stopped()
		})
	})

	t.Run("a store that gives too many gets them back", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h, c := later.NewHandlers(), newKindCensus()
			c.handle(h, "few", time.Second)
			c.handle(h, "other", time.Second)
			ids := b.ofKind("few", 3, later.Options{})
			var honest atomic.Bool
			b.store.alter = func(j *later.Claimed) {
				if j.Kind == "other" && !honest.Load() {
					j.Kind = "few"
				}
			}
			ids = append(ids, b.ofKind("other", 1, later.Options{})...)
			r := b.run(h, worker.Config{Concurrency: 3, KindSlots: map[string]int{"few": 2}, Poll: 10 * time.Second})
			b.sleep(500 * time.Millisecond)
			if n := c.get(&c.most, "few"); n != 2 {
				t.Errorf("got up to %d at once, want 2", n)
			}
			honest.Store(true)
			b.sleep(20 * time.Second)
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
			r.stopped()
		})
	})

	t.Run("an answer that was lost holds no places", func(t *testing.T) {
		bubble(t, func(b *bed) {
			h, c := later.NewHandlers(), newKindCensus()
			c.handle(h, "few", 100*time.Millisecond)
			ids := b.ofKind("few", 6, later.Options{})
			n := 0
			b.store.set(nil, func(op string, _ any) error {
				if op == "claim" {
					if n++; n <= 2 {
						return later.ErrUnavailable
					}
				}
				return nil
			})
			r := b.run(h, worker.Config{KindSlots: map[string]int{"few": 2}})
			b.sleep(5 * time.Second)
			for _, id := range ids {
				b.wantOutcomes(id, "done")
			}
			if n := c.get(&c.most, "few"); n != 2 {
				t.Errorf("got up to %d at once, want 2", n)
			}
			r.stopped()
		})
	})

	t.Run("a handler that was abandoned keeps its place, and a worker of such places only is stuck", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			b.tasks(5, later.Options{Timeout: time.Second, MaxAttempts: 1})
			r := b.run(handle(deaf(release)), worker.Config{Grace: time.Second, KindSlots: map[string]int{"task": 2}, DrainTimeout: time.Second})
			b.sleep(3 * time.Second)
			select {
			case <-r.done:
			default:
				b.sleep(10 * time.Second)
			}
			if err := r.stop(); err == nil || !strings.Contains(err.Error(), worker.ErrStuck.Error()) {
				t.Errorf("got the error %v, want ErrStuck", err)
			}
			if n := r.Stats().AbandonedTotal; n != 2 {
				t.Errorf("got %d abandoned, want the 2 that may run", n)
			}
			close(release)
			synctest.Wait()
		})
	})

	t.Run("a Drain that leaves jobs because their kind is held by such a handler does not say that none is due", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			h, c := later.NewHandlers(), newKindCensus()
			c.handle(h, "other", time.Millisecond)
			later.Handle(h, deaf(release))
			b.tasks(2, later.Options{Timeout: time.Second, MaxAttempts: 1})
			sum, err := b.worker(h, worker.Config{Grace: time.Second, KindSlots: map[string]int{"task": 1}}).Drain(b.Context())
			if sum.Empty || err == nil {
				t.Errorf("got %+v and the error %v, want that there is more, and the job that hangs", sum, err)
			}
			close(release)
			synctest.Wait()
		})
	})
}

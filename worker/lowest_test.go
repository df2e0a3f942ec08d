package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// starts is the order in which jobs begin, a letter each: h for the best priority, m for the
// middle, l for the lowest.
type starts struct {
	mu    sync.Mutex
	order strings.Builder
}

func (s *starts) handlers(d time.Duration) *later.Handlers {
	return handle(func(ctx context.Context, j *later.Job[task]) error {
		s.mu.Lock()
		s.order.WriteByte(map[int16]byte{-5: 'h', 0: 'm', 7: 'l'}[j.Priority])
		s.mu.Unlock()
		return obedient(ctx, d)
	})
}

func (s *starts) get() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.String()
}

// threePriorities enqueues n jobs of each.
func (b *bed) threePriorities(n int) {
	b.Helper()
	for _, p := range []int16{7, 0, -5} {
		b.tasks(n, later.Options{Priority: p})
	}
}

func TestLowestEvery(t *testing.T) {
	for _, c := range []struct {
		every int
		want  string // of 21 starts
	}{
		{0, "hhhhhhhhhlhhhhhhhhhlh"},
		{4, "hhhlhhhlhhhlhhhlhhhlh"},
		{1, "lllllllllllllllllllll"},
		{-1, "hhhhhhhhhhhhhhhhhhhhh"},
	} {
		t.Run(fmt.Sprintf("one claim in so many begins at the lowest priority, evenly: %d", c.every), func(t *testing.T) {
			bubble(t, func(b *bed) {
				var s starts
				b.threePriorities(100)
				r := b.run(s.handlers(time.Second), worker.Config{Concurrency: 1, LowestEvery: c.every})
				b.sleep(20500 * time.Millisecond)
				if got := s.get(); got != c.want {
					t.Errorf("LowestEvery %d: got the order %s, want %s", c.every, got, c.want)
				}
				r.stopped()
			})
		})
	}

	t.Run("a claim that finds nothing does not count", func(t *testing.T) {
		// Else one that finds work and one that does not, in turn, would keep the lowest waiting.
		bubble(t, func(b *bed) {
			var s starts
			r := b.run(s.handlers(time.Second), worker.Config{Concurrency: 1, LowestEvery: 2, Poll: 100 * time.Millisecond})
			for range 7 {
				b.sleep(1050 * time.Millisecond) // ten polls for nothing
			}
			b.threePriorities(4)
			b.sleep(8 * time.Second)
			if got := s.get(); !strings.HasPrefix(got, "hlhlhlhl") {
				t.Errorf("got the order %s, want the lowest every second time", got)
			}
			r.stopped()
		})
	})

	t.Run("a claim whose answer is lost does not count", func(t *testing.T) {
		bubble(t, func(b *bed) {
			var s starts
			b.threePriorities(10)
			b.store.set(func(op string, arg any) error {
				if op == "claim" && arg.(later.ClaimRequest).FromLowest && len(s.get()) < 4 {
					return later.ErrUnavailable
				}
				return nil
			}, nil)
			r := b.run(s.handlers(time.Second), worker.Config{Concurrency: 2, LowestEvery: 2})
			b.sleep(time.Second)
			b.store.failing(nil)
			b.sleep(8 * time.Second)
			if got := s.get(); got[:4] != "hhll" {
				t.Errorf("got the order %s, want the second claim that has an answer to bring the lowest", got)
			}
			r.stopped()
		})
	})

	t.Run("short jobs that are claimed ahead have the same share", func(t *testing.T) {
		// Those of the lowest priority wait beside better ones that never end to come.
		bubble(t, func(b *bed) {
			var s starts
			h := s.handlers(2 * time.Millisecond)
			low := b.tasks(3000, later.Options{Priority: 7})
			b.tasks(10_000, later.Options{Priority: -5})
			r := b.run(h, worker.Config{Concurrency: 4})
			b.sleep(3 * time.Second)
			got := s.get()
			n := strings.Count(got, "l")
			if share := float64(n) / float64(len(got)); len(got) < 5000 || share < 0.07 || share > 0.13 {
				t.Errorf("got %d of %d, %.3f of them from the lowest priority, want a tenth", n, len(got), share)
			}
			if released := r.Stats().Outcomes[later.OutcomeReleased]; released != 0 {
				t.Errorf("got %d given back, want none", released)
			}
			r.stopped()
			for i, id := range low[:n-1] {
				if b.outcomes(id) == "" {
					b.Fatalf("the low job %d has not run, although %d have begun: they are to come in their order", i, n)
				}
			}
		})
	})

	t.Run("jobs that are claimed ahead from the lowest priority delay a better one no more than others do", func(t *testing.T) {
		bubble(t, func(b *bed) {
			var mu sync.Mutex
			longest := time.Duration(0)
			claimed := map[int64]time.Time{}
			b.store.alter = func(c *later.Claimed) {
				mu.Lock()
				defer mu.Unlock()
				claimed[c.ID] = time.Now()
			}
			b.tasks(3000, later.Options{Priority: 7})
			b.tasks(9000, later.Options{Priority: -5})
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				mu.Lock()
				longest = max(longest, time.Since(claimed[j.ID]))
				mu.Unlock()
				return obedient(ctx, 5*time.Millisecond)
			}), worker.Config{Concurrency: 10, LowestEvery: 3})
			b.sleep(4 * time.Second)
			if longest > 110*time.Millisecond {
				t.Errorf("got a job that waited for %v, want at most some 100 ms", longest)
			}
			r.stopped()
		})
	})
}

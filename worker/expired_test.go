package worker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// Expiry: a job that is no longer worth running is never run, and said to be so.
func TestExpiry(t *testing.T) {
	t.Run("a job that expires while it waits is counted, logged and told", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := map[int64]bool{}
			for range 3 {
				ids[b.enqueue(task{}, later.Options{Tenant: "acme", ExpiresIn: time.Second})] = true
			}
			b.sleep(2 * time.Second)
			var mu sync.Mutex
			var told []later.Record
			r := b.run(handle(func(context.Context, *later.Job[task]) error {
				t.Error("got an expired job run")
				return nil
			}), worker.Config{
				Lease:   4 * time.Second,
				OnError: func(context.Context, worker.Failure) { t.Error("got OnError, want OnExpired alone") },
				OnDead:  func(context.Context, worker.Failure) { t.Error("got OnDead, want OnExpired alone") },
				OnExpired: func(_ context.Context, job later.Record) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, job)
				},
			})
			b.sleep(5 * time.Second)
			if s := r.Stats(); s.Outcomes[later.OutcomeExpired] != 3 || s.Claimed != 3 {
				t.Errorf("got %+v, want three claimed and expired", s)
			}
			b.wantLines(3, "WARN job expired while it waited", "kind=task", "tenant=acme", "attempt=0", "expired_at=2000-01-01 00:00:01")
			if len(told) != 3 {
				b.Fatalf("got %d calls of OnExpired, want 3", len(told))
			}
			for _, job := range told {
				if !ids[job.ID] || job.Kind != "task" || job.Tenant != "acme" || string(job.Payload) != `{"n":0}` {
					t.Errorf("got OnExpired of %+v, want the job", job)
				}
				delete(ids, job.ID)
			}
			r.stopped()
		})
	})

	t.Run("so is one that expires while it waits for its next attempt", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.enqueue(task{}, later.Options{ExpiresIn: time.Hour})
			told := 0
			r := b.run(handleEvery(30*time.Minute, func(context.Context, *later.Job[task]) error { return context.Canceled }),
				worker.Config{OnExpired: func(_ context.Context, job later.Record) {
					if told++; job.ID != id || job.Failures != 1 {
						t.Errorf("got OnExpired of %+v, want the job that failed once", job)
					}
				}})
			b.sleep(time.Minute)
			r.stopped() // nobody is there when it is due
			b.sleep(2 * time.Hour)
			sum := b.drain(handle(noop), worker.Config{OnExpired: func(context.Context, later.Record) { told++ }})
			b.wantOutcomes(id, "retry expired")
			if sum.Outcomes[later.OutcomeExpired] != 1 || told != 1 {
				t.Errorf("got %+v and %d calls of OnExpired, want one each", sum, told)
			}
		})
	})

	t.Run("so are those that expire while they are claimed and wait for a slot", func(t *testing.T) {
		bubble(t, func(b *bed) {
			release := make(chan struct{})
			ids := b.tasks(300, later.Options{})
			for i := range 100 {
				ids = append(ids, b.enqueue(task{N: 300 + i}, later.Options{ExpiresIn: 450 * time.Millisecond}))
			}
			var mu sync.Mutex
			told := 0
			r := b.stuck(300, release, worker.Config{OnExpired: func(context.Context, later.Record) {
				mu.Lock()
				defer mu.Unlock()
				told++
			}})
			waiting := len(b.leased(ids)) - 2
			b.sleep(400 * time.Millisecond)
			close(release)
			synctest.Wait()
			if n := r.Stats().Outcomes[later.OutcomeExpired]; int(n) != waiting || told != waiting {
				t.Errorf("got %d expired and %d told, want all %d that waited", n, told, waiting)
			}
			r.stopped()
		})
	})

	t.Run("a hook that panics or hangs is survived", func(t *testing.T) {
		bubble(t, func(b *bed) {
			for range 2 {
				b.enqueue(task{}, later.Options{ExpiresIn: time.Second})
			}
			b.sleep(2 * time.Second)
			var first sync.Once
			r := b.run(handle(noop), worker.Config{Lease: 4 * time.Second, OnExpired: func(ctx context.Context, _ later.Record) {
				first.Do(func() { panic("boom") })
				<-ctx.Done()
			}})
			b.sleep(20 * time.Second)
			b.wantLines(1, "ERROR hook panicked", "hook OnExpired", "boom")
			id := b.tasks(1, later.Options{})[0]
			b.sleep(2 * time.Second)
			b.wantOutcomes(id, "done")
			r.stopped()
		})
	})

	t.Run("slow hooks do not pile up", func(t *testing.T) {
		bubble(t, func(b *bed) {
			for range 5000 {
				b.enqueue(task{}, later.Options{ExpiresIn: time.Second})
			}
			b.sleep(2 * time.Second)
			var mu sync.Mutex
			now, most := 0, 0
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				now += n
				most = max(most, now)
			}
			r := b.run(handle(noop), worker.Config{Lease: 4 * time.Second, OnExpired: func(context.Context, later.Record) {
				count(1)
				time.Sleep(time.Second)
				count(-1)
			}})
			b.sleep(time.Minute)
			if most > 300 {
				t.Errorf("got %d hooks at once, want some sweeps' at most", most)
			}
			if n := r.Stats().Outcomes[later.OutcomeExpired]; n != 5000 {
				t.Errorf("got %d expired in a minute, want all", n)
			}
			r.stopped()
		})
	})

	t.Run("what the store refuses is not told", func(t *testing.T) {
		bubble(t, func(b *bed) {
			id := b.enqueue(task{}, later.Options{ExpiresIn: time.Second})
			b.sleep(2 * time.Second)
			b.store.set(func(op string, arg any) error {
				if op == "settle" { // somebody else ends it first
					_, err := b.store.Store.Settle(b.Context(), arg.([]later.Settlement))
					return err
				}
				return nil
			}, nil)
			r := b.run(handle(noop), worker.Config{Lease: 4 * time.Second, OnExpired: func(context.Context, later.Record) {
				t.Error("got OnExpired for a result that was refused")
			}})
			b.sleep(5 * time.Second)
			b.wantOutcomes(id, "expired")
			if s := r.Stats(); s.Outcomes[later.OutcomeExpired] != 0 || s.Refused != 1 {
				t.Errorf("got %+v, want it refused", s)
			}
			b.wantLines(0, "job expired")
			r.stopped()
		})
	})
}

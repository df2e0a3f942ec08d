package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

var tasks = later.Scope{Of: later.ScopeKind, Name: "task"}

// limit sets a limit.
func (b *bed) limit(scope later.Scope, limit later.Limit) {
	b.Helper()
	if err := b.store.SetLimit(b.Context(), scope, limit, "test"); err != nil {
		b.Fatal(err)
	}
}

func atMost(n int) later.Limit { return later.Limit{MaxRunning: &n} }

// gauge counts the jobs that run, by tenant, and when they began.
type gauge struct {
	mu      sync.Mutex
	begin   time.Time
	running map[string]int
	most    map[string]int
	starts  map[string][]time.Duration
}

func (g *gauge) handlers(d time.Duration) *later.Handlers {
	g.begin, g.running, g.most, g.starts = time.Now(), map[string]int{}, map[string]int{}, map[string][]time.Duration{}
	return handle(func(ctx context.Context, j *later.Job[task]) error {
		g.mu.Lock()
		g.running[j.Tenant]++
		g.most[j.Tenant] = max(g.most[j.Tenant], g.running[j.Tenant])
		g.starts[j.Tenant] = append(g.starts[j.Tenant], time.Since(g.begin))
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.running[j.Tenant]--
		}()
		return obedient(ctx, d)
	})
}

// of returns how many of a tenant's jobs began, and how many ran at once.
func (g *gauge) of(tenant string) (starts []time.Duration, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.starts[tenant]), g.most[tenant]
}

func TestCaps(t *testing.T) {
	for _, wakes := range []bool{true, false} {
		t.Run(fmt.Sprintf("a place that this process frees is filled at once, woken: %t", wakes), func(t *testing.T) {
			// Case 122: being held back costs no attempt, and no time either.
			bubble(t, func(b *bed) {
				b.wakes = wakes
				b.limit(tasks, atMost(2))
				ids := b.tasks(20, later.Options{MaxAttempts: 3})
				var g gauge
				h, d := g.handlers(time.Second), 12*time.Second
				if wakes {
					r := b.run(h, worker.Config{})
					b.sleep(d)
					r.stopped()
				} else {
					b.drain(h, worker.Config{}) // it hears no wake-ups
				}
				starts, most := g.of("")
				if most != 2 || len(starts) != 20 || starts[19] > 9500*time.Millisecond {
					t.Errorf("got %d started, up to %d at once, at %v, want 20 within ten job lengths, two at once", len(starts), most, starts)
				}
				for _, id := range ids {
					b.wantOutcomes(id, "done")
				}
			})
		})
	}

	t.Run("while another process has all places, an idle worker asks twice a second, and notices one that is freed within a second", func(t *testing.T) {
		for _, heard := range []bool{true, false} {
			bubble(t, func(b *bed) {
				b.limit(tasks, atMost(1))
				b.tasks(50, later.Options{})
				other, err := b.store.Store.Claim(b.Context(), later.ClaimRequest{
					Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: 1}}, Limit: 1, Kinds: []string{"task"},
					Worker: "elsewhere", Token: later.NewToken(), Lease: time.Hour,
				})
				if err != nil || len(other) != 1 {
					b.Fatalf("got %v and the error %v, want the other process's job", other, err)
				}
				if heard {
					b.hearing() // whose wake-ups do not come from there
				}
				var g gauge
				r := b.run(g.handlers(time.Minute), worker.Config{})
				b.sleep(10 * time.Second)
				before := b.store.statements()
				b.sleep(time.Minute)
				if n := b.store.statements() - before; n > 135 || n < 60 {
					t.Errorf("heard: %t: got %d statements in a minute, want two a second", heard, n)
				}
				if _, err := b.store.Store.Settle(b.Context(), []later.Settlement{{Lease: other[0].Lease, Outcome: later.OutcomeDone}}); err != nil {
					b.Fatal(err)
				}
				freed := time.Since(g.begin)
				b.sleep(2 * time.Second)
				if starts, _ := g.of(""); len(starts) != 1 || starts[0]-freed > 1050*time.Millisecond {
					t.Errorf("heard: %t: got the starts %v, want one within a second of %v", heard, starts, freed)
				}
				r.cancel()
			})
		}
	})

	t.Run("short jobs that are all under limits run as fast as others", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.limit(later.Scope{Of: later.ScopeTenants}, atMost(5))
			for i := range 100 {
				b.tasks(40, later.Options{Tenant: fmt.Sprintf("t%02d", i)})
			}
			b.store.hanging(func(context.Context, string, any) error { time.Sleep(2 * time.Millisecond); return nil })
			var g gauge
			b.wakes = true
			r := b.run(g.handlers(time.Millisecond), worker.Config{Concurrency: 10})
			b.sleep(time.Second)
			if n := r.Stats().Outcomes[later.OutcomeDone]; n < 3900 {
				t.Errorf("got %d jobs of 1 ms done in a second with 10 slots, want nearly all 4,000", n)
			}
			r.stopped()
		})
	})

	t.Run("jobs under a limit run beside short ones that never end to come, and their places are not taken by jobs that wait", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.limit(later.Scope{Of: later.ScopeTenant, Name: "capped"}, atMost(2))
			b.tasks(20_000, later.Options{})
			b.tasks(100, later.Options{Tenant: "capped"})
			var mu sync.Mutex
			claimed := map[int64]time.Time{}
			b.store.alter = func(c *later.Claimed) {
				mu.Lock()
				defer mu.Unlock()
				claimed[c.ID] = time.Now()
			}
			var longest time.Duration
			r := b.run(handle(func(ctx context.Context, j *later.Job[task]) error {
				if j.Tenant == "capped" {
					mu.Lock()
					longest = max(longest, time.Since(claimed[j.ID]))
					mu.Unlock()
				}
				return obedient(ctx, 5*time.Millisecond)
			}), worker.Config{Concurrency: 10})
			b.sleep(5 * time.Second)
			if longest > 11*time.Millisecond {
				t.Errorf("got a job under a limit that waited for %v with its place, want at most 10 ms", longest)
			}
			if n := r.Stats().Waiting; n < 20 {
				t.Errorf("got %d jobs that wait, want many: else this shows nothing", n)
			}
			done := 0
			for id := int64(20_001); id <= 20_100; id++ {
				if b.outcomes(id) == "done" {
					done++
				}
			}
			if done < 95 {
				t.Errorf("got %d of the 100 jobs under the limit done in 5 s, want two with each claim", done)
			}
			r.stopped()
		})
	})

	t.Run("none under a limit are asked for while enough of them wait", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.limit(tasks, atMost(later.MaxCap))
			b.tasks(5000, later.Options{})
			most := 0
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, 20*time.Millisecond) }),
				worker.Config{Concurrency: 10})
			for range 500 {
				b.sleep(10 * time.Millisecond)
				most = max(most, r.Stats().Waiting)
			}
			// 10 ms of 10 slots with jobs of 20 ms each.
			if most > 5 || most < 3 {
				t.Errorf("got up to %d jobs under a limit that wait, want 5", most)
			}
			if n := r.Stats().Outcomes[later.OutcomeDone]; n < 2400 {
				t.Errorf("got %d done in 5 s, want 500 a second", n)
			}
			r.stopped()
		})
	})
}

// Case 130: a limit that changes at run time counts within a second for what was claimed already.
func TestLimitsChange(t *testing.T) {
	t.Run("jobs that wait for a slot when their scope gets a limit start within half a second or are given back", func(t *testing.T) {
		for _, max := range []int{0, 1, 2} {
			bubble(t, func(b *bed) {
				release := make(chan struct{})
				ids := b.tasks(400, later.Options{})
				r := b.stuck(300, release, worker.Config{})
				b.limit(tasks, atMost(max))
				b.sleep(550 * time.Millisecond)
				if n := len(b.leased(ids)); n != 2 {
					t.Errorf("max %d: got %d leased, want the 2 that run", max, n)
				}
				close(release)
				b.sleep(10 * time.Second)
				done := r.Stats().Outcomes[later.OutcomeDone]
				if max == 0 && done != 302 || max > 0 && done != 400 {
					t.Errorf("max %d: got %d done, want those that ran, or all", max, done)
				}
				r.stopped()
			})
		}
	})

	t.Run("a limit that is loosened or removed has idle workers go on at once", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.wakes = true
			b.limit(tasks, atMost(0))
			b.tasks(10, later.Options{})
			var g gauge
			r := b.run(g.handlers(time.Hour), worker.Config{Poll: time.Hour})
			b.sleep(10 * time.Second)
			b.limit(tasks, atMost(4))
			b.sleep(0)
			if starts, _ := g.of(""); len(starts) != 4 {
				t.Errorf("got %d started, want 4", len(starts))
			}
			if err := b.store.RemoveLimit(b.Context(), tasks); err != nil {
				b.Fatal(err)
			}
			b.sleep(0)
			if starts, _ := g.of(""); len(starts) != 10 {
				t.Errorf("got %d started, want all 10", len(starts))
			}
			r.cancel()
		})
	})
}

func TestRates(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		heard bool
	}{
		{250 * time.Millisecond, false}, {250 * time.Millisecond, true}, {7 * time.Second, false},
		{50 * time.Millisecond, false}, {50 * time.Millisecond, true}, {5 * time.Millisecond, true},
	} {
		t.Run(fmt.Sprintf("jobs start when the rate lets them, each %v, heard: %t", c.every, c.heard), func(t *testing.T) {
			for phase := time.Duration(0); phase < 2*time.Second; phase += 300 * time.Millisecond {
				bubble(t, func(b *bed) {
					b.wakes = c.heard
					b.limit(tasks, later.Limit{Rate: later.Rate{N: 1, Period: c.every}})
					var g gauge
					h := g.handlers(time.Millisecond)
					r := b.run(h, worker.Config{})
					b.sleep(10*time.Second + phase) // it waits, and is woken or polls
					g.begin = time.Now()
					b.tasks(60, later.Options{})
					b.sleep(2*time.Second + 41*c.every)
					starts, _ := g.of("")
					if len(starts) < 40 {
						b.Fatalf("got %d started, want 40", len(starts))
					}
					if c.heard && starts[0] != 0 {
						b.Errorf("got the first start after %v, want it at once", starts[0])
					}
					for i, at := range starts[:40] {
						if want := starts[0] + time.Duration(i)*c.every; at != want {
							b.Fatalf("got start %d after %v, want it after %v: %v", i, at, want, starts)
						}
					}
					r.stopped()
				})
			}
		})
	}

	t.Run("jobs of one kind in several queues start when its rate lets them", func(t *testing.T) {
		for _, concurrency := range []int{2, 10} {
			bubble(t, func(b *bed) {
				b.wakes = true
				b.limit(tasks, later.Limit{Rate: later.Rate{N: 1, Period: 50 * time.Millisecond}})
				var g gauge
				h := g.handlers(30 * time.Millisecond)
				r := b.run(h, worker.Config{Concurrency: concurrency, Queues: []worker.Queue{{Name: "a", Share: 3}, {Name: "b"}, {Name: "c"}}})
				b.sleep(10 * time.Second)
				g.begin = time.Now()
				for range 30 {
					for _, queue := range []string{"a", "b", "c"} {
						b.tasks(1, later.Options{Queue: queue})
					}
				}
				b.sleep(5 * time.Second)
				starts, _ := g.of("")
				if len(starts) != 90 || starts[89] != 89*50*time.Millisecond {
					b.Errorf("got %d starts, the last %v, want 90, one each 50 ms", len(starts), starts)
				}
				r.stopped()
			})
		}
	})

	t.Run("a worker that waits for the rate makes two statements for each start, and no more", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.wakes = true
			b.limit(tasks, later.Limit{Rate: later.Rate{N: 1, Period: 10 * time.Second}})
			b.tasks(60, later.Options{})
			var g gauge
			r := b.run(g.handlers(time.Millisecond), worker.Config{Poll: time.Hour})
			b.sleep(5 * time.Second)
			claims, asked := len(b.store.called("claim")), len(b.store.called("next due"))
			b.sleep(100 * time.Second)
			claims, asked = len(b.store.called("claim"))-claims, len(b.store.called("next due"))-asked
			if claims < 10 || claims > 25 || asked < 10 || asked > 35 {
				t.Errorf("got %d claims and %d questions for 10 starts", claims, asked)
			}
			r.stopped()
		})
	})

	t.Run("many workers that wait for the same start do not all ask all the time", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.limit(tasks, later.Limit{Rate: later.Rate{N: 100, Period: time.Second}})
			b.tasks(600, later.Options{})
			var g gauge
			h := g.handlers(time.Millisecond)
			var all []*running
			beds := make([]*bed, 5)
			for i := range beds {
				beds[i] = b.beside()
				all = append(all, beds[i].run(h, worker.Config{}))
			}
			b.sleep(2 * time.Second)
			before := 0
			for _, one := range beds {
				before += one.store.statements()
			}
			started, _ := g.of("")
			b.sleep(3 * time.Second)
			n := -before
			for _, one := range beds {
				n += one.store.statements()
			}
			now, _ := g.of("")
			if got := len(now) - len(started); got < 285 || got > 301 {
				t.Errorf("got %d started in 3 s, want 300", got)
			}
			// For each start a claim, a question and a settle, and what the others ask in vain.
			if n > 300*8 {
				t.Errorf("got %d statements for 300 starts", n)
			}
			for _, r := range all {
				r.stopped()
			}
		})
	})
}

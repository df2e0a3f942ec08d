package worker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestKindSlotsAndSuspects(t *testing.T) {
	t.Run("a suspect waits until its kind has room", func(t *testing.T) {
		bubble(t, func(b *bed) {
			c, h := newKindCensus(), later.NewHandlers()
			c.handle(h, "few", 60*time.Second)
			suspect := b.ofKind("few", 1, later.Options{})[0]
			b.suspectsOf("few")
			b.ofKind("few", 1, later.Options{})
			r := b.run(h, worker.Config{KindSlots: map[string]int{"few": 1}, Lease: 4 * time.Second})
			b.sleep(3 * time.Minute)
			if most, all := c.get(&c.most, "few"), c.get(&c.started, "few"); most != 1 || all != 2 {
				t.Errorf("got %d started and up to %d at once, want 2 one after the other", all, most)
			}
			b.wantOutcomes(suspect, "lost lost done")
			r.stopped()
		})
	})

	for _, slots := range []int{6, 30} {
		t.Run(fmt.Sprintf("one of a kind that is always busy gets the next place, and nothing waits for that, with %d slots", slots), func(t *testing.T) {
			bubble(t, func(b *bed) {
				c, h := newKindCensus(), later.NewHandlers()
				c.handle(h, "few", time.Second)
				c.handle(h, "also", 1300*time.Millisecond)
				c.handle(h, "other", time.Second)
				suspects := append(b.ofKind("few", 2, later.Options{}), b.ofKind("also", 1, later.Options{})...)
				b.suspectsOf("few")
				b.suspectsOf("also")
				for range 300 {
					b.ofKind("few", 1, later.Options{})
					b.ofKind("also", 1, later.Options{})
				}
				b.ofKind("other", 200, later.Options{})
				r := b.run(h, worker.Config{Concurrency: slots, KindSlots: map[string]int{"few": 1, "also": 2}, Lease: 4 * time.Second})
				b.sleep(10 * time.Second)
				for _, id := range suspects {
					b.wantOutcomes(id, "lost lost done")
				}
				b.sleep(50 * time.Second)
				if few, also := c.get(&c.most, "few"), c.get(&c.most, "also"); few != 1 || also != 2 {
					t.Errorf("got up to %d and %d at once, want 1 and 2", few, also)
				}
				if n := c.get(&c.started, "few"); n < 58 {
					t.Errorf("got %d started in a minute, want one a second all the time", n)
				}
				if n := c.get(&c.started, "also"); n < 88 {
					t.Errorf("got %d of the other started in a minute, want two in 1.3 s all the time", n)
				}
				// One a second, and one more for each kind.
				if n := len(b.store.called("sweep")); n > 60*3*11/10+10 {
					t.Errorf("got %d sweeps in a minute, want at most 3 a second", n)
				}
				// One that is claimed just when a suspect gets the last slot goes back.
				if n := r.Stats().Outcomes[later.OutcomeReleased]; n > 3 {
					t.Errorf("got %d given back, want one for each suspect at most", n)
				}
				r.stopped()
			})
		})
	}

	// slowly has claims and sweeps take a while, in each of which something else happens.
	slowly := func(b *bed) {
		b.store.hanging(func(ctx context.Context, op string, _ any) error {
			switch op {
			case "claim":
				return obedient(ctx, 100*time.Millisecond)
			case "sweep":
				return obedient(ctx, 500*time.Millisecond)
			}
			return nil
		})
	}
	for _, c := range []struct {
		what    string
		prepare func(b *bed)
		limit   int // of the kind that is to go on
	}{
		{"finds none", func(*bed) {}, 1},
		{"fails", func(b *bed) { b.store.failing(later.ErrUnavailable, "sweep") }, 1},
		{"finds one of another kind", func(b *bed) {
			b.ofKind("other", 1, later.Options{})
			b.suspectsOf("other")
		}, 1},
		{"finds one of the kind itself", func(b *bed) {
			b.ofKind("few", 1, later.Options{})
			b.suspectsOf("few")
		}, 2},
	} {
		t.Run("a place that was kept for a suspect is not forgotten when the sweep "+c.what, func(t *testing.T) {
			for took := 200 * time.Millisecond; took < 2*time.Second; took += 210 * time.Millisecond {
				bubble(t, func(b *bed) {
					c.prepare(b)
					slowly(b)
					census, h := newKindCensus(), later.NewHandlers()
					census.handle(h, "few", took)
					census.handle(h, "other", time.Hour)
					ids := b.ofKind("few", 100, later.Options{})
					r := b.run(h, worker.Config{KindSlots: map[string]int{"few": c.limit, "other": 2}, Poll: time.Hour})
					// A claim for each, and what sweeps each 15 s keep them waiting.
					all := 100 * (took + 100*time.Millisecond)
					b.sleep(all + (all/(13*time.Second)+2)*1300*time.Millisecond)
					for _, id := range ids {
						if got := b.outcomes(id); got != "done" {
							b.Fatalf("jobs of %v: got the outcomes %q of job %d, want all done one after the other", took, got, id)
						}
					}
					if n := census.get(&census.most, "few"); n != c.limit {
						t.Errorf("got up to %d at once, want %d", n, c.limit)
					}
					if n := r.Stats().Outcomes[later.OutcomeReleased]; n != 0 {
						t.Errorf("got %d given back, want none: a claim and a sweep do not ask for the same place", n)
					}
					r.cancel()
				})
			}
		})
	}

	t.Run("a sweep does not ask for kinds without room", func(t *testing.T) {
		bubble(t, func(b *bed) {
			c, h := newKindCensus(), later.NewHandlers()
			c.handle(h, "few", time.Minute)
			c.handle(h, "other", time.Minute)
			b.ofKind("few", 1, later.Options{})
			r := b.run(h, worker.Config{KindSlots: map[string]int{"few": 1}, Lease: 4 * time.Second})
			b.sleep(30 * time.Second)
			sweeps := b.store.called("sweep")
			for _, call := range sweeps[1:] {
				req := call.arg.(later.SweepRequest)
				if !slices.Equal(req.Kinds, []string{"other"}) || !req.Suspect {
					t.Errorf("got a sweep for %v, suspects: %t, want the other kind only", req.Kinds, req.Suspect)
				}
			}
			r.stopped()
		})
	})
}

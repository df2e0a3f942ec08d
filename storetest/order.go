package storetest

import (
	"math"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func testOrder(t *testing.T, open Open) {
	t.Run("jobs of one priority come in the order in which they became due", func(t *testing.T) {
		w := newWorld(t, open)
		var ids []int64
		for range 20 {
			ids = append(ids, w.enqueue(later.Options{}))
		}
		var got []int64
		for range 4 {
			got = append(got, idsOf(w.claim(5))...)
		}
		equalSlices(t, "ids", got, ids)
	})

	// Case 127: also at the ends of the range.
	t.Run("a lower priority number runs first", func(t *testing.T) {
		w := newWorld(t, open)
		order := []int16{math.MaxInt16, 0, -1, math.MinInt16, 1, 0, -1}
		ids := make([]int64, len(order))
		for i, priority := range order {
			ids[i] = w.enqueue(later.Options{Priority: priority})
		}
		want := []int64{ids[3], ids[2], ids[6], ids[1], ids[5], ids[4], ids[0]}
		got := append(idsOf(w.claim(3)), idsOf(w.claim(4))...)
		equalSlices(t, "ids", got, want)
	})

	// A job that was put off comes after those that have been due for longer.
	t.Run("a retried job comes after those that were due before it", func(t *testing.T) {
		w := newWorld(t, open)
		first := w.enqueue(later.Options{})
		second := w.enqueue(later.Options{})
		c := w.claim(1)[0]
		equal(t, "first claimed", c.ID, first)
		w.pass(second, w.find(second).RunAt.Add(clockStep))
		w.settle(end(c, later.OutcomeRetry))
		w.pass(first, w.find(first).RunAt.Add(clockStep))
		w.claimInOrder(second, first)
	})

	t.Run("a released job keeps its place", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(3, raw(`{}`), later.Options{})
		w.settle(end(w.claim(1)[0], later.OutcomeReleased))
		w.claimInOrder(ids...)
	})

	// found: jobs of a better priority which are not due yet hide nothing.
	t.Run("a job is not held up by better ones that are not due", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueMany(50, raw(`{}`), later.Options{Priority: -5, Delay: long})
		id := w.enqueue(later.Options{Priority: 5})
		equal(t, "id", w.claimOne().ID, id)
	})

	// A lost job is one that has been due for long.
	t.Run("a job whose worker was lost keeps its place", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(3, raw(`{}`), later.Options{})
		w.endLease(w.claim(1)[0])
		w.claimInOrder(ids...)
	})

	t.Run("a run_at decides before the order of the inserts", func(t *testing.T) {
		w := newWorld(t, open)
		now := w.find(w.enqueue(later.Options{})).Now
		w.settle(end(w.claimOne(), later.OutcomeDone))
		var last time.Time
		var ids []int64
		for i := range 5 {
			at := now.Add(time.Duration(50-10*i) * time.Millisecond)
			ids = append([]int64{w.enqueue(later.Options{RunAt: at})}, ids...)
		}
		for _, id := range ids {
			if at := w.find(id).RunAt; at.After(last) {
				last = at
			}
		}
		// On a slow machine some of those times have passed when they are
		// stored, as now: the order to expect is that of what was stored.
		w.pass(ids[0], last.Add(clockStep))
		got := w.claim(len(ids))
		for i := 1; i < len(got); i++ {
			a, b := got[i-1], got[i]
			if a.RunAt.After(b.RunAt) || a.RunAt.Equal(b.RunAt) && a.ID > b.ID {
				t.Errorf("job %d (%v) came before job %d (%v)", a.ID, a.RunAt, b.ID, b.RunAt)
			}
		}
	})

	t.Run("a lower priority number runs first among many claims", func(t *testing.T) {
		w := newWorld(t, open)
		for i := range 60 {
			w.enqueue(later.Options{Priority: int16((i * 7) % 5)})
		}
		var last *later.Claimed
		for range 60 {
			c := w.claim(1)[0]
			if last != nil && (last.Priority > c.Priority || last.Priority == c.Priority && last.ID > c.ID) {
				t.Errorf("job %d (priority %d) came before job %d (priority %d)", last.ID, last.Priority, c.ID, c.Priority)
			}
			last = c
		}
	})
}

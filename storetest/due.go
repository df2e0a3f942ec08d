package storetest

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

func testDue(t *testing.T, open Open) {
	// found. Case 173.
	t.Run("the next job that is not due yet is the one that counts", func(t *testing.T) {
		w := newWorld(t, open)
		w.notDue()
		w.enqueue(later.Options{})
		w.notDue() // what is due already does not count
		w.enqueue(later.Options{Delay: 3 * time.Hour})
		w.dueWithin(3*time.Hour, queue)
		w.enqueue(later.Options{Delay: 2 * time.Hour, Priority: 100})
		w.dueWithin(2*time.Hour, queue)
		w.enqueue(later.Options{Delay: time.Hour, Queue: "mail", Priority: -100})
		w.dueWithin(2*time.Hour, queue)
		w.dueWithin(time.Hour, queue, "mail")
		w.dueWithin(time.Hour, "mail")
	})

	t.Run("other kinds and queues do not count", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueArgs(later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}, later.Options{Delay: time.Hour})
		w.enqueue(later.Options{Delay: time.Hour, Queue: "other"})
		w.notDue()
		w.enqueueArgs(later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}, later.Options{Delay: time.Minute})
		w.enqueue(later.Options{Delay: 2 * time.Hour})
		w.dueWithin(2*time.Hour, queue)
	})

	t.Run("a retry counts like a delay, and what leaves counts no more", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		c := w.claimOne()
		w.notDue()
		retry := end(c, later.OutcomeRetry)
		retry.Delay = time.Hour
		w.settle(retry)
		w.dueWithin(time.Hour, queue)
		if err := w.store.Delete(w.ctx, c.ID); err != nil {
			t.Fatal(err)
		}
		w.notDue()
	})

	t.Run("without queues or kinds there is none", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{Delay: time.Hour})
		for _, names := range [][2][]string{{nil, {kind}}, {{queue}, nil}, {nil, nil}} {
			if in, ok, err := w.store.NextDue(w.ctx, names[0], names[1]); ok || err != nil {
				t.Errorf("NextDue(%q, %q): got %v, %v, %v, want none", names[0], names[1], in, ok, err)
			}
		}
	})

	t.Run("a job of the last day there is counts", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{RunAt: later.Horizon.Add(-time.Hour)})
		if in, ok, err := w.store.NextDue(w.ctx, []string{queue}, []string{kind}); err != nil || !ok || in < 50*365*24*time.Hour {
			t.Errorf("got %v, %v, %v, want a very long time", in, ok, err)
		}
	})
}

// notDue fails when a job of the suite's kind and queue will be due.
func (w *world) notDue() {
	w.t.Helper()
	in, ok, err := w.store.NextDue(w.ctx, []string{queue}, []string{kind})
	if err != nil || ok {
		w.t.Fatalf("NextDue: got %v, %v, %v, want none", in, ok, err)
	}
}

// dueWithin fails unless the next job is due in d, less what the test took until now.
func (w *world) dueWithin(d time.Duration, queues ...string) {
	w.t.Helper()
	in, ok, err := w.store.NextDue(w.ctx, queues, []string{kind})
	if err != nil || !ok || in > d || in < d-patience {
		w.t.Fatalf("NextDue: got %v, %v, %v, want %v", in, ok, err, d)
	}
}

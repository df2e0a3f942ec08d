package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func (w *txWorld[TX]) uniqueTx(tx TX, payload string, u later.Unique) later.Enqueued {
	w.t.Helper()
	done, err := w.tx.Enqueue(w.ctx, tx, raw(payload), later.Options{Unique: &u})
	if err != nil {
		w.t.Fatalf("EnqueueTx: %v", err)
	}
	return done
}

func testUniqueTx[TX any](t *testing.T, start func(t *testing.T) *txWorld[TX]) {
	for _, hold := range holds {
		u := hold.unique
		u.Key = "k"

		// Case 109: no key outlives its job, nor a job that never was.
		t.Run("a key "+hold.name+" that is taken in a transaction is free after the rollback, and held after the commit", func(t *testing.T) {
			w := start(t)
			tx := w.begin()
			first := w.uniqueTx(tx, `{}`, u)
			equal(t, "first", first, later.Enqueued{ID: first.ID})
			again := w.uniqueTx(tx, `{}`, u)
			equal(t, "again in the same transaction", again, later.Enqueued{ID: first.ID, Outcome: later.Skipped, Holder: later.StateReady})
			w.exec(tx)
			w.rollback(tx)

			tx = w.begin()
			second := w.uniqueTx(tx, `{}`, u)
			equal(t, "after the rollback", second, later.Enqueued{ID: second.ID})
			w.commit(tx)
			w.skips(second.ID, u, later.Options{})
			equalSlices(t, "jobs", listed(w.list(later.Filter{})), []int64{second.ID})
		})

		t.Run("a key "+hold.name+" that is held leaves the transaction usable", func(t *testing.T) {
			w := start(t)
			id := w.takes(u, later.Options{})
			tx := w.begin()
			done, err := w.tx.EnqueueMany(w.ctx, tx, []later.Request{
				{Args: raw(`{}`), Options: later.Options{Unique: &u}}, {Args: raw(`{"plain":1}`)},
			})
			if err != nil {
				t.Fatalf("EnqueueManyTx: %v", err)
			}
			equal(t, "result", done[0], later.Enqueued{ID: id, Outcome: later.Skipped, Holder: later.StateReady})
			w.exec(tx)
			w.commit(tx)
			equal(t, "payload of the other", string(w.find(done[1].ID).Payload), `{"plain":1}`)
		})

		// Case 104: who meets a transaction that has not ended waits, and is told the
		// truth.
		for _, commit := range []bool{false, true} {
			t.Run(fmt.Sprintf("who meets a key %s of a transaction that has not ended waits for it, commit %v", hold.name, commit), func(t *testing.T) {
				w := start(t)
				tx := w.begin()
				first := w.uniqueTx(tx, `{}`, u)
				answer := make(chan later.Enqueued, 1)
				fault := make(chan error, 1)
				go func() {
					done, err := w.client().Enqueue(w.ctx, raw(`{}`), later.Options{Unique: &u})
					answer <- done
					fault <- err
				}()
				select {
				case early := <-answer:
					t.Fatalf("got %+v while the transaction was open", early)
				case <-time.After(100 * time.Millisecond): // enough for who does not wait
				}
				if commit {
					w.commit(tx)
				} else {
					w.rollback(tx)
				}
				done := <-answer
				if err := <-fault; err != nil {
					t.Fatalf("Enqueue: %v", err)
				}
				if want := (later.Enqueued{ID: done.ID}); !commit && done != want {
					t.Errorf("after the rollback: got %+v, want a new job", done)
				}
				if want := (later.Enqueued{ID: first.ID, Outcome: later.Skipped, Holder: later.StateReady}); commit && done != want {
					t.Errorf("after the commit: got %+v, want %+v", done, want)
				}
				equal(t, "jobs", len(w.list(later.Filter{})), 1)
			})
		}
	}

	// A job that enqueues its successor with its own key ends itself first.
	t.Run("a job that is ended in a transaction gives its key to the next one in it", func(t *testing.T) {
		w := start(t)
		u := later.Unique{Key: "k"}
		id := w.takes(u, later.Options{})
		c := w.claimThis(id)
		tx := w.begin()
		equal(t, "before its end", w.uniqueTx(tx, `{}`, u), later.Enqueued{ID: id, Outcome: later.Skipped, Holder: later.StateRunning})
		if err := w.tx.Done(w.ctx, tx, c); err != nil {
			t.Fatal(err)
		}
		next := w.uniqueTx(tx, `{}`, u)
		equal(t, "after its end", next, later.Enqueued{ID: next.ID})
		w.commit(tx)
		w.gone(id)
		w.skips(next.ID, u, later.Options{})
	})

	t.Run("what a transaction did to the holder goes with its rollback", func(t *testing.T) {
		w := start(t)
		u := later.Unique{Key: "k", OnConflict: later.Replace}
		id := w.takes(u, later.Options{})
		before := w.find(id)
		tx := w.begin()
		done := w.uniqueTx(tx, `{"new":1}`, u)
		equal(t, "result", done, later.Enqueued{ID: id, Outcome: later.Replaced, Holder: later.StateReady})
		w.rollback(tx)
		sameInfo(t, "holder", w.find(id), before)
	})
}

package storetest

import (
	"testing"

	"github.com/later-queue/later"
)

func testOperator(t *testing.T, open Open) {
	testRetry(t, open)
	testCancel(t, open)
	testDelete(t, open)

	// Case 194: a button that was pressed too late says so and does nothing.
	t.Run("an operation on a job that is not there is refused", func(t *testing.T) {
		w := newWorld(t, open)
		ended := w.enqueue(later.Options{})
		w.settle(end(w.claimOne(), later.OutcomeDone))
		for _, id := range []int64{ended, ended + 1000, 0, -1} {
			isError(t, "Retry", w.store.Retry(w.ctx, id), later.ErrNotFound)
			isError(t, "Delete", w.store.Delete(w.ctx, id), later.ErrNotFound)
			_, err := w.store.Cancel(w.ctx, id)
			isError(t, "Cancel", err, later.ErrNotFound)
		}
		_, err := w.store.Find(w.ctx, ended+1000)
		isError(t, "Find", err, later.ErrNotFound)
	})
}

func testRetry(t *testing.T, open Open) {
	t.Run("a retry makes a waiting job due now and changes nothing else", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{Delay: long, ExpiresIn: 2 * long})
		w.retry(id)
		info := w.state(id, later.StateReady)
		want := info.Record
		between(t, "run_at", info.RunAt, info.CreatedAt, info.Now)
		c := w.claimOne()
		want.Attempt = 1
		sameRecord(t, "claimed", c.Record, want)

		s := end(c, later.OutcomeRetry)
		s.Delay = long
		w.settle(s)
		w.retry(id)
		c = w.claimOne()
		equal(t, "attempt", c.Attempt, 2)
		equal(t, "errors", len(c.Errors), 1)
		equal(t, "generation", c.Generation, 0)
	})

	t.Run("a retry of a job that is due changes nothing", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		w.retry(id)
		equal(t, "id", w.claimOne().ID, id)
		w.claimNone()
	})

	// fenced: no second run beside the one that goes on.
	t.Run("a retry of a running job is refused", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		before := w.find(id)
		isError(t, "Retry", w.store.Retry(w.ctx, id), later.ErrRunning)
		sameInfo(t, "job", w.find(id), before)
		w.settle(end(c, later.OutcomeDone))
	})

	t.Run("a retry of a lost job leaves its loss to be counted", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		w.lose()
		w.retry(id)
		c := w.claimOne()
		equal(t, "crashes", c.Crashes, 1)
		equal(t, "attempt", c.Attempt, 2)
		w.claimNone()
	})

	// counted, exact: a retry from the dead is a new decision about the same job.
	t.Run("a retry brings a dead job back under its id", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueueArgs(raw(`{"id":9007199254740993}`), later.Options{ExpiresIn: long, Tenant: "acme", Priority: 3, MaxAttempts: 2, Headers: map[string]string{"trace": "1"}})
		w.lose()
		w.settle(end(w.claimOne(), later.OutcomeDead))
		dead := w.state(id, later.StateDead)
		equal(t, "attempt of the dead", dead.Attempt, 2)
		equal(t, "crashes of the dead", dead.Crashes, 1)
		w.retry(id)
		info := w.state(id, later.StateReady)
		want := dead.Record
		want.Attempt, want.Failures, want.Crashes, want.Generation, want.RunAt = 0, 0, 0, 1, info.RunAt
		want.ExpiresAt = info.ExpiresAt
		equal(t, "expires_at is zero", info.ExpiresAt.IsZero(), true)
		between(t, "run_at", info.RunAt, dead.DiedAt, info.Now)
		sameRecord(t, "revived", info.Record, want)
		equal(t, "died at is zero", info.DiedAt.IsZero(), true)
		equal(t, "dead reason", info.DeadReason, "")
		if dead.IdempotencyKey() == info.IdempotencyKey() {
			t.Errorf("the key %q is the same after a retry from the dead", info.IdempotencyKey())
		}
		c := w.claimOne()
		equal(t, "attempt", c.Attempt, 1)
		equal(t, "errors", len(c.Errors), 1)
		w.settle(end(c, later.OutcomeDead))
		w.retry(id)
		equal(t, "generation", w.claimOne().Generation, 2)
	})

	// Case 67: what a late worker of an earlier life does is refused.
	t.Run("a lease from before a job's death is refused after its retry", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		stale := w.lose()
		w.settle(end(w.claimOne(), later.OutcomeDead))
		w.refusesAll(stale, "the job is dead")
		w.retry(id)
		w.refusesAll(stale, "the job waits again")
		w.claimOne()
		w.refusesAll(stale, "the job runs again")
	})

	t.Run("a cancelled job that died comes back without the wish to cancel it", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		w.cancel(id, true)
		w.settle(end(c, later.OutcomeDead))
		w.retry(id)
		equal(t, "cancel at is zero", w.find(id).CancelAt.IsZero(), true)
		w.claimOne()
	})
}

func testCancel(t *testing.T, open Open) {
	t.Run("a cancel ends a job that is not running at once", func(t *testing.T) {
		for _, c := range []struct {
			name string
			make func(w *world) int64
		}{
			{"ready", func(w *world) int64 { return w.enqueue(later.Options{}) }},
			{"scheduled", func(w *world) int64 { return w.enqueue(later.Options{Delay: long}) }},
			{"retry", func(w *world) int64 {
				id := w.enqueue(later.Options{})
				s := end(w.claimOne(), later.OutcomeRetry)
				s.Delay = long
				w.settle(s)
				return id
			}},
			{"lost", func(w *world) int64 {
				id := w.enqueue(later.Options{})
				w.lose()
				return id
			}},
			{"suspect", func(w *world) int64 { return w.suspect() }},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := newWorld(t, open)
				id := c.make(w)
				w.cancel(id, false)
				w.gone(id)
				got := w.outcomes(id)
				equal(t, "last outcome", got[len(got)-1], later.OutcomeCancelled)
				w.claimNone()
				w.sweepNone(true)
			})
		}
	})

	// fenced: the worker of a cancelled job is asked, and its result counts.
	t.Run("a cancel of a running job asks its worker to stop", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueMany(2, raw(`{}`), later.Options{})
		jobs := w.claim(2)
		c, other := jobs[0], jobs[1]
		before := w.find(c.ID)
		w.cancel(c.ID, true)
		info := w.state(c.ID, later.StateRunning)
		between(t, "cancel at", info.CancelAt, before.Now, info.Now)
		sameRecord(t, "record", info.Record, before.Record)
		equalTimes(t, "lease until", info.LeaseUntil, before.LeaseUntil)
		requests, err := w.store.CancelRequests(w.ctx, []later.Lease{other.Lease, c.Lease})
		if err != nil {
			t.Fatal(err)
		}
		equalSlices(t, "requests", requests, []later.Lease{c.Lease})
		equalSlices(t, "cancelled at the renewal", w.renew(long, c.Lease, other.Lease).Cancelled, []later.Lease{c.Lease})
		w.cancel(c.ID, true) // asking again changes nothing
		equalTimes(t, "cancel at", w.find(c.ID).CancelAt, info.CancelAt)
		w.settle(end(c, later.OutcomeCancelled))
		w.gone(c.ID)
	})

	for _, outcome := range []later.Outcome{later.OutcomeDone, later.OutcomeDead} {
		t.Run("a cancelled job whose worker ends it as "+string(outcome)+" is that", func(t *testing.T) {
			w := newWorld(t, open)
			id := w.enqueue(later.Options{})
			c := w.claimOne()
			w.cancel(id, true)
			w.settle(end(c, outcome))
			got := w.outcomes(id)
			equal(t, "last outcome", got[len(got)-1], outcome)
			w.sweepNone(true)
		})
	}

	t.Run("a cancel of a dead job is refused", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.die(raw(`{}`), later.Options{}, later.DeadFailed, "it failed")
		_, err := w.store.Cancel(w.ctx, id)
		isError(t, "Cancel", err, later.ErrNotFound)
		w.state(id, later.StateDead)
	})

	// fenced: a late worker cannot bring a cancelled job back.
	t.Run("a lost worker's result is refused after a cancel", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		c := w.lose()
		w.cancel(id, false)
		w.refusesAll(c, "the job was cancelled")
	})
}

func testDelete(t *testing.T, open Open) {
	t.Run("a delete removes a waiting, lost or dead job", func(t *testing.T) {
		w := newWorld(t, open)
		dead := w.die(raw(`{}`), later.Options{}, later.DeadFailed, "it failed")
		waiting := w.enqueue(later.Options{Delay: long})
		lost := w.enqueue(later.Options{})
		c := w.lose()
		for _, id := range []int64{dead, waiting, lost} {
			if err := w.store.Delete(w.ctx, id); err != nil {
				t.Fatalf("Delete: %v", err)
			}
			w.gone(id)
			isError(t, "second Delete", w.store.Delete(w.ctx, id), later.ErrNotFound)
		}
		w.refusesAll(c, "the job was deleted")
		w.claimNone()
	})

	// fenced.
	t.Run("a delete of a running job is refused", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		before := w.find(id)
		isError(t, "Delete", w.store.Delete(w.ctx, id), later.ErrRunning)
		sameInfo(t, "job", w.find(id), before)
		w.settle(end(c, later.OutcomeDone))
	})
}

func (w *world) retry(id int64) {
	w.t.Helper()
	if err := w.store.Retry(w.ctx, id); err != nil {
		w.t.Fatalf("Retry %d: %v", id, err)
	}
}

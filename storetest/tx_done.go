package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// effects counts the follow-up jobs that transactions have left, by payload.
func (w *world) effects() map[string]int {
	w.t.Helper()
	counts := map[string]int{}
	for _, info := range w.list(later.Filter{Kind: "effect", Limit: math.MaxInt32}) {
		counts[string(info.Payload)]++
	}
	return counts
}

func effect(id int64) later.RawArgs {
	return later.RawArgs{JobKind: "effect", Payload: []byte(fmt.Sprint(id))}
}

func testDoneTx[TX any](t *testing.T, start func(t *testing.T) *txWorld[TX]) {
	// Case 223: the effect and the job's end are one.
	t.Run("a job is done with the commit", func(t *testing.T) {
		w := start(t)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		tx := w.begin()
		w.enqueueTx(tx, effect(id), later.Options{})
		if err := w.tx.Done(w.ctx, tx, c); err != nil {
			t.Fatalf("DoneTx: %v", err)
		}
		w.exec(tx)
		w.state(id, later.StateRunning)
		w.commit(tx)
		w.gone(id)
		equalSlices(t, "outcomes", w.outcomes(id), []later.Outcome{later.OutcomeDone})
		entry := w.find(id).Log[0]
		equal(t, "attempt", entry.Attempt, 1)
		equal(t, "worker", entry.Worker, worker)
		w.refusesAll(c, "the job is done")
		equal(t, "effects", len(w.effects()), 1)
	})

	// kept: a result that was rolled back is none.
	t.Run("a job stays when the transaction is rolled back", func(t *testing.T) {
		w := start(t)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		before := w.find(id)
		tx := w.begin()
		w.enqueueTx(tx, effect(id), later.Options{})
		if err := w.tx.Done(w.ctx, tx, c); err != nil {
			t.Fatalf("DoneTx: %v", err)
		}
		w.rollback(tx)
		sameInfo(t, "job", w.find(id), before)
		equal(t, "effects", len(w.effects()), 0)
		w.settle(end(c, later.OutcomeRetry)) // as the runtime does then
		equal(t, "attempt", w.claimOne().Attempt, 2)
	})

	// Case 223: three failures leave no effect, the success leaves one.
	t.Run("a handler that fails three times has its effect once", func(t *testing.T) {
		w := start(t)
		id := w.enqueue(later.Options{})
		for attempt := 1; attempt <= 4; attempt++ {
			c := w.claimOne()
			tx := w.begin()
			w.enqueueTx(tx, effect(id), later.Options{})
			if attempt < 4 {
				w.rollback(tx)
				w.settle(end(c, later.OutcomeRetry))
				continue
			}
			if err := w.tx.Done(w.ctx, tx, c); err != nil {
				t.Fatalf("DoneTx: %v", err)
			}
			w.commit(tx)
		}
		equal(t, "effects", w.effects()[fmt.Sprint(id)], 1)
	})

	// fenced. Case 77.
	t.Run("a lease that is lost is refused and its effect goes with the rollback", func(t *testing.T) {
		w := start(t)
		id := w.enqueue(later.Options{})
		stale := w.lose()
		current := w.claimOne()
		before := w.find(id)
		tx := w.begin()
		w.enqueueTx(tx, effect(id), later.Options{})
		isError(t, "DoneTx", w.tx.Done(w.ctx, tx, stale), later.ErrLeaseLost)
		w.exec(tx)
		w.rollback(tx)
		sameInfo(t, "job", w.find(id), before)
		equal(t, "effects", len(w.effects()), 0)
		w.settle(end(current, later.OutcomeDone))
		tx = w.begin()
		isError(t, "DoneTx of a job that is done", w.tx.Done(w.ctx, tx, current), later.ErrLeaseLost)
		w.rollback(tx)
	})

	t.Run("a lease that has ended and that nobody took is accepted", func(t *testing.T) {
		w := start(t)
		id := w.enqueue(later.Options{})
		c := w.lose()
		tx := w.begin()
		if err := w.tx.Done(w.ctx, tx, c); err != nil {
			t.Fatalf("DoneTx: %v", err)
		}
		w.commit(tx)
		w.gone(id)
	})

	t.Run("a second DoneTx of one transaction is refused", func(t *testing.T) {
		w := start(t)
		w.enqueue(later.Options{})
		c := w.claimOne()
		tx := w.begin()
		if err := w.tx.Done(w.ctx, tx, c); err != nil {
			t.Fatalf("DoneTx: %v", err)
		}
		isError(t, "second DoneTx", w.tx.Done(w.ctx, tx, c), later.ErrLeaseLost)
		w.rollback(tx)
	})

	t.Run("the runtime is told of a DoneTx that was accepted, and of no other", func(t *testing.T) {
		w := start(t)
		w.enqueue(later.Options{})
		stale := w.lose()
		current := w.claimOne()
		stale.Bind(w.store)
		current.Bind(w.store)
		tx := w.begin()
		isError(t, "DoneTx", w.tx.Done(w.ctx, tx, stale), later.ErrLeaseLost)
		if err := w.tx.Done(w.ctx, tx, current); err != nil {
			t.Fatalf("DoneTx: %v", err)
		}
		w.commit(tx)
		equal(t, "the stale one is marked", stale.SettledInTx(), false)
		equal(t, "the current one is marked", current.SettledInTx(), true)
	})

	// alone: a worker must not believe in a lease that was not renewed. A store
	// that makes writers wait answers nothing until they are through.
	t.Run("a renewal beside an open DoneTx does not say that it renewed that lease", func(t *testing.T) {
		w := start(t)
		w.enqueueMany(2, raw(`{}`), later.Options{})
		jobs := w.claim(2)
		tx := w.begin()
		if err := w.tx.Done(w.ctx, tx, jobs[0]); err != nil {
			t.Fatalf("DoneTx: %v", err)
		}
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		renewed, err := w.store.Renew(ctx, []later.Lease{jobs[0].Lease, jobs[1].Lease}, 2*long)
		switch {
		case err == nil:
			equalSlices(t, "leases passed over", renewed.Passed, []later.Lease{jobs[0].Lease})
			equal(t, "leases lost", len(renewed.Lost), 0)
			info := w.find(jobs[1].ID)
			between(t, "lease of the other until", info.LeaseUntil, info.ClaimedAt.Add(2*long), info.Now.Add(2*long))
		case !later.IsTransient(err) && !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("Renew: %v", err)
		}
		w.commit(tx)
		equalSlices(t, "leases lost after the commit", w.renew(long, jobs[0].Lease, jobs[1].Lease).Lost, []later.Lease{jobs[0].Lease})
	})

	// kept: what the runtime settles after a DoneTx that was committed is
	// refused, so that it need not know whether it was.
	t.Run("a settle after the commit is refused and changes nothing", func(t *testing.T) {
		w := start(t)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		tx := w.begin()
		if err := w.tx.Done(w.ctx, tx, c); err != nil {
			t.Fatalf("DoneTx: %v", err)
		}
		w.commit(tx)
		equalSlices(t, "refused", w.trySettle(end(c, later.OutcomeRetry)), []later.Lease{c.Lease})
		w.gone(id)
		w.claimNone()
	})

	// fenced, kept. Case 79: exactly once, while every job is held by two.
	t.Run("two holders of every job have its effect exactly once", func(t *testing.T) {
		w := start(t)
		const jobs = 40
		w.enqueueMany(jobs, raw(`{}`), later.Options{})
		first := w.claim(jobs)
		var leases []later.Lease
		for _, c := range first {
			leases = append(leases, c.Lease)
		}
		w.renew(short, leases...)
		w.pass(first[0].ID, w.find(first[jobs-1].ID).LeaseUntil.Add(clockStep))
		second := w.claim(jobs / 2) // the other half is still the first one's
		var accepted atomic.Int64
		inParallel(t, 2, func(ctx context.Context, n int) error {
			holders := first
			if n == 1 {
				holders = second
			}
			for _, c := range holders {
				ok, err := w.finish(ctx, c)
				if err != nil {
					return err
				}
				if ok {
					accepted.Add(1)
				}
			}
			return nil
		})
		equal(t, "accepted", accepted.Load(), jobs)
		effects := w.effects()
		for _, c := range first {
			equal(t, fmt.Sprintf("effects of job %d", c.ID), effects[fmt.Sprint(c.ID)], 1)
			w.gone(c.ID)
		}
	})
}

// finish has the effect of a job and ends it, in one transaction; it reports
// whether that was accepted. What the database breaks off is tried again, as
// users do.
func (w *txWorld[TX]) finish(ctx context.Context, c *later.Claimed) (accepted bool, err error) {
	deadline := time.Now().Add(patience)
	for {
		accepted, err = w.tryFinish(ctx, c)
		if err == nil || time.Now().After(deadline) {
			return accepted, err
		}
	}
}

func (w *txWorld[TX]) tryFinish(ctx context.Context, c *later.Claimed) (accepted bool, err error) {
	tx, err := w.tx.Begin(ctx)
	if err != nil {
		return false, err
	}
	if _, err = w.tx.Enqueue(ctx, tx, effect(c.ID), later.Options{}); err == nil {
		err = w.tx.Done(ctx, tx, c)
	}
	if err != nil {
		rolledBack := w.tx.Rollback(ctx, tx)
		if errors.Is(err, later.ErrLeaseLost) {
			return false, rolledBack
		}
		return false, err
	}
	return true, w.tx.Commit(ctx, tx)
}

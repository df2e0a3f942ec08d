package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/later-queue/later"
)

// everyOutcome are those that a runtime settles with.
var everyOutcome = []later.Outcome{
	later.OutcomeDone, later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased,
	later.OutcomeDead, later.OutcomeCancelled, later.OutcomeExpired,
}

func testFencing(t *testing.T, open Open) {
	// fenced. Case 77: a worker that stood still for the time of its lease finds
	// it gone; the row is as the second worker left it.
	t.Run("a stale lease changes nothing", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		stale := w.lose()
		w.claimOne()
		w.refusesAll(stale, "the job runs elsewhere")
	})

	for _, outcome := range everyOutcome {
		// fenced. Cases 149 and 157: the answer to a settle was lost, so it is
		// sent again: the second is refused, and the state is right.
		t.Run("a job settled as "+string(outcome)+" cannot be settled again", func(t *testing.T) {
			w := newWorld(t, open)
			w.enqueue(later.Options{})
			c := w.claimOne()
			w.settle(end(c, outcome))
			w.refusesAll(c, "the job was settled as "+string(outcome))
		})
	}

	// fenced. Case 67: tokens are of one claim, not of a count.
	t.Run("a lease of an earlier attempt is refused whatever came between", func(t *testing.T) {
		for _, between := range []later.Outcome{later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased, later.OutcomeDead} {
			t.Run(string(between), func(t *testing.T) {
				w := newWorld(t, open)
				id := w.enqueue(later.Options{})
				first := w.claimOne()
				w.settle(end(first, between))
				if between == later.OutcomeDead {
					if err := w.store.Retry(w.ctx, id); err != nil {
						t.Fatal(err)
					}
				}
				second := w.claimOne()
				if first.Lease == second.Lease {
					t.Fatalf("the lease %v was given twice", first.Lease)
				}
				w.refusesAll(first, "a later attempt runs")
				w.settle(end(second, later.OutcomeDone))
			})
		}
	})

	t.Run("a lease that never was is refused", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueMany(2, raw(`{}`), later.Options{})
		first := w.claim(1)[0]
		req := ask(1)
		second := w.claimWith(req)[0]
		for _, lease := range []later.Lease{
			{ID: first.ID, Token: 0},
			{ID: first.ID, Token: first.Lease.Token - 1},
			{ID: first.ID, Token: second.Lease.Token}, // the token of another job
			{ID: second.ID + 1000, Token: second.Lease.Token},
		} {
			w.refusesAll(&later.Claimed{Record: first.Record, Lease: lease}, fmt.Sprintf("the lease %v is of nobody", lease))
		}
	})

	t.Run("a lease on a job that waits is refused", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		w.refusesAll(&later.Claimed{Record: later.Record{ID: id}, Lease: later.Lease{ID: id}}, "the job was never claimed")
	})

	// kept. Cases 86 and 149: a result that is late but alone is a result.
	t.Run("a lease that has ended and that nobody took is accepted", func(t *testing.T) {
		for _, outcome := range everyOutcome {
			t.Run(string(outcome), func(t *testing.T) {
				w := newWorld(t, open)
				w.enqueue(later.Options{})
				w.settle(end(w.lose(), outcome))
			})
		}
	})

	t.Run("a refused settlement does not keep the others of its batch", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(4, raw(`{}`), later.Options{})
		jobs := w.claim(4)
		w.settle(end(jobs[1], later.OutcomeDone))
		bad := end(jobs[2], later.OutcomeDone)
		bad.Lease.Token ^= 1
		refused := w.trySettle(end(jobs[0], later.OutcomeDone), end(jobs[1], later.OutcomeRetry), bad, end(jobs[3], later.OutcomeSnoozed))
		equal(t, "refused", len(refused), 2)
		want := map[later.Lease]bool{jobs[1].Lease: true, bad.Lease: true}
		for _, lease := range refused {
			equal(t, fmt.Sprintf("%v was to be refused", lease), want[lease], true)
		}
		w.gone(ids[0])
		w.gone(ids[1])
		w.state(ids[2], later.StateRunning)
		w.state(ids[3], later.StateReady)
	})

	// alone. Case 68: a new process with the dead one's name and a beat of its
	// own does not keep the dead one's job alive.
	t.Run("a lease belongs to its token and not to the worker's name", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		other := w.enqueue(later.Options{Queue: "other"})
		dead := w.lose()
		if err := w.store.Beat(w.ctx, later.WorkerInfo{Name: worker}); err != nil {
			t.Fatal(err)
		}
		req := ask(1)
		req.Queues[0].Queue = "other"
		alive := w.claimWith(req)[0] // by the same name
		equal(t, "id", alive.ID, other)
		equal(t, "leases lost", len(w.renew(long, alive.Lease).Lost), 0)
		second := w.claimOne()
		equal(t, "job recovered", second.ID, dead.ID)
		w.refusesAll(dead, "a worker of the same name holds it")
	})
}

// refusesAll fails unless everything that c's lease could do is refused, and
// has changed nothing.
func (w *world) refusesAll(c *later.Claimed, why string) {
	w.t.Helper()
	before := w.look(c.ID)
	for _, outcome := range everyOutcome {
		refused := w.trySettle(end(c, outcome))
		equalSlices(w.t, "refused as "+string(outcome)+" when "+why, refused, []later.Lease{c.Lease})
	}
	renewed := w.renew(long, c.Lease)
	equalSlices(w.t, "renewals lost when "+why, renewed.Lost, []later.Lease{c.Lease})
	equal(w.t, "renewals that ask to cancel when "+why, len(renewed.Cancelled), 0)
	requests, err := w.store.CancelRequests(w.ctx, []later.Lease{c.Lease})
	if len(requests) != 0 || err != nil {
		w.t.Errorf("CancelRequests when %s: got %v, %v, want none", why, requests, err)
	}
	isError(w.t, "Checkpoint when "+why, w.store.Checkpoint(w.ctx, c.Lease, []byte(`{"a":1}`)), later.ErrLeaseLost)
	after := w.look(c.ID)
	if before == nil || after == nil {
		equal(w.t, "the job exists", after != nil, before != nil)
		return
	}
	sameInfo(w.t, "job when "+why, after, before)
}

// look is find, but nil when there is no such job.
func (w *world) look(id int64) *later.JobInfo {
	w.t.Helper()
	info, err := w.store.Find(w.ctx, id)
	if errors.Is(err, later.ErrNotFound) {
		return nil
	}
	if err != nil {
		w.t.Fatalf("Find %d: %v", id, err)
	}
	return info
}

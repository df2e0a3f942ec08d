package worker

import (
	"math/rand/v2"
	"time"

	"github.com/later-queue/later"
)

const (
	// dueSpacing is the least between two questions of when the next job is due.
	// A job that becomes due within it after the last question may start that
	// much late. Chosen: nobody schedules to the hundredth of a second.
	dueSpacing = 20 * time.Millisecond
	// lateDue is the same after freeWakes claims in a row that came when a job was due and found
	// nothing: what is due is not for this worker (another one is faster, or it is another
	// tenant's). Each is up to half less.
	lateDue = 100 * time.Millisecond
	// dueAfterJobs is when it is asked after jobs were found, if nothing asks for it
	// sooner: a wake-up for a job that was due may have been one for a later job, too.
	// Such a job may start that much late. Chosen: short jobs that come one by one
	// do not cause a question each.
	dueAfterJobs = 100 * time.Millisecond
	// dueAgain is how often a worker that hears wake-ups asks when the next job
	// is due, although none came: those for jobs that are further ahead than
	// later.WakeAhead do not come.
	dueAgain = later.WakeAhead * 9 / 10
	// duePolls is in how many polls one that hears none asks once. It knows from
	// the last time, and the polls find what has come since then. Chosen so that
	// it asks the database less than twice a second, all in all.
	duePolls = 2
)

// askDue asks when the next job is due.
func (w *waiter) askDue() {
	r := w.r
	queues := make([]string, len(r.cfg.Queues))
	for i, q := range r.cfg.Queues {
		queues[i] = q.Name
	}
	ctx, cancel := r.op(r.claimBound())
	defer cancel()
	in, ok, err := r.store.NextDue(ctx, queues, r.kinds)
	w.ask, w.askAt, w.askedAt, w.due = false, time.Time{}, time.Now(), time.Time{}
	w.again = w.askedAt.Add(dueSpacing)
	if w.idleDue > freeWakes {
		w.again = w.askedAt.Add(lateDue - time.Duration(rand.Float64()*float64(lateDue)/2))
	}
	switch {
	case err == nil:
		r.outages.works("next due")
	case r.ops.Err() == nil:
		r.outages.fail("next due", err)
	}
	if err == nil && ok {
		// From the answer on, not from the question: a claim must not come
		// before the job is due.
		w.due = w.askedAt.Add(in)
	}
}

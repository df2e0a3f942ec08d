package worker

import (
	"time"

	"github.com/later-queue/later"
)

// renewLoop keeps the leases alive: one statement for all of them each
// RenewEvery, and after one that failed or passed some over much sooner, so that
// several tries fit into a lease.
func (r *run) renewLoop() {
	wait := r.cfg.RenewEvery
	for pause(r.ops, wait) {
		wait = r.cfg.RenewEvery
		if !r.renew() {
			wait = r.cfg.RenewEvery / 5
		}
	}
}

// renew renews the leases of the jobs that run, and of those that have finished
// and wait to be settled.
func (r *run) renew() bool {
	leases, marks := r.renewable()
	if len(leases) == 0 {
		return true
	}
	leaseEnds := time.Now().Add(r.cfg.Lease) // from before it was sent
	ctx, cancel := r.op(r.renewBound())
	renewed, err := r.store.Renew(ctx, leases, r.cfg.Lease)
	cancel()
	if err != nil {
		if r.ops.Err() == nil {
			r.outages.fail("renew", err)
		}
		return false
	}
	r.outages.works("renew")
	not := make(map[later.Lease]bool, len(renewed.Lost)+len(renewed.Passed))
	hurry := false
	for _, lease := range renewed.Passed {
		not[lease] = true
		// An open transaction of DoneTx is expected to lock its job's row.
		if a := r.attempt(lease); a != nil && !a.claimed.SettledInTx() {
			hurry = true
		}
	}
	for _, lease := range renewed.Lost {
		not[lease] = true
		if a := r.attempt(lease); a != nil {
			r.loseLease(a, "lease lost")
		}
	}
	r.mu.Lock()
	for _, lease := range leases {
		a := r.attempts[lease]
		if a == nil || not[lease] {
			continue
		}
		// DoneTx locks the row until its transaction ends, and its commit takes
		// the row away. What was renewed after the mark was rolled back.
		a.claimed.ClearSettled(marks[lease])
		if a.stage == active && !a.lost {
			a.leaseTimer.Reset(time.Until(leaseEnds))
		}
	}
	r.mu.Unlock()
	r.cancelJobs(renewed.Cancelled)
	return !hurry
}

// renewBound is the longest that a renewal may take: with RenewEvery/5 between
// them, three that hang fit into a lease.
func (r *run) renewBound() time.Duration {
	return max(r.cfg.RenewEvery/2, min(r.cfg.RenewEvery, time.Second))
}

// renewable are the leases of the jobs that run and of those that have finished,
// but for lost ones, and how often each was settled in a transaction up to now.
// Whether such a transaction is open, committed or rolled back is what the
// renewal shows: passed, lost or renewed.
func (r *run) renewable() (leases []later.Lease, marks map[later.Lease]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	marks = map[later.Lease]int64{}
	for lease, a := range r.attempts {
		if a.stage == active && !a.lost || a.stage == pending {
			leases = append(leases, lease)
			marks[lease] = a.claimed.SettledMarks()
		}
	}
	return leases, marks
}

// cancellable are the leases of the running jobs. Left out is what others may
// hold by now: lost ones, and those in the hands of a handler's transaction.
func (r *run) cancellable() []later.Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	var leases []later.Lease
	for lease, a := range r.attempts {
		if a.stage == active && !a.lost && !a.claimed.SettledInTx() {
			leases = append(leases, lease)
		}
	}
	return leases
}

func (r *run) attempt(lease later.Lease) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[lease]
}

// watchCancels asks, while jobs run, whether somebody wants them cancelled.
func (r *run) watchCancels() {
	leases := r.cancellable()
	if len(leases) == 0 {
		return
	}
	ctx, cancel := r.op(settleBound)
	defer cancel()
	cancelled, err := r.store.CancelRequests(ctx, leases)
	if err != nil {
		if r.ops.Err() == nil {
			r.outages.fail("cancel requests", err)
		}
		return
	}
	r.outages.works("cancel requests")
	r.cancelJobs(cancelled)
}

func (r *run) cancelJobs(leases []later.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, lease := range leases {
		a := r.attempts[lease]
		if a == nil || a.stage != active || a.ctx.Err() != nil || a.claimed.SettledInTx() {
			continue
		}
		r.log.Info("job is cancelled", a.attrs()...)
		r.interrupt(a, later.ErrCancelled)
	}
}

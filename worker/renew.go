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

// renew renews the leases of the jobs that run or wait for a slot, and of those
// that have finished and wait to be settled.
func (r *run) renew() bool {
	leases, attempts, marks := r.renewable()
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
	lost, passed := setOf(renewed.Lost), setOf(renewed.Passed)
	hurry := false
	r.mu.Lock()
	for i, a := range attempts {
		switch {
		case a.stage == over:
		case lost[leases[i]]:
			r.loseLease(a, "lease lost")
		case passed[leases[i]]:
			// An open transaction of DoneTx is expected to lock its job's row.
			hurry = hurry || !a.claimed.SettledInTx()
		default:
			// DoneTx locks the row until its transaction ends, and its commit
			// takes the row away. What was renewed after the mark was rolled back.
			a.claimed.ClearSettled(marks[i])
			if (a.stage == active || a.stage == queued) && !a.lost {
				a.leaseEnds = leaseEnds
				r.alarmBy(leaseEnds)
			}
		}
	}
	r.cancelJobs(attempts, renewed.Cancelled)
	r.poke()
	r.mu.Unlock()
	return !hurry
}

func setOf(leases []later.Lease) map[later.Lease]bool {
	if len(leases) == 0 {
		return nil
	}
	set := make(map[later.Lease]bool, len(leases))
	for _, lease := range leases {
		set[lease] = true
	}
	return set
}

// renewBound is the longest that a renewal may take: with RenewEvery/5 between
// them, three that hang fit into a lease.
func (r *run) renewBound() time.Duration {
	return max(r.cfg.RenewEvery/2, min(r.cfg.RenewEvery, time.Second))
}

// renewable are the leases of the jobs that run or wait for a slot and of those
// that have finished, but for lost ones, their attempts, and how often each was
// settled in a transaction up to now. Whether such a transaction is open,
// committed or rolled back is what the renewal shows: passed, lost or renewed.
func (r *run) renewable() (leases []later.Lease, attempts []*attempt, marks []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := r.attempts; a != nil; a = a.next {
		if (a.stage == active || a.stage == queued) && !a.lost || a.stage == pending {
			leases = append(leases, a.lease())
			attempts = append(attempts, a)
			marks = append(marks, a.claimed.SettledMarks())
		}
	}
	return leases, attempts, marks
}

// cancellable are the leases of the jobs that run or wait for a slot. Left out
// is what others may hold by now: lost ones, and those in the hands of a
// handler's transaction.
func (r *run) cancellable() (leases []later.Lease, attempts []*attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := r.attempts; a != nil; a = a.next {
		if (a.stage == active || a.stage == queued) && !a.lost && !a.claimed.SettledInTx() {
			leases = append(leases, a.lease())
			attempts = append(attempts, a)
		}
	}
	return leases, attempts
}

// watchCancels asks, while jobs run, whether somebody wants them cancelled.
func (r *run) watchCancels() {
	leases, attempts := r.cancellable()
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancelJobs(attempts, cancelled)
	r.poke()
}

// cancelJobs does what operators want with those of the attempts whose leases
// are named. The lock is held.
func (r *run) cancelJobs(attempts []*attempt, leases []later.Lease) {
	if len(leases) == 0 {
		return
	}
	wanted := setOf(leases)
	now := time.Now()
	for _, a := range attempts {
		switch {
		case !wanted[a.lease()] || a.claimed.SettledInTx():
		case a.stage == queued:
			r.log.Info("job is cancelled", a.attrs()...)
			r.unstarted(a, later.Settlement{Outcome: later.OutcomeCancelled, Error: later.ErrCancelled.Error()})
		case a.stage == active && a.ctx.ended(now) == nil:
			r.log.Info("job is cancelled", a.attrs()...)
			r.interrupt(a, later.ErrCancelled)
		}
	}
}

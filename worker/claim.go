package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// claimBound is the longest that a claim may take: beyond half the lease there
// would be too little of it left.
func (r *run) claimBound() time.Duration { return min(10*time.Second, r.cfg.Lease/2) }

// claimLoop claims as many jobs as slots are free, until the run stops.
func (r *run) claimLoop() {
	poll := time.NewTimer(jitter(r.cfg.Poll))
	defer poll.Stop()
	for r.waitForClaim(poll) {
		r.claim()
	}
}

// waitForClaim returns true when a claim may find work for a free slot, and
// false when there are to be no more claims. After a claim that came back full
// it returns as soon as a slot is free; after one that did not, at the next
// poll: an idle worker asks once in each Poll.
func (r *run) waitForClaim(poll *time.Timer) bool {
	for {
		r.mu.Lock()
		ready := r.free() > 0 && r.shares.anyMore()
		stopping := r.stopping
		// Abandoned handlers may never return, and have no results to wait for.
		idle := !ready && r.busy-r.abandoned+r.hooking+r.waiting() == 0
		if r.untilEmpty && idle && r.touched {
			// Jobs may have made jobs, and a store may have passed over some.
			r.touched, r.thorough = false, true
			r.shares.refresh()
			ready, idle = true, false
		}
		r.mu.Unlock()
		if stopping {
			return false
		}
		if ready {
			return true
		}
		if r.untilEmpty && idle {
			found, err := r.sweep()
			if r.answered("sweep", err) && found == 0 {
				r.endEmpty()
				return false
			}
			continue
		}
		select {
		case <-r.wakeClaim:
		case <-poll.C:
			poll.Reset(jitter(r.cfg.Poll))
			r.mu.Lock()
			r.shares.refresh()
			r.mu.Unlock()
		case <-r.stopped:
			return false
		}
	}
}

// endEmpty ends a Drain that found nothing more to do.
func (r *run) endEmpty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty = true
	soft := time.Now().Add(r.cfg.DrainTimeout)
	r.stopLocked(soft, soft.Add(DrainReserve))
}

// claim asks the store once and starts what it gets.
func (r *run) claim() {
	r.mu.Lock()
	limits := r.shares.divide(min(r.free(), r.claimLimit), r.cfg.Concurrency)
	for _, limit := range limits {
		r.claiming += limit.Limit
	}
	thorough := r.thorough
	r.mu.Unlock()
	if len(limits) == 0 {
		return
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.claiming = 0
		wake(r.wakeSweep)
	}()
	req := later.ClaimRequest{
		Queues: limits, Kinds: r.kinds, Worker: r.id.name, Token: later.NewToken(), Lease: r.cfg.Lease,
		Thorough: thorough,
	}
	for _, limit := range limits {
		req.Limit += limit.Limit
	}
	// The lease counts from before the statement was sent, and so ends here
	// never later than in the database.
	leaseEnds := time.Now().Add(r.cfg.Lease)
	ctx, cancel := r.op(r.claimBound())
	req.Unanswered = r.unansweredClaims(time.Now())
	jobs, err := r.store.Claim(ctx, req)
	r.adaptClaims(req.Limit, err, ctx.Err())
	cancel()
	if err != nil {
		r.unanswered = append(r.unanswered, unansweredClaim{req.Token, leaseEnds.Add(r.claimBound())})
	}
	if !r.answered("claim", err) {
		return
	}
	r.counters.add(func(s *Stats) {
		s.LastClaim = time.Now()
		s.Claimed += int64(len(jobs))
	})
	r.mu.Lock()
	r.shares.learn(limits, jobs)
	if !r.shares.anyMore() {
		r.thorough = false // every queue has been asked
	}
	r.mu.Unlock()
	for _, c := range jobs {
		r.take(&attempt{claimed: c, claimedAt: time.Now()}, leaseEnds)
	}
}

// unansweredClaim is a claim that failed: it may have been stored all the same,
// and then nobody has seen its jobs.
type unansweredClaim struct {
	token int64
	until time.Time // when its leases have ended in any case
}

// unansweredClaims are the tokens of the claims whose jobs may still be leased.
// Only the claim loop calls it.
func (r *run) unansweredClaims(now time.Time) []int64 {
	var tokens []int64
	r.unanswered = slices.DeleteFunc(r.unanswered, func(c unansweredClaim) bool { return now.After(c.until) })
	for _, c := range r.unanswered {
		tokens = append(tokens, c.token)
	}
	return tokens
}

// adaptClaims learns from a claim how many jobs the next may ask for: half as
// many when its bound cut it off, since jobs with huge payloads may be what took
// so long, and twice as many when it worked.
func (r *run) adaptClaims(asked int, err, ended error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.claimLimit = min(2*r.claimLimit, r.cfg.Concurrency)
	case errors.Is(ended, context.DeadlineExceeded):
		r.claimLimit = max(1, asked/2)
	}
}

// answered reports whether an operation of claiming worked. When it did not, it
// waits a little, or ends the run when waiting cannot help.
func (r *run) answered(op string, err error) bool {
	r.mu.Lock()
	r.lastErr = err
	r.mu.Unlock()
	if err == nil {
		r.outages.works(op)
		return true
	}
	if r.ops.Err() != nil {
		return false // the run has ended under it
	}
	if isFatal(err) {
		r.fail(err)
		return false
	}
	timer := time.NewTimer(r.outages.fail(op, err))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.stopped:
	}
	return false
}

// take does with a claimed job what is to be done with it: run it, end it, or
// give it back.
func (r *run) take(a *attempt, leaseEnds time.Time) {
	a.worker = r.id.name
	c := a.claimed
	if c.Doom != later.DoomNone {
		r.end(a, r.judge(a).doom())
		return
	}
	a.handler = r.handlers.Lookup(c.Kind)
	if a.handler != nil && r.start(a, leaseEnds) {
		return
	}
	// Claimed while the worker began to stop: nobody has seen it.
	r.end(a, verdict{settlement: release(c.Lease)})
}

// end settles a claimed job without running it. It takes no slot.
func (r *run) end(a *attempt, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts[a.lease()] = a
	r.touched = true
	r.toSettle(a, v)
}

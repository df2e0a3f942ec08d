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

// claimLoop claims jobs until the run stops.
func (r *run) claimLoop() {
	w := r.newWaiter()
	defer w.close()
	for w.wait() {
		w.claimed(r.claim())
	}
}

// endEmpty ends a Drain that found nothing more to do.
func (r *run) endEmpty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty = !r.kindSlots.anyFull()
	soft := time.Now().Add(r.cfg.DrainTimeout)
	r.stopLocked(soft, soft.Add(DrainReserve))
}

// result is what a claim has brought.
type result struct {
	ok    bool // the store has answered
	found int  // so many jobs
	// limited: some of them are under a limit, and there were less than were asked for.
	limited bool
}

// claim asks the store once and starts what it gets.
func (r *run) claim() (got result) {
	r.mu.Lock()
	free := r.free()
	asking := r.shares.divide(free, r.kindSlots.total(r.claimLimit), r.mayGoAhead())
	if asking.total == 0 {
		r.mu.Unlock()
		return got
	}
	r.claiming = min(asking.total, free)
	most := r.kindSlots.ask()
	thorough := r.thorough
	r.mu.Unlock()
	var jobs []*later.Claimed
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.claiming = 0
		if r.kindSlots.answered(jobs, got.ok) {
			r.shares.refresh()
		}
		r.poke()
	}()
	lowest := r.cfg.LowestEvery > 0 && r.sinceLowest >= r.cfg.LowestEvery-1
	req := later.ClaimRequest{
		Queues: asking.limits, Kinds: r.kinds, Worker: r.id.name, Token: later.NewToken(), Lease: r.cfg.Lease,
		Thorough: thorough, Limit: asking.total, MaxBytes: claimBytes, Free: asking.free(), MostOfKind: most, Tenants: r.cfg.Tenants, FromLowest: lowest,
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
		return got
	}
	r.counters.add(func(s *Stats) {
		s.LastClaim = time.Now()
		s.Claimed += int64(len(jobs))
	})
	r.mu.Lock()
	r.shares.learn(asking, jobs)
	if !r.shares.anyMore() {
		r.thorough = false // every queue has been asked
	}
	r.mu.Unlock()
	if lowest && len(jobs) > 0 {
		r.sinceLowest = 0
	} else if len(jobs) > 0 {
		r.sinceLowest++
	}
	r.take(jobs, origin{leaseEnds: leaseEnds, lowest: lowest})
	limited := slices.ContainsFunc(jobs, func(c *later.Claimed) bool { return c.Limited })
	return result{ok: true, found: len(jobs), limited: limited && len(jobs) < asking.total}
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
		r.claimLimit = min(2*r.claimLimit, r.cfg.Concurrency+maxAhead)
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

// origin is how jobs were claimed.
type origin struct {
	leaseEnds time.Time
	sweep     bool // by a sweep: what is to be run is a suspect
	lowest    bool // by a claim that began at the lowest priority
}

// take does with claimed jobs what is to be done with them: have them run, end
// them, or give them back.
func (r *run) take(jobs []*later.Claimed, by origin) {
	now := time.Now()
	attempts := make([]*attempt, len(jobs))
	for i, c := range jobs {
		a := r.newAttempt(c, now, by.leaseEnds)
		if attempts[i] = a; c.Doom != later.DoomNone {
			a.verdict = r.judge(a).doom()
			continue
		}
		a.suspect = by.sweep
		a.lowest = by.lowest
		if a.rank = int(c.Priority); c.Limited {
			a.rank = firstRank
		}
		if i > 0 && attempts[i-1].claimed.Kind == c.Kind {
			a.handler = attempts[i-1].handler
		} else {
			a.handler = r.handlers.Lookup(c.Kind)
		}
		a.last = i == len(jobs)-1 || jobs[i+1].Queue != c.Queue
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range attempts {
		r.enlist(a)
		switch {
		case a.claimed.Doom != later.DoomNone:
			r.toSettle(a, a.verdict)
		case r.stopping || a.handler == nil || a.claimed.MaxAttempts == 1 && !a.suspect && r.mustWait():
			// Claimed while the worker began to stop: nobody has seen it. Or a job
			// that would be dead if this worker died while it waits for a slot.
			r.toSettle(a, verdict{settlement: release(a.lease())})
		case !r.holdKind(a):
			// The store gave more than were asked for.
			r.toSettle(a, verdict{settlement: release(a.lease())})
		case a.suspect || !r.shares.push(a):
			// It never waits among others: for a suspect a slot is kept, and a
			// queue that is not served has no share of them.
			r.begin(a, now)
			go r.serve(a)
		}
	}
	if r.shares.inLine > 0 {
		r.alarmBy(now.Add(giveBackAfter))
	}
	r.poke()
}

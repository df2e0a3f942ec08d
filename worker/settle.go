package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/later-queue/later"
)

const (
	// maxBatch bounds one settle. Chosen: above a few hundred a bigger batch
	// gains little, and one that fails is bigger to repeat.
	maxBatch = 1000
	// settleBound is the longest that a settle may take.
	settleBound = 10 * time.Second
	// inTxBound is the same for jobs whose handler settled them in a
	// transaction. A handler that returned without ending that transaction
	// still locks the row.
	inTxBound = 2 * time.Second
	// hurriedPause is the longest pause between tries while draining.
	hurriedPause = 250 * time.Millisecond

	unstorable = "failed; its error could not be stored"
)

// toSettle hands the attempt's verdict to the settle loop. The lock is held.
func (r *run) toSettle(a *attempt, v verdict) {
	a.stage, a.verdict = pending, v
	a.hooks = v.failure != nil && (r.cfg.OnError != nil || r.cfg.OnDead != nil)
	r.results = append(r.results, a)
	wake(r.wakeSettle)
}

// settleLoop settles what has ended. While one settle is under way, the next
// batch forms.
func (r *run) settleLoop() {
	failures := 0
	for {
		batch, wait := r.nextBatch(time.Now())
		switch {
		case batch == nil:
		case r.settle(batch):
			failures = 0
			continue
		default:
			failures++
			wait = retryBackoff.Delay(failures, nil)
		}
		if !r.settlePause(wait, batch == nil) {
			return
		}
	}
}

// settlePause waits for d, or for new results if they count. It returns false
// when the run is over.
func (r *run) settlePause(d time.Duration, results bool) bool {
	var news, stopped chan struct{}
	if results {
		news = r.wakeSettle
	}
	if r.isStopping() {
		d = min(d, hurriedPause)
	} else {
		stopped = r.stopped
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-stopped:
	case <-r.ops.Done():
		return false
	}
	return true
}

// nextBatch takes the results that can be settled together: the oldest that is
// due, and those of its class. Without one it returns how long to wait.
func (r *run) nextBatch(now time.Time) (batch []*attempt, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = time.Hour
	rest := r.results[:0:0]
	ids := map[int64]bool{}
	for _, a := range r.results {
		due := a.retryAt.Sub(now)
		if r.stopping && due > hurriedPause {
			a.retryAt = now.Add(hurriedPause)
			due = hurriedPause
		}
		switch {
		case due > 0:
			wait = min(wait, due)
			rest = append(rest, a)
		case len(batch) == 0,
			!a.solo && !batch[0].solo && a.verdict.inTx == batch[0].verdict.inTx &&
				len(batch) < maxBatch && !ids[a.claimed.ID]: // one settle never names an id twice
			batch = append(batch, a)
			ids[a.claimed.ID] = true
		default:
			rest = append(rest, a)
		}
	}
	r.results, r.inHand = rest, len(batch)
	return batch, wait
}

// settle stores the verdicts of batch. It returns false when the store seems to
// be away; what was not settled is in the queue again.
func (r *run) settle(batch []*attempt) bool {
	settlements := make([]later.Settlement, len(batch))
	for i, a := range batch {
		settlements[i] = a.verdict.settlement
	}
	bound := settleBound
	if batch[0].verdict.inTx {
		bound = inTxBound
	}
	ctx, cancel := r.op(bound)
	refused, err := r.store.Settle(ctx, settlements)
	cancel()

	r.mu.Lock()
	defer r.mu.Unlock()
	r.inHand = 0
	defer r.poke()
	if err != nil {
		return r.settleFailed(batch, err)
	}
	r.outage = false
	r.outages.works("settle")
	isRefused := make(map[later.Lease]bool, len(refused))
	for _, lease := range refused {
		isRefused[lease] = true
	}
	for _, a := range batch {
		r.settled(a, isRefused[a.lease()])
	}
	return true
}

// settleFailed puts batch back, so that it is tried again in the right way. It
// returns false when the store seems to be away. The lock is held.
func (r *run) settleFailed(batch []*attempt, err error) bool {
	away := worthRetrying(err)
	first := batch[0]
	alone := len(batch) == 1 && (first.solo || !away)
	for _, a := range batch {
		a.ambiguous = a.ambiguous || away && !errors.Is(err, later.ErrFull)
	}
	switch {
	case away && !first.solo && !first.verdict.inTx:
		r.outages.fail("settle", err)
		r.outage = true
	case !alone:
		// One of them is what the store cannot take, or holds a lock that the
		// others do not: find out which.
		for _, a := range batch {
			a.solo = true
		}
		away = false
	case away:
		first.tries++
		first.retryAt = time.Now().Add(retryBackoff.Delay(first.tries, nil))
		away = false
	default:
		r.fallBack(first, err)
	}
	r.results = append(batch, r.results...)
	return !away
}

// fallBack takes away from a settlement what the store may not like in it: its
// text, then its history. The lock is held.
func (r *run) fallBack(a *attempt, err error) {
	a.solo = true
	s := &a.verdict.settlement
	hasText := s.Error != "" || len(s.Errors) > 0
	switch {
	case a.fallbacks == 0 && hasText:
		r.log.Error("outcome could not be stored, storing it without its text", a.attrs("worker", r.id.name, "err", err)...)
		s.Error = unstorable
		if len(s.Errors) > 0 {
			s.Errors = later.AppendError(a.claimed.Errors, later.AttemptError{
				Attempt: a.claimed.Attempt, At: time.Now(), Worker: r.id.name, Error: unstorable,
			})
		}
	case a.fallbacks == 1 && len(s.Errors) > 1:
		s.Errors = s.Errors[len(s.Errors)-1:]
	default:
		if a.tries == 0 {
			r.log.Error("outcome could not be stored, trying on", a.attrs("worker", r.id.name, "err", err)...)
		}
		a.tries++
		a.retryAt = time.Now().Add(retryBackoff.Delay(a.tries, nil))
	}
	a.fallbacks++
}

// settled ends an attempt that the store has accepted or refused. The lock is
// held.
func (r *run) settled(a *attempt, refused bool) {
	r.forget(a)
	v := a.verdict
	switch {
	case refused && v.inTx:
		// What is expected: the handler's transaction has ended the job.
		if v.err != nil {
			r.log.Warn("handler failed after its transaction had settled the job", a.attrs("worker", r.id.name, "err", v.err)...)
		}
		r.count(later.OutcomeDone)
		a.hooks = false
	case refused:
		r.reportRefused(a)
		a.hooks = false
	default:
		if a.fallbacks > 0 || a.tries > 0 {
			r.log.Info("outcome stored at last", a.attrs("worker", r.id.name)...)
		}
		r.count(v.settlement.Outcome)
	}
	if a.hooks {
		r.hooking++
		go r.tell(a)
		return
	}
	r.freeSlot(a)
}

func (r *run) count(outcome later.Outcome) {
	r.counters.add(func(s *Stats) { s.Outcomes[outcome]++ })
}

func (r *run) reportRefused(a *attempt) {
	attrs := a.attrs("worker", r.id.name, "outcome", a.verdict.settlement.Outcome,
		"err", fmt.Errorf("settle: %w", later.ErrLeaseLost))
	if a.ambiguous {
		r.counters.add(func(s *Stats) { s.Unclear++ })
		r.log.Warn("result refused after a try without an answer; that try may have been stored", attrs...)
		return
	}
	r.counters.add(func(s *Stats) { s.Refused++ })
	r.log.Warn("result refused, the lease was lost", attrs...)
}

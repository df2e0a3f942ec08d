package worker

import (
	"fmt"

	"github.com/later-queue/later"
)

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

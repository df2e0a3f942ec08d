package worker

import (
	"fmt"
	"time"

	"github.com/later-queue/later"
)

// findTries is how often the store is asked what became of a job. Chosen.
const findTries = 5

// maxLogError is how much of an error's text a log line has. Chosen: the whole
// text is kept with the job.
const maxLogError = 500

// settled ends an attempt that the store has accepted or refused. The lock is
// held. What it counts goes into t.
func (r *run) settled(a *attempt, refused bool, t tally) tally {
	r.forget(a)
	v := a.verdict
	switch {
	case refused && a.claimed.SettledInTx() && v.err == nil:
		// What is expected: the handler's transaction has ended the job.
		t = t.add(later.OutcomeDone)
		a.hooks = false
	case refused && a.claimed.SettledInTx():
		r.counters.add(func(s *Stats) { s.Unclear++ })
		r.log.Warn("handler failed after DoneTx; whether its transaction was committed is not known", a.attrs("err", logError(v.err))...)
		a.hooks = false
	case refused && a.ambiguous && v.settlement.Outcome == later.OutcomeDead:
		// The hooks and the log must not miss a death.
		r.hooking++
		a.hooks = true
		go r.clearUp(a)
		return t
	case refused && a.lost && a.startedAt.IsZero():
		// It has been said that the lease is lost, and there was no result.
	case refused:
		r.reportRefused(a)
		a.hooks = false
	default:
		if a.fallbacks > 0 || a.tries > 0 {
			r.log.Info("outcome stored at last", a.attrs()...)
		}
		r.stored(a)
		if a.claimed.Limited && !r.hears() {
			r.shares.refresh() // its place may be free
		}
		r.expect(a.verdict.settlement)
		t = t.add(a.verdict.settlement.Outcome)
	}
	if a.hooks {
		r.hooking++
		go r.tell(a)
		return t
	}
	r.freeSlot(a)
	return t
}

// expect notes when a job is due that this worker has put off, so that it is
// claimed on time although the claim loop asked before. The lock is held.
func (r *run) expect(s later.Settlement) {
	if s.Outcome != later.OutcomeRetry && s.Outcome != later.OutcomeSnoozed {
		return
	}
	due := time.Now().Add(s.Delay)
	if r.ownDue.IsZero() || due.Before(r.ownDue) {
		r.ownDue = due
		if !r.untilEmpty {
			wake(r.wakeClaim)
		}
	}
}

// stored logs a failed attempt, or a job that was not run, that the store has.
func (r *run) stored(a *attempt) {
	f := a.verdict.failure
	switch {
	case a.verdict.settlement.Outcome == later.OutcomeExpired:
		r.log.Warn("job expired while it waited", a.attrs("expired_at", a.claimed.ExpiresAt)...)
	case f == nil:
	case f.Outcome == later.OutcomeDead:
		r.log.Error("job is dead", a.attrs("reason", f.Reason, "err", logError(f.Err))...)
	default:
		r.log.Warn("attempt failed", a.attrs("err", logError(f.Err), "retry_in", f.RetryIn)...)
	}
}

func logError(err error) string { return later.CleanText(errorText(err), maxLogError) }

// clearUp finds out whether a job is dead whose settle had no answer at first
// and was refused then: the first try may have been stored.
func (r *run) clearUp(a *attempt) {
	dead := r.findDead(a)
	if dead {
		r.stored(a)
		r.counters.addOutcomes(tally{}.add(a.verdict.settlement.Outcome))
		r.tell(a)
		return
	}
	r.reportRefused(a)
	r.told(a)
}

// findDead reports whether the store has this attempt's death. It asks a few
// times.
func (r *run) findDead(a *attempt) bool {
	c := a.claimed
	for try := 1; ; try++ {
		ctx, cancel := r.op(settleBound)
		info, err := r.store.Find(ctx, c.ID)
		cancel()
		if err == nil {
			return info.State == later.StateDead && info.Generation == c.Generation &&
				info.Attempt == c.Attempt && info.DeadReason == a.verdict.settlement.Reason
		}
		if !worthRetrying(err) || try == findTries || !pause(r.ops, retryBackoff.Delay(try, nil)) {
			return false
		}
	}
}

func (r *run) reportRefused(a *attempt) {
	attrs := a.attrs("outcome", a.verdict.settlement.Outcome,
		"err", fmt.Errorf("settle: %w", later.ErrLeaseLost))
	if a.ambiguous {
		r.counters.add(func(s *Stats) { s.Unclear++ })
		r.log.Warn("result refused after a try without an answer; that try may have been stored", attrs...)
		return
	}
	r.counters.add(func(s *Stats) { s.Refused++ })
	r.log.Warn("result refused, the lease was lost", attrs...)
}

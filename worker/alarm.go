package worker

import (
	"time"

	"github.com/later-queue/later"
)

// One timer watches over all jobs: it is set to the earliest moment at which
// something is to be done with one that does not end by itself. A timer for each
// job would cost more than a short job does.

// alarmBy sees to it that the attempts are looked at by t at the latest. The
// lock is held.
func (r *run) alarmBy(t time.Time) {
	if !r.alarmAt.IsZero() && !t.Before(r.alarmAt) {
		return
	}
	r.alarmAt = t
	if r.alarm == nil {
		r.alarm = time.AfterFunc(time.Until(t), r.lookAfter)
	} else {
		r.alarm.Reset(time.Until(t))
	}
}

// lookAfter does what is due: it ends what has lost its lease, abandons what
// does not return, and gives back what has waited for too long.
func (r *run) lookAfter() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ops.Err() != nil {
		return
	}
	now := time.Now()
	r.alarmAt = time.Time{}
	var next time.Time
	soonest := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	for a, after := r.attempts, (*attempt)(nil); a != nil; a = after {
		after = a.next
		if (a.stage == queued || a.stage == active) && due(a.leaseEnds) {
			a.leaseEnds = time.Time{}
			r.loseLease(a, "lease can no longer be shown to hold")
		}
		switch a.stage {
		case queued:
			giveBackAt := a.claimedAt.Add(giveBackAfter)
			switch {
			case !due(giveBackAt):
			case r.outage: // it could not be given back
				giveBackAt = now.Add(giveBackAfter)
			default:
				r.giveBack(a)
				continue
			}
			soonest(giveBackAt)
		case active:
			if due(a.abandonAt) {
				a.abandonAt = time.Time{}
				r.abandon(a)
				continue
			}
			soonest(a.abandonAt)
		default:
			continue
		}
		soonest(a.leaseEnds)
	}
	if !next.IsZero() {
		r.alarmBy(next)
	}
	r.poke()
}

// giveBack releases a job that has waited too long for a slot: others may have
// one. The lock is held.
func (r *run) giveBack(a *attempt) {
	if q := r.shares.find(a.claimed.Queue); q != nil {
		q.pace.slow()
	}
	if r.debug() {
		r.log.Debug("job given back unstarted, the jobs before it are slow", a.attrs()...)
	}
	r.unstarted(a, later.Settlement{Outcome: later.OutcomeReleased})
}

package worker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/later-queue/later"
)

// attempt is one claimed job on its way to being settled. The run's lock guards
// what changes.
type attempt struct {
	// claimed is the runtime's own copy, so that nothing a handler does to its
	// job changes what is settled. The handler gets handed.
	claimed *later.Claimed
	handed  *later.Claimed
	own     later.Claimed
	handler *later.Handler // nil: not to be run
	suspect bool           // from the sweep; one runs at a time
	// claimedAt is when the claim's answer came, by the monotonic clock;
	// startedAt when the handler was called, zero if it was not.
	claimedAt, startedAt time.Time
	worker               string // the name of its worker

	ctx jobContext

	stage     stage
	line      *line // where it waits for a slot
	rank      int   // in the line: its priority, or firstRank
	round     int   // in the line, of its rank
	lowest    bool  // its claim began at the lowest priority
	held      bool  // it counts among the jobs of its kind
	last      bool  // of the jobs of its claim
	executing bool  // its handler has not returned
	abandoned bool  // its handler did not return in time
	lost      bool  // its lease is lost, as far as is known
	slot      bool  // it holds a slot
	hooks     bool  // its hooks are to be called, or are being called

	// leaseEnds is when the lease can no longer be shown to hold, abandonAt when
	// the handler is abandoned; zero: not watched.
	leaseEnds, abandonAt time.Time

	verdict   verdict
	ambiguous bool // a settle ended without an answer: it may have been stored
	solo      bool // settled alone: a batch with it failed
	fallbacks int  // how much of its text was given up to get it stored
	tries     int
	troubled  bool // logged that it could not be stored
	givenIn   bool // logged that nothing more can be given up of it
	retryAt   time.Time

	prev, next *attempt // in the run's list
}

// firstRank is before every priority.
const firstRank = math.MinInt16 - 1

// stage is how far the job of an attempt has come.
type stage int

const (
	queued  stage = iota // waits for a slot
	active               // its handler decides what becomes of it
	pending              // waits for its settle to be committed
	over                 // settled, refused or given up
)

// newAttempt returns the attempt at a job whose claim was answered at the time
// at.
func (r *run) newAttempt(c *later.Claimed, at, leaseEnds time.Time) *attempt {
	if c.Doom == later.DoomNone {
		c.Bind(r.store)
	}
	a := &attempt{own: *c, handed: c, claimedAt: at, leaseEnds: leaseEnds, worker: r.id.name}
	a.claimed = &a.own
	return a
}

func (a *attempt) lease() later.Lease { return a.claimed.Lease }

// now is the database's clock, as far as it is known: what it was at the claim,
// and what has passed since then. It is never ahead of it, but for the drift of
// two clocks during one attempt.
func (a *attempt) now() time.Time {
	if a.claimed.Now.IsZero() {
		return time.Now()
	}
	return a.claimed.Now.Add(time.Since(a.claimedAt))
}

// attrs are what identifies the attempt in the log.
func (a *attempt) attrs(more ...any) []any {
	c := a.claimed
	return append([]any{"job", c.ID, "kind", c.Kind, "queue", c.Queue, "tenant", c.Tenant, "attempt", c.Attempt, "worker", a.worker}, more...)
}

// debug reports whether what is said of each job is wanted at all: the values
// for it cost more than the job.
func (r *run) debug() bool { return r.log.Enabled(context.Background(), slog.LevelDebug) }

// addDuration is a + b without overflow.
func addDuration(a, b time.Duration) time.Duration {
	if sum := a + b; sum > a {
		return sum
	}
	return a
}

// enlist notes an attempt. The lock is held.
func (r *run) enlist(a *attempt) {
	a.next = r.attempts
	if a.next != nil {
		a.next.prev = a
	}
	r.attempts = a
	r.touched = true
}

// forget ends the attempt's stay in memory, but for a handler that still runs.
// The lock is held.
func (r *run) forget(a *attempt) {
	if a.stage == queued {
		r.shares.leave(a)
	}
	a.stage = over
	// Not before its result is stored: the next one may kill the process.
	r.endSuspect(a)
	if !a.executing {
		r.unlist(a)
	}
}

func (r *run) unlist(a *attempt) {
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		r.attempts = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	}
	a.prev, a.next = nil, nil
}

// unstarted ends a job that waits for a slot: its handler is never called. The
// lock is held.
func (r *run) unstarted(a *attempt, s later.Settlement) {
	r.shares.leave(a)
	r.dropKind(a)
	s.Lease = a.lease()
	r.toSettle(a, verdict{settlement: s})
}

// loseLease ends the context of a running job that others may run from now on.
// A job that has not been started is not started any more. The lock is held.
func (r *run) loseLease(a *attempt, message string) {
	// After DoneTx the job is in the hands of the handler's transaction, until
	// a renewal shows that it was rolled back.
	if a.stage != active && a.stage != queued || a.lost || a.claimed.SettledInTx() {
		return
	}
	a.lost = true
	r.counters.add(func(s *Stats) { s.LostLeases++ })
	r.log.Warn(message, a.attrs()...)
	if a.stage == queued {
		// Accepted only if nobody else has taken it.
		r.unstarted(a, later.Settlement{Outcome: later.OutcomeReleased})
		return
	}
	r.interrupt(a, later.ErrLeaseLost)
}

// interrupt ends the context of a running job and gives its handler the grace
// to return. The lock is held.
func (r *run) interrupt(a *attempt, cause error) {
	now := time.Now()
	if a.ctx.ended(now) != nil {
		return // it has its cause and its grace already
	}
	a.ctx.end(cause, now)
	a.abandonAt = now.Add(r.cfg.Grace)
	r.alarmBy(a.abandonAt)
}

// abandon settles the attempt of a handler that does not return. The lock is
// held.
func (r *run) abandon(a *attempt) {
	now := time.Now()
	cause := a.ctx.ended(now)
	if cause == nil {
		// After the process stood still the context's own timer may come second.
		cause = later.ErrTimeout
		a.ctx.end(cause, now)
	}
	r.log.Error("handler does not return, abandoned; its slot stays taken", a.attrs("err", cause)...)
	a.abandoned = true
	r.running--
	r.abandoned++
	r.endSuspect(a) // one that hangs must not keep the others waiting for ever
	r.counters.add(func(s *Stats) { s.AbandonedTotal++ })
	r.giveUp(a, cause)
	if stuck := r.kindSlots.abandon(a.claimed.Kind, 1); stuck || r.abandoned >= r.cfg.Concurrency {
		r.failLocked(ErrStuck)
	}
}

// giveUp settles the attempt of a handler that still runs although its context
// has ended because of cause. The lock is held.
func (r *run) giveUp(a *attempt, cause error) {
	if errors.Is(cause, later.ErrLeaseLost) {
		// Released it would start again without being charged, while this one
		// still runs. Whoever claims it next counts the loss.
		r.forget(a)
		return
	}
	r.toSettle(a, r.judge(a).decide(ending{abandoned: true, cause: cause}))
}

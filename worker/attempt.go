package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/later-queue/later"
)

// attempt is one claimed job on its way to being settled. The run's lock guards
// what changes.
type attempt struct {
	claimed *later.Claimed
	handler *later.Handler // nil: not to be run
	suspect bool           // from the sweep; one runs at a time
	// claimedAt is when the claim's answer came, by the monotonic clock.
	claimedAt time.Time
	worker    string // the name of its worker

	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the timeout's timer

	stage     stage
	executing bool // its handler has not returned
	abandoned bool // its handler did not return in time
	lost      bool // its lease is lost, as far as is known
	slot      bool // it holds a slot
	hooks     bool // its hooks are to be called, or are being called

	leaseTimer   *time.Timer // ends ctx when the lease can no longer be shown to hold
	abandonTimer *time.Timer

	verdict   verdict
	ambiguous bool // a settle ended without an answer: it may have been stored
	solo      bool // settled alone: a batch with it failed
	fallbacks int  // how much of its text was given up to get it stored
	tries     int
	troubled  bool // logged that it could not be stored
	givenIn   bool // logged that nothing more can be given up of it
	retryAt   time.Time
}

// stage is how far the job of an attempt has come.
type stage int

const (
	active  stage = iota // its handler decides what becomes of it
	pending              // waits for its settle to be committed
	over                 // settled, refused or given up
)

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

// start runs the job in a goroutine of its own. It returns false, and does
// nothing, when the worker is stopping.
func (r *run) start(a *attempt, leaseEnds time.Time) bool {
	c := a.claimed
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = later.DefaultTimeout
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		return false
	}
	c.Bind(r.store)
	a.ctx, a.cancel = context.WithCancelCause(r.values)
	a.ctx, a.stop = context.WithTimeoutCause(a.ctx, timeout, later.ErrTimeout)
	a.executing, a.slot = true, true
	a.leaseTimer = time.AfterFunc(time.Until(leaseEnds), func() { r.loseLease(a, "lease can no longer be shown to hold") })
	a.abandonTimer = time.AfterFunc(addDuration(timeout, r.cfg.Grace), func() { r.abandon(a) })
	r.attempts[c.Lease] = a
	r.executing[a] = struct{}{}
	r.busy++
	r.running++
	r.touched = true
	r.shares.occupy(c.Queue, 1)
	if a.suspect {
		r.suspects++
	}
	// The handler gets a copy, so that nothing it does to it changes what is
	// settled.
	handed := *c
	go call(a.ctx, a.handler, &handed, func(e ending) { r.finish(a, e) })
	return true
}

// addDuration is a + b without overflow.
func addDuration(a, b time.Duration) time.Duration {
	if sum := a + b; sum > a {
		return sum
	}
	return a
}

// finish takes the result of a handler that has come to its end.
func (r *run) finish(a *attempt, e ending) {
	v := r.judge(a).safely(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	a.executing = false
	delete(r.executing, a)
	a.endContext()
	r.endSuspect(a)
	if a.abandoned {
		r.abandoned--
	} else {
		r.running--
	}
	if a.stage == active {
		r.log.Debug("job finished", a.attrs("outcome", v.settlement.Outcome)...)
		r.toSettle(a, v)
	} else {
		r.log.Warn("late result of a handler ignored", a.attrs("outcome", v.settlement.Outcome)...)
	}
	r.freeSlot(a)
}

// safely is decide for errors whose methods panic.
func (j judge) safely(e ending) (v verdict) {
	defer func() {
		if recover() == nil {
			return
		}
		if e.panicked {
			e.value = fmt.Sprintf("value of type %T, whose methods panic", e.value)
		} else {
			e.err = fmt.Errorf("error of type %T, whose methods panic", e.err)
		}
		v = j.decide(e)
	}()
	return j.decide(e)
}

func (r *run) judge(a *attempt) judge {
	j := judge{claimed: a.claimed, worker: r.id.name, grace: r.cfg.Grace, now: a.now()}
	if a.handler != nil {
		j.backoff = a.handler.Config().Backoff
	}
	return j
}

// endContext releases what the attempt's context holds. The lock is held.
func (a *attempt) endContext() {
	if a.ctx == nil {
		return
	}
	a.leaseTimer.Stop()
	a.abandonTimer.Stop()
	a.cancel(nil)
	a.stop()
}

// freeSlot gives the attempt's slot to the next job, unless its handler or its
// hooks still need it. The lock is held.
func (r *run) freeSlot(a *attempt) {
	if a.slot && !a.executing && !a.hooks {
		a.slot = false
		r.busy--
		r.shares.occupy(a.claimed.Queue, -1)
	}
	r.poke()
}

// loseLease ends the context of a running job that others may run from now on.
func (r *run) loseLease(a *attempt, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// After DoneTx the job is in the hands of the handler's transaction, until
	// a renewal shows that it was rolled back.
	if a.stage != active || a.lost || a.claimed.SettledInTx() {
		return
	}
	a.lost = true
	r.counters.add(func(s *Stats) { s.LostLeases++ })
	r.log.Warn(message, a.attrs()...)
	r.interrupt(a, later.ErrLeaseLost)
}

// interrupt ends the context of a running job and gives its handler the grace
// to return. The lock is held.
func (r *run) interrupt(a *attempt, cause error) {
	if a.ctx.Err() != nil {
		return // it has its cause and its grace already
	}
	a.cancel(cause)
	a.abandonTimer.Reset(r.cfg.Grace)
}

// abandon settles the attempt of a handler that does not return.
func (r *run) abandon(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.stage != active {
		return
	}
	// Both timers of an attempt can be due at once after the process stood
	// still; the context's own may come second.
	cause := context.Cause(a.ctx)
	if cause == nil {
		cause = later.ErrTimeout
		a.cancel(cause)
	}
	r.log.Error("handler does not return, abandoned; its slot stays taken", a.attrs("err", cause)...)
	a.abandoned = true
	r.running--
	r.abandoned++
	r.endSuspect(a) // one that hangs must not keep the others waiting for ever
	r.counters.add(func(s *Stats) { s.AbandonedTotal++ })
	r.giveUp(a, cause)
	if r.abandoned >= r.cfg.Concurrency {
		r.failLocked(ErrStuck)
	}
	r.poke()
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

package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/later-queue/later"
)

// Handlers run in goroutines that take one job after the other and end when
// there is none. A goroutine is started by another one (or by whoever brings
// jobs) only when a slot is free, a job waits, and no goroutine is on its way:
// so many short jobs need few of them, and long ones have one each at once.

// hasRoom reports whether a job that waits may start. The lock is held.
func (r *run) hasRoom() bool { return r.busy+r.reserved+r.surplus() < r.cfg.Concurrency }

// mustWait reports whether a further job that was claimed would have to wait for a slot.
// The lock is held.
func (r *run) mustWait() bool {
	return r.busy+r.reserved+r.surplus()+r.shares.inLine >= r.cfg.Concurrency
}

// surplus is how many slots are kept empty because results wait to be stored.
// The lock is held.
//
// A finished job whose settle is under way has given its slot back, so that the
// next claim overlaps with the settle; but results pile up in memory neither
// when the store is slow (no more of them than there are slots and jobs may be
// claimed ahead) nor when it is away (then each keeps its slot).
func (r *run) surplus() int {
	if r.outage {
		return r.waiting()
	}
	return max(0, r.waiting()-r.resultsMost())
}

// resultsMost is how many results may wait before slots are kept empty.
func (r *run) resultsMost() int { return r.cfg.Concurrency + r.shares.proven() }

// dispatch sees to it that jobs that wait start as far as they may. The lock is
// held.
func (r *run) dispatch() {
	if r.starting || !r.hasRoom() || !r.shares.mayPick() {
		return
	}
	r.starting = true
	go func() {
		r.mu.Lock()
		r.starting = false
		a := r.nextJob(time.Now())
		r.dispatch()
		r.mu.Unlock()
		r.serve(a)
	}()
}

// serve runs a, if there is one, and what comes after it. When a handler ends
// its goroutine, another one goes on in its place.
func (r *run) serve(a *attempt) {
	var next *attempt
	end := func(e ending) {
		next = r.finish(a, e)
		if e.exited && next != nil {
			go r.serve(next)
		}
	}
	for ; a != nil; a = next {
		call(&a.ctx, a.handler, a.handed, end)
	}
}

// call runs the handler of c and catches whatever it does. It calls end exactly
// once, in the same goroutine, also when the handler ends that goroutine.
func call(ctx context.Context, h *later.Handler, c *later.Claimed, end func(ending)) {
	e := ending{exited: true}
	defer func() {
		if value := recover(); value != nil {
			e = ending{panicked: true, value: value}
		}
		if e.panicked || e.exited {
			e.stack = stack()
		}
		e.cause = causeOf(ctx)
		end(e)
	}()
	err := h.Run(ctx, c)
	e = ending{err: err}
}

// nextJob takes a job that waits, and a slot for it. The lock is held.
func (r *run) nextJob(now time.Time) *attempt {
	for r.hasRoom() {
		a := r.shares.pick()
		if a == nil {
			return nil
		}
		if a.last {
			if q := r.shares.find(a.claimed.Queue); q != nil {
				q.pace.waited(now.Sub(a.claimedAt))
			}
		}
		switch {
		case !now.Before(a.leaseEnds):
			r.loseLease(a, "lease can no longer be shown to hold")
		case !a.claimed.ExpiresAt.IsZero() && !a.now().Before(a.claimed.ExpiresAt):
			r.unstarted(a, expired(a.claimed))
		default:
			r.begin(a, now)
			return a
		}
	}
	return nil
}

// begin takes a slot for a job whose handler is to be called now. The lock is
// held.
func (r *run) begin(a *attempt, now time.Time) {
	c := a.claimed
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = later.DefaultTimeout
	}
	a.stage, a.executing, a.slot = active, true, true
	a.startedAt = now
	a.ctx.values, a.ctx.deadline = r.values, now.Add(timeout)
	a.abandonAt = now.Add(addDuration(timeout, r.cfg.Grace))
	r.alarmBy(a.leaseEnds)
	r.alarmBy(a.abandonAt)
	r.busy++
	r.running++
	r.shares.occupy(c.Queue, 1)
	if a.suspect {
		r.suspects++
		if r.kindSlots.forgive() { // no other one is looked for now
			r.shares.refresh()
		}
	}
}

// finish takes the result of a handler that has come to its end, and returns
// the job that the goroutine runs next.
func (r *run) finish(a *attempt, e ending) *attempt {
	v := verdict{settlement: later.Settlement{Lease: a.lease(), Outcome: later.OutcomeDone}}
	if e.err != nil || e.panicked || e.exited || e.cause != nil || a.claimed.SettledMarks() > 0 {
		v = r.judge(a).safely(e)
	} // else that is what it would say, at a price
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	a.executing = false
	a.ctx.end(context.Canceled, now)
	if q := r.shares.find(a.claimed.Queue); q != nil {
		q.pace.ended(now.Sub(a.startedAt))
	}
	if a.abandoned {
		r.abandoned--
		r.kindSlots.abandon(a.claimed.Kind, -1)
	} else {
		r.running--
	}
	if a.stage == active {
		if r.debug() {
			r.log.Debug("job finished", a.attrs("outcome", v.settlement.Outcome)...)
		}
		r.toSettle(a, v)
	} else {
		r.log.Warn("late result of a handler ignored", a.attrs("outcome", v.settlement.Outcome)...)
		if a.stage == over {
			r.unlist(a)
		}
	}
	r.freeSlot(a)
	next := r.nextJob(now)
	r.poke()
	return next
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

// freeSlot gives up the attempt's slot, unless its handler or its hooks still
// need it. The lock is held.
func (r *run) freeSlot(a *attempt) {
	if a.slot && !a.executing && !a.hooks {
		a.slot = false
		r.busy--
		r.shares.occupy(a.claimed.Queue, -1)
		r.dropKind(a)
	}
}

// holdKind takes a place among the jobs of the attempt's kind. It returns false when
// there is none. The lock is held.
func (r *run) holdKind(a *attempt) bool {
	a.held = r.kindSlots.hold(a.claimed.Kind)
	return a.held
}

// dropKind gives up the attempt's place among the jobs of its kind. If there may be more
// of them, it is asked again at once. The lock is held.
func (r *run) dropKind(a *attempt) {
	if !a.held {
		return
	}
	a.held = false
	again, owed := r.kindSlots.drop(a.claimed.Kind)
	if again {
		r.shares.refresh()
	}
	if owed && !r.untilEmpty {
		// Else another kind's job might take the slot, and this kind have a
		// place too few for as long as that runs.
		r.reserved = 1
	}
}

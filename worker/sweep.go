package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/later-queue/later"
)

const (
	// sweepLimit is the most jobs that one sweep ends. A full sweep is followed
	// by another at once.
	sweepLimit = 100
	// crowdedPause is how long a sweep waits for results to be stored.
	crowdedPause = 100 * time.Millisecond
	// maintainEvery and beatEvery are chosen, not measured; the list of workers
	// is for people.
	maintainEvery = 10 * time.Minute
	beatEvery     = 15 * time.Second
	// upkeepBound is the longest that a beat or a leave may take.
	upkeepBound = 5 * time.Second
)

// sweepEvery follows the lease: what a sweep takes has lost one.
func (r *run) sweepEvery() time.Duration {
	return min(max(r.cfg.Lease/4, time.Second), 15*time.Second)
}

// sweepLoop ends the jobs that must not run any more, and runs suspects.
func (r *run) sweepLoop() {
	wait := time.Duration(rand.Float64() * float64(r.sweepEvery()))
	for r.sweepPause(wait) && !r.isStopping() {
		next := time.Now().Add(jitter(r.sweepEvery()))
		if r.isCrowded() {
			wait = crowdedPause
			continue
		}
		_, err := r.sweep()
		if err == nil {
			r.outages.works("sweep")
		} else if r.ops.Err() == nil {
			r.outages.fail("sweep", err)
		}
		// What it waited for a slot counts: while all slots are taken, ending
		// jobs goes on at the same rate.
		wait = time.Until(next)
		if err == nil && r.sweepFull {
			wait = 0
		}
	}
}

// sweepPause waits for d, or until a suspect has ended and the next may run, and
// meanwhile looks for suspects of kinds that had no room. It returns false when the run is over.
func (r *run) sweepPause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-r.wakeOwed:
			if err := r.sweepOwed(); err != nil && r.ops.Err() == nil {
				r.outages.fail("sweep", err)
			}
			continue
		case <-timer.C:
		case <-r.wakeSuspect:
		case <-r.ops.Done():
			return false
		}
		return true
	}
}

// endSuspect makes room for the next suspect. Where there was one there may be
// more: innocent bystanders come in numbers. The lock is held.
func (r *run) endSuspect(a *attempt) {
	if a.suspect {
		a.suspect = false
		r.suspects--
		wake(r.wakeSuspect)
	}
}

// sweep asks the store once for what claims leave, and returns how many jobs
// that were. Ending jobs needs no slot, so it goes on when all slots hang; for a
// suspect one slot is kept, which the claim loop leaves free as soon as it has
// one.
func (r *run) sweep() (found int, err error) {
	r.mu.Lock()
	suspect := r.suspects == 0 && !r.stopping
	if suspect {
		r.reserved = 1
	}
	hasSlot := suspect && r.hasSlot()
	r.mu.Unlock()
	found, err = r.sweepFor(hasSlot)
	// Those that are to be ended come first: they need no slot.
	if err == nil && !r.sweepFull && suspect && !hasSlot && r.waitForSlot() {
		var more int
		more, err = r.sweepFor(true)
		found += more
	}
	if suspect {
		r.endReserve()
	}
	return found, err
}

// sweepOwed asks for a suspect of the kinds that had no room at the latest sweep and
// have it now. Without that a kind whose claims take every place would keep its
// suspects waiting for ever.
func (r *run) sweepOwed() (err error) {
	r.mu.Lock()
	wanted := r.suspects == 0 && !r.stopping && r.kindSlots.isOwed()
	if wanted {
		r.reserved = 1
	}
	r.mu.Unlock()
	if wanted && r.waitForSlot() {
		r.mu.Lock()
		kinds := r.kindSlots.seekOwed()
		r.mu.Unlock()
		if len(kinds) > 0 {
			_, err = r.askSweep(kinds, true)
		}
	}
	if !wanted || err != nil {
		r.forgive() // the next sweep sees to them
	}
	r.endReserve()
	return err
}

// forgive has the claims keep no place for a suspect.
func (r *run) forgive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kindSlots.forgive() {
		r.shares.refresh()
	}
}

// endReserve has the claims leave no slot free any more.
func (r *run) endReserve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved = 0
	r.poke()
}

// isCrowded reports whether so many results wait to be stored, or hooks to return,
// that a sweep, which needs no slots, must not add to them.
func (r *run) isCrowded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outage || r.waiting() > sweepLimit+r.resultsMost() || r.hooking > sweepLimit+r.cfg.Concurrency
}

// isAway reports whether results cannot be stored at the moment.
func (r *run) isAway() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outage
}

// hasSlot reports whether a slot is free or kept for the sweep. The lock is held.
func (r *run) hasSlot() bool { return r.busy+r.claiming < r.cfg.Concurrency }

// waitForSlot waits, no longer than until the next sweep is due, for a slot
// that the claim loop leaves to the sweep.
func (r *run) waitForSlot() bool {
	timer := time.NewTimer(r.sweepEvery())
	defer timer.Stop()
	for {
		r.mu.Lock()
		has := r.hasSlot()
		r.mu.Unlock()
		if has {
			return true
		}
		select {
		case <-r.wakeSweep:
		case <-timer.C:
			return false
		case <-r.stopped:
			return false
		}
	}
}

// sweepFor asks for suspects of the kinds that have room, if at all.
func (r *run) sweepFor(suspect bool) (found int, err error) {
	kinds := r.kinds
	if suspect {
		r.mu.Lock()
		kinds = r.kindSlots.seek(r.kinds)
		r.mu.Unlock()
		if suspect = len(kinds) > 0; !suspect {
			kinds = r.kinds
		}
	}
	if found, err = r.askSweep(kinds, suspect); err != nil {
		r.forgive()
	}
	return found, err
}

func (r *run) askSweep(kinds []string, suspect bool) (found int, err error) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.kindSlots.found() {
			r.shares.refresh()
		}
	}()
	req := later.SweepRequest{
		Limit: r.sweepSize, Suspect: suspect, Kinds: kinds, Tenants: r.cfg.Tenants,
		Worker: r.id.name, Token: later.NewToken(), Lease: r.cfg.Lease,
	}
	for _, q := range r.cfg.Queues {
		req.Queues = append(req.Queues, q.Name)
	}
	leaseEnds := time.Now().Add(r.cfg.Lease)
	ctx, cancel := r.op(r.claimBound())
	jobs, err := r.store.Sweep(ctx, req)
	ended := ctx.Err()
	cancel()
	if err != nil {
		if errors.Is(ended, context.DeadlineExceeded) {
			r.sweepSize = max(1, req.Limit/2) // as for claims
		}
		return 0, err
	}
	r.counters.add(func(s *Stats) { s.Claimed += int64(len(jobs)) })
	r.take(jobs, origin{leaseEnds: leaseEnds, sweep: true})
	r.sweepFull = len(jobs) >= req.Limit
	r.sweepSize = min(2*req.Limit, sweepLimit)
	return len(jobs), nil
}

// maintain lets the store do its housekeeping.
func (r *run) maintain() {
	ctx, cancel := r.op(maintainEvery / 2)
	defer cancel()
	err := r.store.Maintain(ctx)
	if err == nil {
		r.outages.works("maintain")
	} else if r.ops.Err() == nil {
		r.outages.fail("maintain", err)
	}
}

// beatLoop beats until the worker leaves.
func (r *run) beatLoop() {
	defer close(r.beatsOver)
	r.beat()
	for pause(r.beats, jitter(beatEvery)) {
		r.beat()
	}
}

// beat shows people that this worker is alive.
func (r *run) beat() {
	info := later.WorkerInfo{
		Name: r.id.name, Host: r.id.host, PID: r.id.pid, Version: r.id.version,
		Kinds: r.kinds, Tenants: r.cfg.Tenants, Slots: r.cfg.Concurrency,
	}
	for _, q := range r.cfg.Queues {
		info.Queues = append(info.Queues, q.Name)
	}
	r.mu.Lock()
	info.Running = r.running
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.beats, upkeepBound)
	defer cancel()
	err := r.store.Beat(ctx, info)
	if err == nil {
		r.outages.works("beat")
	} else if r.beats.Err() == nil {
		r.outages.fail("beat", err)
	}
}

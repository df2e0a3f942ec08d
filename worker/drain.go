package worker

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/later-queue/later"
)

const (
	// loopsBound is how long the run waits for its loops after their operations
	// were cut off. A store that heeds its context takes none of it.
	loopsBound = 150 * time.Millisecond
	// leaveBound is the longest that saying goodbye may take.
	leaveBound = time.Second
)

// startSpread is the longest that Run waits before it first asks the store, so
// that workers that start together do not all connect and claim at once. Chosen:
// nobody sees it in a service that runs for days. Tests set it to 0.
var startSpread = 100 * time.Millisecond

// launch starts the loops. Nothing is claimed before the schema was checked.
func (r *run) launch() {
	r.log.Info("worker starts", "worker", r.id.name, "kinds", r.kinds, "slots", r.cfg.Concurrency)
	r.loops.Go(func() { r.settleLoop(&r.ordinary) })
	r.loops.Go(func() { r.settleLoop(&r.doubtful) })
	r.loops.Go(r.renewLoop)
	r.claims.Go(func() {
		if !r.spreadStart() || !r.checkSchema() {
			return
		}
		r.upkeep()
		r.claimLoop()
	})
}

// spreadStart returns false when the run was stopped meanwhile. A Drain does not
// wait: it is called for its result.
func (r *run) spreadStart() bool {
	if r.untilEmpty || startSpread == 0 {
		return true
	}
	timer := time.NewTimer(time.Duration(rand.Float64() * float64(min(startSpread, r.cfg.Poll))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.stopped:
		return false
	}
}

func (r *run) checkSchema() bool {
	for !r.isStopping() {
		ctx, cancel := r.op(settleBound)
		err := r.store.CheckSchema(ctx)
		cancel()
		if r.answered("check schema", err) {
			return true
		}
	}
	return false
}

// upkeep starts the loops beside the claims. A Drain sweeps when it runs out of
// jobs.
func (r *run) upkeep() {
	r.loops.Go(func() { r.every(jitter(r.cfg.Poll), r.cfg.Poll, r.watchCancels) })
	r.mu.Lock()
	r.hasBeats = true
	r.mu.Unlock()
	r.loops.Go(r.beatLoop)
	if r.untilEmpty {
		r.loops.Go(r.maintain)
		return
	}
	// Spread over the first seconds, so that workers that start together do
	// not all ask at once.
	r.loops.Go(r.sweepLoop)
	r.loops.Go(func() {
		r.every(time.Second+time.Duration(rand.Float64()*float64(10*time.Second)), maintainEvery, r.maintain)
	})
}

// drain ends the run: it is called after claiming has been stopped, and returns
// at the hard deadline or earlier.
func (r *run) drain() error {
	r.log.Info("worker drains", "worker", r.id.name)
	defer r.log.Info("worker stopped", "worker", r.id.name)
	claimed := make(chan struct{})
	go func() {
		r.claims.Wait()
		close(claimed)
		wake(r.wakeDrain)
	}()
	claimsOver := func() bool {
		select {
		case <-claimed:
			return true
		default:
			return false
		}
	}
	settled := func() bool { return claimsOver() && r.waiting()+r.hooking == 0 }
	returned := func() bool { return claimsOver() && r.running == 0 }

	if !r.await(func() bool { return r.running == 0 && settled() }, r.softDeadline) {
		r.interruptAll()
		r.await(returned, r.graceDeadline)
		r.releaseAll()
		r.await(settled, r.hardDeadline)
	}
	r.leave()
	r.endOps()
	r.endAlarm()
	over := make(chan struct{})
	go func() {
		r.claims.Wait()
		r.loops.Wait()
		close(over)
	}()
	timer := time.NewTimer(loopsBound)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	}
	r.err = r.leftovers()
	switch failure := r.cause(); {
	case failure != nil && r.err != nil:
		r.err = fmt.Errorf("%w; %w", failure, r.err)
	case failure != nil:
		r.err = failure
	}
	return r.err
}

func (r *run) endAlarm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alarm != nil {
		r.alarm.Stop()
	}
}

// await waits until cond, which is called under the lock, holds, and returns
// false when the deadline passed first. The deadline may be brought forward
// meanwhile.
func (r *run) await(cond func() bool, deadline func() time.Time) bool {
	for {
		r.mu.Lock()
		ok := cond()
		r.mu.Unlock()
		if ok {
			return true
		}
		timer := time.NewTimer(time.Until(deadline()))
		select {
		case <-r.wakeDrain:
			timer.Stop()
		case <-timer.C:
			if !time.Now().Before(deadline()) {
				return false
			}
		}
	}
}

func (r *run) softDeadline() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.soft
}

func (r *run) hardDeadline() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hard
}

// graceDeadline is half-way between the two: the other half is for storing.
func (r *run) graceDeadline() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.soft.Add(r.hard.Sub(r.soft) / 2)
}

// interruptAll ends the contexts of the handlers that still run.
func (r *run) interruptAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := r.attempts; a != nil; a = a.next {
		if a.stage == active {
			r.log.Warn("job is interrupted, its worker stops", a.attrs()...)
			r.interrupt(a, later.ErrShutdown)
		}
	}
}

// releaseAll gives back the jobs whose handlers do not return. One whose context
// had ended before, by its timeout for example, ends as that.
func (r *run) releaseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for a, after := r.attempts, (*attempt)(nil); a != nil; a = after {
		after = a.next
		if a.stage != active {
			continue
		}
		a.leaseEnds, a.abandonAt = time.Time{}, time.Time{}
		r.log.Error("handler does not return, its job is left to others", a.attrs()...)
		r.giveUp(a, a.ctx.ended(now))
	}
}

// leave takes the worker off the list of workers. It is not worth waiting for a
// database that is away.
func (r *run) leave() {
	left := min(time.Until(r.hardDeadline()), leaveBound)
	r.mu.Lock()
	listed := r.hasBeats
	r.mu.Unlock()
	if left <= 0 || !listed || r.isAway() {
		return
	}
	ctx, cancel := r.op(left)
	defer cancel()
	// A beat that came after the goodbye would put the worker on the list again.
	r.endBeats()
	select {
	case <-r.beatsOver:
	case <-ctx.Done():
	}
	if err := r.store.Leave(ctx, r.id.name); err != nil {
		r.log.Warn("worker could not be taken off the list", "worker", r.id.name, "err", err)
	}
}

// cause is why the run ended by itself, nil if it was told to.
func (r *run) cause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// leftovers returns a DrainError when handlers are left running or results
// unstored, else nil.
func (r *run) leftovers() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left DrainError
	for a := r.attempts; a != nil; a = a.next {
		if a.executing {
			left.Running = append(left.Running, LeftJob{ID: a.claimed.ID, Kind: a.claimed.Kind})
		}
		if a.stage == pending {
			left.Unsettled = append(left.Unsettled, LeftJob{ID: a.claimed.ID, Kind: a.claimed.Kind})
		}
	}
	if len(left.Running)+len(left.Unsettled) == 0 {
		return nil
	}
	for _, jobs := range [][]LeftJob{left.Running, left.Unsettled} {
		sort.Slice(jobs, func(i, j int) bool { return jobs[i].ID < jobs[j].ID })
	}
	return &left
}

package worker

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/later-queue/later"
)

const (
	// stillBusy is how long a worker has more to do than it has slots before it
	// says that wake-ups are of no use. Chosen: saying so and taking it back are
	// a statement each, which isolated short jobs must not cause.
	stillBusy = 20 * time.Millisecond
	// wakeSpacing is the most that is between two claims that follow wake-ups
	// for nothing, and half of it the least; the first few follow at once, and the last is
	// never left out. Chosen: ten or twenty empty claims a second do no harm.
	wakeSpacing = 100 * time.Millisecond
	// freeWakes is how many in a row may be for nothing before they are spaced.
	freeWakes = 2
	// heardPolls is how much rarer a worker polls that hears wake-ups: with it,
	// an idle worker asks the database less than once a second, all in all.
	heardPolls = 2
	// pollWaits is the part of Poll for which a poll waits for a job that is due: what a full limit
	// holds back is looked for each second, as is what nobody told of. Chosen, above the jitter.
	pollWaits = 4
)

// waiter says when the next claim is to be made. Only the claim loop uses it.
//
// A worker that finds less than it has slots for waits for whichever comes
// first: a wake-up, the moment the next job is due (of those that the store
// names, and those that this worker has put off itself), and the poll, which
// finds what the others miss. Before it waits it says so and asks once more, so
// that nothing that is enqueued in between is missed.
type waiter struct {
	r     *run
	timer *time.Timer

	watch later.Watch // nil: the store has none
	wakes <-chan struct{}
	told  bool // the store knows that this worker waits
	heard bool // and wakes it
	// sayAfter is when it is tried to tell it again after that failed.
	sayAfter time.Time

	pollAt    time.Time
	polls     int
	busySince time.Time // when there was more to do than slots; zero: not now

	pending   bool // a wake-up has come that no claim has followed
	useless   int  // how many in a row were for nothing
	wakeAfter time.Time

	due     time.Time // when the next job is due, zero if none is known
	ask     bool      // that is to be asked
	askAt   time.Time // or at that time, zero if not
	askedAt time.Time
	idleDue int       // how many claims in a row found nothing that was due
	again   time.Time // it is not asked before

	why reason // of the claim that is made now
}

// reason is why a claim is made.
type reason int

const (
	more reason = iota // there was more the last time
	byWake
	byDue
	byPoll
)

func (r *run) newWaiter() *waiter {
	w := &waiter{r: r, timer: time.NewTimer(time.Hour), ask: true, why: byPoll}
	if r.hears() {
		queues := make([]string, len(r.cfg.Queues))
		for i, q := range r.cfg.Queues {
			queues[i] = q.Name
		}
		w.watch = r.store.(later.Waker).Watch(r.id.name, queues)
		w.wakes = w.watch.Wakes()
	}
	w.pollAt = time.Now().Add(jitter(r.cfg.Poll))
	return w
}

// close ends the watch. Nobody wakes a worker that has stopped to claim, and the
// drain does not wait for it.
func (w *waiter) close() {
	w.timer.Stop()
	if w.watch != nil {
		w.r.loops.Go(w.watch.Close)
	}
}

// wait returns true when a claim may find work, and false when there are to be
// no more claims. After a claim that came back full it returns as soon as
// another is worthwhile.
func (w *waiter) wait() bool {
	r := w.r
	for {
		r.mu.Lock()
		ready := r.wantsClaim()
		stopping := r.stopping
		idle := !ready && r.idle()
		if r.untilEmpty && idle && r.touched {
			// Jobs may have made jobs, and a store may have passed over some.
			r.touched, r.thorough = false, true
			r.shares.refresh()
			ready, idle = true, false
		}
		free := r.free() > 0
		known := r.shares.anyMore()
		r.full = !free
		r.mu.Unlock()
		if stopping {
			return false
		}
		if ready {
			w.sayBusy()
			return true
		}
		if r.untilEmpty && idle {
			found, err := r.sweep()
			if r.answered("sweep", err) && found == 0 {
				r.endEmpty()
				return false
			}
			continue
		}
		if free && !known && w.settleDown() {
			continue
		}
		if !w.sleep(free && !known) {
			return false
		}
	}
}

// settleDown does what comes before the sleep of a worker that has free slots
// and has found nothing for them. It returns true when it is to look again.
func (w *waiter) settleDown() bool {
	w.busySince = time.Time{}
	if w.r.untilEmpty {
		return false
	}
	if w.watch != nil && !w.told && !time.Now().Before(w.sayAfter) && w.say() {
		w.refresh(w.why)
		return true
	}
	now := time.Now()
	timely := !w.askAt.IsZero() && !now.Before(w.askAt)
	if (w.ask || timely) && !now.Before(w.again) {
		w.askDue()
	}
	return false
}

// say tells the store that this worker waits. It returns false when the store
// could not be told: then the next poll tries again.
func (w *waiter) say() bool {
	ctx, cancel := w.r.op(w.r.claimBound())
	defer cancel()
	heard, err := w.watch.Waiting(ctx)
	w.told, w.heard = err == nil, err == nil && heard
	if err == nil {
		w.r.outages.works("wait")
	} else if w.r.ops.Err() == nil {
		w.r.outages.fail("wait", err)
		w.sayAfter = time.Now().Add(w.r.cfg.Poll / 2)
	}
	return w.told
}

// sayBusy tells the store that wake-ups are of no use, after that has been so
// for a while.
func (w *waiter) sayBusy() {
	if w.told && !w.busySince.IsZero() && time.Since(w.busySince) >= stillBusy {
		w.told = false
		w.watch.Busy()
	}
}

// claimed learns from a claim.
func (w *waiter) claimed(got result) {
	if !got.ok {
		return
	}
	now, found := time.Now(), got.found
	why := w.why
	w.why = more
	if got.limited {
		w.ask = true // when the limit lets the next one go
	}
	if found > 0 {
		w.useless, w.wakeAfter = 0, time.Time{}
		if w.busySince.IsZero() {
			w.busySince = now
		}
	}
	switch why {
	case more:
		return
	case byWake:
		if found == 0 {
			// Nothing after the first two, because stores look once more by
			// themselves, and what comes then is not to wait for it; then 6, 12,
			// 25, 50 and from there on 100 ms, each by up to half less: many
			// workers may have had the same wake-up.
			w.useless++
			if w.useless > freeWakes {
				space := wakeSpacing >> max(0, 5-(w.useless-freeWakes))
				w.wakeAfter = now.Add(space - time.Duration(rand.Float64()*float64(space)/2))
			}
			w.ask = true // it was for a job that is due later, it seems
		}
	case byDue:
		w.ask = true
		switch {
		case found == 0:
			w.idleDue++
		case got.limited:
			w.again = now // it was in time, and the next may be due in less than dueSpacing
			fallthrough
		default:
			w.idleDue = 0
		}
	}
	w.pending = false // all queues have been asked since it came
	if found > 0 && w.askAt.IsZero() {
		w.askAt = now.Add(dueAfterJobs)
	}
	w.pollAt = now.Add(w.pollEvery()) // all queues have been asked
}

func (w *waiter) pollEvery() time.Duration {
	if w.told && w.heard {
		return jitter(heardPolls * w.r.cfg.Poll)
	}
	return jitter(w.r.cfg.Poll)
}

// refresh has all queues asked again.
func (w *waiter) refresh(why reason) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.shares.refresh()
	w.why = why
}

// sleep waits until there may be something to do. It returns false when the run
// was stopped.
func (w *waiter) sleep(idle bool) bool {
	r := w.r
	until := w.pollAt
	if w.due.After(until) && w.due.Sub(until) <= w.r.cfg.Poll/pollWaits {
		until = w.due // one claim does for both
	}
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(until) {
			until = t
		}
	}
	r.mu.Lock()
	own := r.ownDue
	r.mu.Unlock()
	wakes := w.wakes
	if r.untilEmpty {
		own = time.Time{}
	} else {
		sooner(own)
		sooner(w.due)
	}
	switch {
	case !idle:
		wakes = nil
		if w.told && !w.busySince.IsZero() {
			sooner(w.busySince.Add(stillBusy))
		}
	case w.pending:
		wakes = nil
		if w.wakeAfter.IsZero() { // a claim has found jobs since then
			until = time.Now()
		}
		sooner(w.wakeAfter)
	}
	switch {
	case r.untilEmpty || !idle:
	case w.ask:
		sooner(w.again)
	case !w.askAt.IsZero():
		sooner(w.askAt)
	case w.told && w.heard:
		sooner(w.askedAt.Add(dueAgain))
	}
	w.timer.Reset(time.Until(until))
	select {
	case <-r.wakeClaim:
		// Short jobs that are about to end may come along: without this a claim
		// for a single slot would often be under way when the others end.
		runtime.Gosched()
		return true
	case <-wakes:
		w.pending = true
	case <-w.timer.C:
	case <-r.stopped:
		return false
	}
	w.act(time.Now(), idle, own)
	return true
}

// act does what the end of a sleep calls for.
func (w *waiter) act(now time.Time, idle bool, own time.Time) {
	passed := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if w.pending && !now.Before(w.wakeAfter) {
		w.pending = false
		if w.told {
			w.say() // whether it is heard may be what has changed
		}
		w.refresh(byWake)
	}
	if passed(own) || passed(w.due) {
		w.r.mu.Lock()
		if passed(w.r.ownDue) {
			w.r.ownDue = time.Time{}
		}
		w.r.mu.Unlock()
		if passed(w.due) {
			// The claim that follows may be counted as the poll's.
			w.due, w.ask = time.Time{}, true
		}
		w.refresh(byDue)
	}
	if passed(w.pollAt) {
		w.pollAt = now.Add(w.pollEvery())
		if w.polls++; w.polls%duePolls == 0 && !(w.told && w.heard) {
			w.ask = true
		}
		if w.watch != nil && idle && !now.Before(w.sayAfter) {
			w.say()
		}
		w.refresh(byPoll)
	}
	if idle && w.told && w.heard && passed(w.askedAt.Add(dueAgain)) {
		w.ask = true
	}
	if !idle {
		w.sayBusy()
	}
}

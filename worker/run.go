package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// run is one Run or Drain of a Worker, from its start to its end.
type run struct {
	cfg      Config
	id       identity
	store    later.Store
	handlers *later.Handlers
	kinds    []string
	log      *slog.Logger
	counters *counters
	outages  *outages

	// untilEmpty: end when no job is due any more (Drain).
	untilEmpty bool
	// sinceLowest are the claims that found jobs since one that began at the lowest priority
	// did; the claim loop's own.
	sinceLowest int

	// values are the context values of Run's caller, without its end.
	values context.Context
	// ops ends when nothing may be asked of the store any more; all loops end
	// with it.
	ops    context.Context
	endOps context.CancelFunc
	loops  sync.WaitGroup
	// beats ends before the worker leaves the list of workers; beatsOver is
	// closed when no more beat can come; hasBeats says that there were any.
	beats     context.Context
	endBeats  context.CancelFunc
	beatsOver chan struct{}
	hasBeats  bool
	// claims is the loop that claims. It ends as soon as the run is stopped and
	// the claim under way has its answer.
	claims sync.WaitGroup

	// stopped is closed when no more jobs are to be claimed.
	stopped chan struct{}
	// done is closed when the run is over and err is set.
	done chan struct{}
	err  error

	// Each wakes the one loop that it is named after.
	wakeClaim, wakeSweep, wakeDrain, wakeSuspect, wakeOwed chan struct{}

	mu       sync.Mutex
	stopping bool
	soft     time.Time // running handlers are interrupted
	hard     time.Time // everything is over
	failure  error     // why the run ends by itself
	empty    bool      // a Drain found no more work
	lastErr  error     // of the latest claim, nil when it worked

	// attempts is a list of those that are not over, or whose handlers have not
	// returned.
	attempts  *attempt
	shares    *shares
	kindSlots kindSlots
	starting  bool // a goroutine for the next job is on its way
	alarm     *time.Timer
	alarmAt   time.Time
	busy      int // slots taken: by handlers, and by hooks
	claiming  int // slots that the claim under way may fill
	reserved  int // slots kept for a suspect
	running   int // handlers that run, without abandoned ones
	abandoned int
	suspects  int
	hooking   int  // calls of hooks under way
	touched   bool // a job was started since it was last looked at
	thorough  bool // the next claim is to look at everything
	// full says that the claim loop waits for a free slot, ownDue when the
	// first of the jobs that this worker has put off is due.
	full   bool
	ownDue time.Time
	// claimLimit is how many jobs a claim may ask for at the moment.
	claimLimit int
	// unanswered are claims that failed lately; the claim loop's own.
	unanswered []unansweredClaim
	// sweepSize is the same for a sweep, and sweepFull says that the latest one
	// got as many. They belong to the loop that sweeps.
	sweepSize int
	sweepFull bool

	ordinary backlog // of results to be settled
	doubtful backlog
	outage   bool // the last settle had no answer
}

func newRun(w *Worker, values context.Context, untilEmpty bool) *run {
	log := w.cfg.Logger
	r := &run{
		cfg: w.cfg, id: w.id, store: w.store, handlers: w.handlers, kinds: w.handlers.Kinds(),
		log: log, counters: &w.counters, outages: &outages{log: log},
		untilEmpty: untilEmpty, values: values, touched: true,
		stopped: make(chan struct{}), done: make(chan struct{}),
		wakeClaim: make(chan struct{}, 1), wakeSweep: make(chan struct{}, 1), wakeDrain: make(chan struct{}, 1),
		wakeSuspect: make(chan struct{}, 1), wakeOwed: make(chan struct{}, 1),
		ordinary: backlog{wake: make(chan struct{}, 1)}, doubtful: backlog{wake: make(chan struct{}, 1)},
		shares: newShares(w.cfg.Queues, w.cfg.Concurrency), claimLimit: w.cfg.Concurrency, sweepSize: sweepLimit, beatsOver: make(chan struct{}),
	}
	r.kindSlots = newKindSlots(w.cfg.KindSlots, r.kinds)
	r.ops, r.endOps = context.WithCancel(values)
	r.beats, r.endBeats = context.WithCancel(r.ops)
	return r
}

// poke starts what may start, and wakes the loops for which there is something
// to do. It is called after whatever ends or brings jobs; a loop is not woken
// for each of them. The lock is held.
func (r *run) poke() {
	r.dispatch()
	if r.stopping || r.full && r.free() > 0 || r.wantsClaim() || r.untilEmpty && r.idle() {
		wake(r.wakeClaim)
	}
	if r.reserved > 0 {
		wake(r.wakeSweep)
	}
	if r.kindSlots.isOwed() {
		wake(r.wakeOwed)
	}
	if r.stopping {
		wake(r.wakeDrain)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake already
	}
}

// free is how many slots jobs may be claimed for: those that wait for one are
// not counted here. The lock is held.
func (r *run) free() int {
	return r.kindSlots.total(max(0, r.cfg.Concurrency-r.busy-r.claiming-r.reserved-r.surplus()))
}

// mayGoAhead reports whether jobs may be claimed for which no slot is free. The
// lock is held.
func (r *run) mayGoAhead() bool {
	return !r.outage && r.surplus() == 0 && r.kindSlots.total(1) > 0
}

// wantsClaim reports whether a claim is worthwhile. The lock is held.
func (r *run) wantsClaim() bool { return r.shares.wants(r.free(), r.mayGoAhead()) }

// idle reports whether nothing runs or waits. Abandoned handlers may never
// return, and have no results to wait for. The lock is held.
func (r *run) idle() bool {
	return r.busy-r.abandoned+r.hooking+r.waiting()+r.shares.inLine == 0
}

// hears reports whether the store wakes this run when there is something to claim. A
// Drain has no use for what comes later, and does not listen.
func (r *run) hears() bool {
	_, wakes := r.store.(later.Waker)
	return wakes && !r.untilEmpty
}

// op bounds one statement, so that a connection that hangs is given up in time
// to try again within the lease.
func (r *run) op(bound time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.ops, bound)
}

// stop makes the run end: no more claims, running handlers interrupted at soft,
// everything over at hard. Each call can only bring these forward.
func (r *run) stop(soft, hard time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopLocked(soft, hard)
}

func (r *run) stopLocked(soft, hard time.Time) {
	if r.soft.IsZero() || soft.Before(r.soft) {
		r.soft = soft
	}
	if r.hard.IsZero() || hard.Before(r.hard) {
		r.hard = hard
	}
	if !r.stopping {
		r.stopping = true
		close(r.stopped)
		wake(r.ordinary.wake)
		wake(r.doubtful.wake)
		for a := r.attempts; a != nil; a = a.next {
			if a.stage == queued { // nobody has seen it
				r.unstarted(a, later.Settlement{Outcome: later.OutcomeReleased})
			}
		}
	}
	r.poke()
}

// fail ends the run because of err.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(err)
}

func (r *run) failLocked(err error) {
	if r.failure == nil && !r.stopping {
		r.failure = err
	}
	soft := time.Now().Add(r.cfg.DrainTimeout)
	r.stopLocked(soft, soft.Add(DrainReserve))
}

// lastClaim returns whether a Drain found no more work, and the error of the
// latest claim.
func (r *run) lastClaim() (empty bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.empty, r.lastErr
}

// isStopping reports whether claiming is over.
func (r *run) isStopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping
}

// every calls f about every d until the run ends, the first time after first.
func (r *run) every(first, d time.Duration, f func()) {
	for wait := first; pause(r.ops, wait); wait = jitter(d) {
		f()
	}
}

// jitter spreads d by ±10%.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// stopSlack is what an immediate stop takes: releasing the jobs is worth that
// much. Chosen, not measured.
const stopSlack = 300 * time.Millisecond

// Worker claims jobs and runs their handlers. Its methods are safe for
// concurrent use.
type Worker struct {
	cfg      Config
	id       identity
	store    later.Store
	handlers *later.Handlers
	counters counters

	mu      sync.Mutex
	current *run
	stopped bool
}

// New returns a worker that runs the jobs of store's queues whose kinds have
// handlers. It does not touch the store. It returns an error when there are no
// handlers, when a value of cfg is out of range, or when cfg names a kind without a handler.
func New(store later.Store, handlers *later.Handlers, cfg Config) (*Worker, error) {
	if store == nil {
		return nil, errors.New("worker: store is nil")
	}
	if handlers == nil || len(handlers.Kinds()) == 0 {
		return nil, errors.New("worker: no handlers are registered, so there is nothing to run")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := cfg.checkKinds(handlers.Kinds()); err != nil {
		return nil, err
	}
	id, err := newIdentity(cfg.Name, cfg.Version)
	if err != nil {
		return nil, err
	}
	return &Worker{cfg: cfg, id: id, store: store, handlers: handlers}, nil
}

// Name returns the worker's unique name, as it is in leases and logs.
func (w *Worker) Name() string { return w.id.name }

// Run claims and runs jobs until ctx is cancelled, Stop is called, or going on
// is pointless. Then it drains: it claims no more, lets the running jobs go on
// for Config.DrainTimeout, interrupts those that remain, and returns after
// everything that was claimed has been stored or given back, at most
// DrainReserve later.
//
// It returns nil when no handler was left running and no result unstored; a
// [DrainError] when there were; [ErrStuck] when abandoned handlers held all
// slots; and an error that matches [later.ErrSchema] or [later.ErrClosed] when
// the store cannot be worked with. A database that is away is none of these: Run
// waits for it. Once Stop has been called, Run returns nil at once.
//
// The values of ctx are visible to the handlers; its end and its deadline are
// not.
func (w *Worker) Run(ctx context.Context) error {
	r, err := w.begin(ctx, false)
	if r == nil {
		return err
	}
	defer w.finish(r)
	r.launch()
	select {
	case <-ctx.Done():
		r.stop(w.drainTimes(context.Background()))
	case <-r.stopped:
	}
	return r.drain()
}

// Stop ends Run or Drain from another goroutine, and waits for it. The deadline
// of ctx is the one bound of everything; the last part of it, DrainReserve or
// half of it, is kept for interrupting the handlers and storing what became of
// the jobs. Without a deadline Config.DrainTimeout applies. When ctx is
// cancelled, handlers are interrupted and their jobs released at once.
//
// It returns what Run returns. A handler that ignores its context does not keep
// it: then the error is a [DrainError] that names the job. Stop may be called
// several times; before Run, it makes Run return at once.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	w.stopped = true
	r := w.current
	w.mu.Unlock()
	if r == nil {
		return nil
	}
	r.stop(w.drainTimes(ctx))
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	now := time.Now()
	r.stop(now, now.Add(stopSlack))
	timer := time.NewTimer(stopSlack + loopsBound)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.err
	case <-timer.C:
		return r.leftovers()
	}
}

// Drain runs jobs until none is due, and returns what it did: for functions on a
// cron trigger, and for tests. Jobs that its jobs make are run too; jobs that
// become due later, retries for example, are not waited for, nor are those that
// a pause, or a limit whose places or starts others have, holds back.
//
// A deadline of ctx is the budget: claiming ends early enough that handlers get
// a tenth of it, at most 5 s, to finish, and the last DrainReserve, or a quarter
// of it, is kept for interrupting them and for storing what became of the jobs.
// Cancelling ctx ends Drain as it ends Run. Summary.Empty tells whether
// everything was done.
//
// A handler that never returns does not keep it: once its job's timeout and
// Config.Grace have passed it is abandoned, and Drain ends without it, with a
// [DrainError] that names the job.
//
// Its errors are those of Run, and that of the store when the time was over
// while it did not answer. After Stop it does nothing.
func (w *Worker) Drain(ctx context.Context) (Summary, error) {
	before := w.counters.snapshot()
	r, err := w.begin(ctx, true)
	if r == nil {
		return Summary{Outcomes: map[later.Outcome]int64{}}, err
	}
	defer w.finish(r)
	soft, hard := w.drainTimes(context.Background())
	claimsEnd := time.NewTimer(time.Hour)
	defer claimsEnd.Stop()
	if deadline, ok := ctx.Deadline(); ok {
		budget := time.Until(deadline)
		hard = deadline
		soft = hard.Add(-min(DrainReserve, budget/4))
		claimsEnd.Reset(time.Until(soft) - min(budget/10, 5*time.Second))
	} else {
		claimsEnd.Stop()
	}
	r.launch()
	select {
	case <-claimsEnd.C:
		r.stop(soft, hard)
	case <-ctx.Done():
		if _, ok := ctx.Deadline(); !ok {
			soft, hard = w.drainTimes(context.Background())
		}
		r.stop(soft, hard)
	case <-r.stopped:
		// It ended by itself, with times of its own: the deadline holds for
		// them too.
		if _, ok := ctx.Deadline(); ok {
			r.stop(soft, hard)
		}
	}
	err = r.drain()
	sum := w.counters.snapshot().since(before)
	empty, lastErr := r.lastClaim()
	sum.Empty = empty
	if err == nil && !empty && lastErr != nil {
		err = fmt.Errorf("drain: %w", lastErr)
	}
	return sum, err
}

// Stats returns a snapshot of what the worker does and has done.
func (w *Worker) Stats() Stats {
	s := w.counters.snapshot()
	s.Name, s.Slots = w.id.name, w.cfg.Concurrency
	w.mu.Lock()
	r := w.current
	w.mu.Unlock()
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.Running, s.Waiting, s.Abandoned, s.Pending = r.running, r.shares.inLine, r.abandoned, r.waiting()
	}
	return s
}

// begin makes a run the current one. It returns none when the worker has been
// stopped, and ErrBusy when another is under way.
func (w *Worker) begin(ctx context.Context, untilEmpty bool) (*run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || ctx.Err() != nil {
		return nil, nil
	}
	if w.current != nil {
		return nil, ErrBusy
	}
	r := newRun(w, context.WithoutCancel(ctx), untilEmpty)
	w.current = r
	return r, nil
}

func (w *Worker) finish(r *run) {
	w.mu.Lock()
	w.current = nil
	w.mu.Unlock()
	close(r.done)
}

// drainTimes returns when running handlers are interrupted, and when everything
// is over.
func (w *Worker) drainTimes(ctx context.Context) (soft, hard time.Time) {
	now := time.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		soft = now.Add(w.cfg.DrainTimeout)
		return soft, soft.Add(DrainReserve)
	}
	return deadline.Add(-min(DrainReserve, max(0, deadline.Sub(now)/2))), deadline
}

// Package bench measures Later on a user's own database: how fast jobs are
// enqueued and done, how soon they start, and what that costs.
//
// It works in a place of its own (a Postgres schema, a folder with an SQLite
// file), which it removes at the end, and touches nothing else. Everything goes
// through the store and the worker as a user's program has them; only the
// counters are read past them.
package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/later-queue/later"
)

// ErrRefused is matched by the error of a run that was not begun, because the
// database or its machine does not allow it: no rights, a standby, too little
// room. Nothing was changed.
var ErrRefused = errors.New("cannot run the benchmark here")

// ErrTimeout is matched by the error of a run that has taken as long as its Config
// allows.
var ErrTimeout = errors.New("the time of --timeout is over")

// removeTimeout bounds the removal of what a run has made, which goes on after
// the run was interrupted. Chosen: dropping a schema of 100 million rows takes a
// few seconds.
const removeTimeout = time.Minute

// Step is what a run does at the moment.
type Step struct {
	Name  string // a few words
	Phase Phase  // empty: it prepares, and nothing is measured
	// Done and Total are jobs; Total 0 means that nothing can be counted.
	Done, Total int64
	// Result is set when a phase has just ended.
	Result *Result
}

// bench is one run.
type bench struct {
	cfg    Config
	place  place
	work   work
	report *Report
	// release ends the held snapshot; nil while none is held.
	release func() error
	// left says that jobs may be in the table which no phase has to do with.
	left bool
}

// Run measures what cfg says. Once it has begun it returns a report, also with an
// error: Complete is then false, and the phases are those that had ended. What it
// made in the database is removed in any case, unless Removed says otherwise.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("%w, after %v", ErrTimeout, cfg.Timeout))
	defer cancel()
	p, err := enter(ctx, cfg)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	b := &bench{cfg: cfg, place: p, work: newWork(cfg), report: newReport(cfg)}
	err = causeOf(ctx, b.run(ctx))
	b.report.Complete = err == nil
	b.report.warnOfOthers()
	left := notRemoved(p, b.remove(ctx))
	b.report.Removed = left == nil
	if left != nil {
		b.report.warn("%s could not be removed: later bench --clean does it", p.name())
	}
	return b.report, errors.Join(err, left)
}

// notRemoved is the error of a removal that failed, which names what is left.
func notRemoved(p place, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("remove %s: %w", p.name(), err)
}

// causeOf says why ctx has ended, if that is why err came.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func (b *bench) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	b.step(Step{Name: "removing " + b.place.name()})
	var err error
	if b.release != nil {
		err = b.release()
	}
	return errors.Join(err, b.place.leave(ctx))
}

// run goes through the phases, always in the same order.
func (b *bench) run(ctx context.Context) error {
	if err := b.place.describe(ctx, b.report); err != nil {
		return err
	}
	if err := b.fill(ctx); err != nil {
		return err
	}
	wants := b.cfg.wants
	if wants(Bulk) || wants(Drain) {
		if err := b.bulk(ctx, true); err != nil {
			return err
		}
	}
	if wants(Drain) {
		if err := b.drain(ctx, Drain); err != nil {
			return err
		}
	}
	if b.cfg.HoldSnapshot {
		if err := b.hold(ctx); err != nil {
			return err
		}
	}
	if b.cfg.HoldSnapshot && wants(Drain) {
		if err := b.bulk(ctx, false); err != nil {
			return err
		}
		if err := b.drain(ctx, DrainHeld); err != nil {
			return err
		}
	}
	for _, phase := range []struct {
		name Phase
		run  func(context.Context) error
	}{{Singles, b.singles}, {Steady, b.steady}, {Trickle, b.trickle}} {
		if !wants(phase.name) {
			continue
		}
		if err := b.clear(ctx); err != nil {
			return err
		}
		if err := phase.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	return nil
}

func (b *bench) hold(ctx context.Context) error {
	b.step(Step{Name: "holding a snapshot from now on"})
	release, err := b.place.hold(ctx)
	if err != nil {
		return fmt.Errorf("hold a snapshot: %w", err)
	}
	b.release = release
	return nil
}

func (b *bench) step(s Step) {
	if b.cfg.Progress != nil {
		b.cfg.Progress(s)
	}
}

// store is a store as a user's program has it.
type store interface {
	later.Store
	Enqueue(ctx context.Context, args later.Args, opts later.Options) (later.Enqueued, error)
	EnqueueMany(ctx context.Context, requests []later.Request) ([]later.Enqueued, error)
}

// place is room for a run in a database.
type place interface {
	// name is what a person would call it.
	name() string
	// describe adds what is known of the database to the report.
	describe(ctx context.Context, r *Report) error
	// store opens a further store, with connections of its own, as another
	// process would.
	store(ctx context.Context) (store, error)
	// read reads the counters. All stores are to be closed before, so that
	// what they did has been counted.
	read(ctx context.Context) (reading, error)
	// ping returns an error when the database is gone.
	ping(ctx context.Context) error
	// remaining counts the run's own jobs that are due and not done.
	remaining(ctx context.Context) (int64, error)
	// hold begins a transaction that sees the database as it is now, and
	// keeps it until release is called.
	hold(ctx context.Context) (release func() error, err error)
	// leave removes it.
	leave(ctx context.Context) error
}

// quiet is a logger for what only disturbs here.
func quiet(log *slog.Logger) *slog.Logger {
	if log != nil {
		return log
	}
	return slog.New(slog.DiscardHandler)
}

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// fleet is the workers of a phase, each with a store of its own.
type fleet struct {
	workers []*worker.Worker
	stores  []store
	end     context.CancelFunc
	running sync.WaitGroup
	failed  chan error // the first worker that ended by itself
}

// prepare opens the stores, so that what is measured begins with connections
// that can be made. The handlers do nothing but note their start in l.
func (b *bench) prepare(ctx context.Context, l *ledger) (*fleet, error) {
	f := &fleet{end: func() {}, failed: make(chan error, b.cfg.Workers)}
	handlers := later.NewHandlers()
	for n := range b.cfg.Kinds {
		later.HandleRaw(handlers, b.work.kind(n), later.HandlerConfig{}, func(_ context.Context, job *later.Job[json.RawMessage]) error {
			l.start(seqOf(job.Payload))
			return nil
		})
	}
	for range b.cfg.Workers {
		store, err := b.place.store(ctx)
		if err != nil {
			return nil, errors.Join(err, f.stop())
		}
		f.stores = append(f.stores, store)
		w, err := worker.New(store, handlers, worker.Config{Concurrency: b.cfg.Concurrency, Logger: b.cfg.Logger})
		if err != nil {
			return nil, errors.Join(err, f.stop())
		}
		f.workers = append(f.workers, w)
	}
	return f, nil
}

// start starts the workers.
func (f *fleet) start(ctx context.Context) {
	ctx, f.end = context.WithCancel(ctx)
	for _, w := range f.workers {
		f.running.Go(func() {
			if err := w.Run(ctx); err != nil {
				f.failed <- fmt.Errorf("worker: %w", err)
			}
		})
	}
}

// done counts the jobs that were done and of which that is committed.
func (f *fleet) done() int64 {
	var n int64
	for _, w := range f.workers {
		n += w.Stats().Outcomes[later.OutcomeDone]
	}
	return n
}

// look is how often the workers are asked how far they are. Chosen: it costs a
// lock, and is exact enough for phases that take seconds.
const look = 2 * time.Millisecond

// pingEvery is how often the database is asked whether it is there while workers
// run. Workers outlive a database that goes away; a benchmark is void then.
const pingEvery = time.Second

// wait waits until n jobs are done, and tells the progress.
func (b *bench) wait(ctx context.Context, f *fleet, n int64, s Step) error {
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	pings := time.NewTicker(pingEvery)
	defer pings.Stop()
	for meter := (meter{b: b, step: s}); ; {
		done := f.done()
		meter.at(done)
		if done >= n {
			return nil
		}
		select {
		case <-ticks.C:
		case <-pings.C:
			if err := b.place.ping(ctx); err != nil {
				return fmt.Errorf("%d of %d jobs were done: %w", done, n, err)
			}
		case err := <-f.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs were done: %w", done, n, ctx.Err())
		}
	}
}

// stop ends the workers and closes their stores; a second call does nothing.
func (f *fleet) stop() error {
	f.end()
	f.running.Wait()
	var errs []error
	select {
	case err := <-f.failed:
		errs = append(errs, err)
	default:
	}
	for _, store := range f.stores {
		errs = append(errs, store.Close())
	}
	f.stores = nil
	return errors.Join(errs...)
}

// meter tells how far a step is, not too often.
type meter struct {
	b    *bench
	step Step
	told time.Time
}

// progressEvery is how often a step tells how far it is. Chosen: a person sees it
// move.
const progressEvery = 100 * time.Millisecond

func (m *meter) at(done int64) {
	if now := time.Now(); now.Sub(m.told) >= progressEvery || done == m.step.Total && done > 0 {
		m.told = now
		m.step.Done = done
		m.b.step(m.step)
	}
}

package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// maxProducing is how many calls of Enqueue Steady has under way at most. Chosen:
// a web process with as many requests at once.
const maxProducing = 64

// steady enqueues jobs one by one at a fixed rate while the workers run. The rate
// does not give way when the database is slow, up to maxProducing calls at once, so that a
// stall shows in all jobs that fall into it.
func (b *bench) steady(ctx context.Context) error {
	jobs := max(1, int(float64(b.cfg.Rate)*b.cfg.For.Seconds()))
	return b.flow(ctx, Steady, jobs, func(ctx context.Context, enqueue func(seq int) error) error {
		work := make(chan int)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var producers sync.WaitGroup
		for range maxProducing {
			producers.Go(func() {
				for seq := range work {
					if err := enqueue(seq); err != nil {
						cancel(err)
					}
				}
			})
		}
		begin := time.Now()
		for seq := 0; seq < jobs && ctx.Err() == nil; seq++ {
			due := begin.Add(time.Duration(float64(seq) / float64(b.cfg.Rate) * float64(time.Second)))
			if pause(ctx, time.Until(due)) != nil {
				break
			}
			select {
			case work <- seq:
			case <-ctx.Done():
			}
		}
		close(work)
		producers.Wait()
		return context.Cause(ctx)
	})
}

// trickle enqueues one job at a time into a system that has nothing else to do.
func (b *bench) trickle(ctx context.Context) error {
	jobs := max(1, int(b.cfg.For/TrickleEvery))
	return b.flow(ctx, Trickle, jobs, func(ctx context.Context, enqueue func(seq int) error) error {
		for seq := range jobs {
			begin := time.Now()
			if err := enqueue(seq); err != nil {
				return err
			}
			if err := pause(ctx, TrickleEvery-time.Since(begin)); err != nil {
				return err
			}
		}
		return nil
	})
}

// warmup is how long the workers of flow have to become idle before the first job.
// Chosen: longer than the first looks of a worker, shorter than anybody minds.
const warmup = time.Second

// flow measures jobs that produce enqueues one by one while the workers run.
func (b *bench) flow(ctx context.Context, name Phase, jobs int, produce func(ctx context.Context, enqueue func(seq int) error) error) error {
	err := b.measure(ctx, name, func(r *Result) (err error) {
		l := newLedger(jobs, true)
		f, err := b.prepare(ctx, l)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.stop()) }()
		store, err := b.place.store(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		f.start(ctx)
		b.step(Step{Name: string(name), Phase: name, Total: int64(jobs)})
		if err := pause(ctx, warmup); err != nil {
			return err
		}
		var enqueued atomic.Int64
		var producing sync.WaitGroup
		var failure error
		begin := time.Now()
		producing.Go(func() {
			failure = produce(ctx, func(seq int) error { return b.enqueueOne(ctx, store, l, seq, &enqueued) })
		})
		b.tick(&producing, Step{Name: string(name), Phase: name, Total: int64(jobs)}, &enqueued)
		took := time.Since(begin)
		if failure != nil {
			return failure
		}
		if err := b.wait(ctx, f, int64(jobs), Step{Name: string(name) + ", waiting for the last jobs", Phase: name}); err != nil {
			return err
		}
		r.Jobs, r.DurationMS, r.Repeated = f.done(), ms(took), l.repeated.Load()
		r.Start, r.Call = l.starts(jobs), latencyOf(l.calls)
		if achieved := float64(jobs) / took.Seconds(); name == Steady && achieved < 0.95*float64(b.cfg.Rate) {
			r.note("only %.0f jobs a second could be enqueued, not %d: the latencies are those of a system at its limit", achieved, b.cfg.Rate)
		}
		return b.account(r, l, int64(jobs))
	})
	if err != nil {
		return err
	}
	return b.empty(ctx, name)
}

func (b *bench) enqueueOne(ctx context.Context, store store, l *ledger, seq int, enqueued *atomic.Int64) error {
	job := b.work.request(seq)
	from := time.Now()
	if _, err := store.Enqueue(ctx, job.Args, job.Options); err != nil {
		return err
	}
	l.ack(seq, from)
	enqueued.Add(1)
	return nil
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// drain has the workers do the jobs that bulk has enqueued. Its time is from the
// start of the workers until the last job is done and that is committed.
func (b *bench) drain(ctx context.Context, name Phase) error {
	jobs := int64(b.cfg.Jobs)
	err := b.measure(ctx, name, func(r *Result) error {
		l := newLedger(b.cfg.Jobs, false)
		f, err := b.prepare(ctx, l)
		if err != nil {
			return err
		}
		begin := time.Now()
		f.start(ctx)
		err = b.wait(ctx, f, jobs, Step{Name: string(name), Phase: name, Total: jobs})
		r.DurationMS = ms(time.Since(begin))
		r.Jobs, r.Repeated = f.done(), l.repeated.Load()
		return errors.Join(err, f.stop(), b.account(r, l, jobs))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.left = false
	return b.empty(ctx, name)
}

// account compares what the workers say with what the handlers saw.
func (b *bench) account(r *Result, l *ledger, jobs int64) error {
	if n := l.strange.Load(); n > 0 {
		return fmt.Errorf("handlers ran jobs that nobody had enqueued: %d", n)
	}
	if n := l.count.Load(); r.Jobs >= jobs && n != jobs {
		return fmt.Errorf("%d jobs were enqueued, and handlers ran %d of them", jobs, n)
	}
	if r.Repeated > 0 {
		r.note("jobs were started again because their leases were lost, which the machine was too busy to renew: %d", r.Repeated)
	}
	return nil
}

// empty checks in the database that no job is left.
func (b *bench) empty(ctx context.Context, name Phase) error {
	n, err := b.place.remaining(ctx)
	if err != nil {
		return err
	}
	if n != 0 {
		return fmt.Errorf("%s: all jobs were done, but %d are left in the table", name, n)
	}
	return nil
}

// clear has the workers do what earlier phases have left, without measuring it,
// so that the next phase begins with an empty queue.
func (b *bench) clear(ctx context.Context) (err error) {
	if !b.left {
		return nil
	}
	left, err := b.place.remaining(ctx)
	if err != nil || left == 0 {
		b.left = err != nil
		return err
	}
	f, err := b.prepare(ctx, newLedger(0, false))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	f.start(ctx)
	if err := b.wait(ctx, f, left, Step{Name: "doing what is left", Total: left}); err != nil {
		return err
	}
	b.left = false
	return nil
}

package contender

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// maxCalls bounds the enqueue calls of produce that run at the same time.
const maxCalls = 64

// singles has callers goroutines enqueue one job per call for some seconds.
func (p *Process) singles(ctx context.Context, c Contender, callers, seconds string) error {
	g, err := number("CALLERS", callers)
	if err != nil {
		return err
	}
	s, err := number("SECONDS", seconds)
	if err != nil {
		return err
	}
	// One call before the clock starts: connections and prepared statements are made.
	if err := c.EnqueueOne(ctx, 0); err != nil {
		return err
	}
	var seq, done atomic.Int64
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := time.Now()
	end := start.Add(time.Duration(s) * time.Second)
	var group sync.WaitGroup
	for range g {
		group.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				if err := c.EnqueueOne(ctx, seq.Add(1)); err != nil {
					fail(err)
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	n := done.Load()
	return p.print(Answer{Jobs: &n, Seconds: time.Since(start).Seconds()})
}

// produce enqueues at a rate, whether the answers come or not, for some seconds. What
// it could not begin within that time it leaves.
func (p *Process) produce(ctx context.Context, c Contender, file, rate, seconds string) error {
	r, err := number("RATE", rate)
	if err != nil {
		return err
	}
	s, err := number("SECONDS", seconds)
	if err != nil {
		return err
	}
	return p.acknowledged(ctx, file, func(ctx context.Context, ack func(int64), fail func(error)) {
		start := time.Now()
		end := start.Add(time.Duration(s) * time.Second)
		slots := make(chan struct{}, maxCalls)
		var group sync.WaitGroup
		defer group.Wait()
		for seq := int64(1); seq <= r*s; seq++ {
			due := start.Add(time.Duration(float64(seq-1) / float64(r) * float64(time.Second)))
			if !sleepUntil(ctx, due) || time.Now().After(end) {
				return
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			group.Go(func() {
				defer func() { <-slots }()
				if err := c.EnqueueOne(ctx, seq); err != nil {
					fail(err)
					return
				}
				ack(seq)
			})
		}
	})
}

// trickle enqueues count jobs, one after the other, so many milliseconds apart.
func (p *Process) trickle(ctx context.Context, c Contender, file, everyMS, count string) error {
	every, err := number("EVERY_MS", everyMS)
	if err != nil {
		return err
	}
	n, err := number("COUNT", count)
	if err != nil {
		return err
	}
	return p.acknowledged(ctx, file, func(ctx context.Context, ack func(int64), fail func(error)) {
		start := time.Now()
		for seq := int64(1); seq <= n; seq++ {
			if !sleepUntil(ctx, start.Add(time.Duration((seq-1)*every)*time.Millisecond)) {
				return
			}
			if err := c.EnqueueOne(ctx, seq); err != nil {
				fail(err)
				return
			}
			ack(seq)
		}
	})
}

// acknowledged runs enqueue with a file in which each answer's time is noted, and
// prints how many there were.
func (p *Process) acknowledged(ctx context.Context, file string, enqueue func(ctx context.Context, ack func(seq int64), fail func(error))) error {
	lines, err := createLines(file)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var n atomic.Int64
	start := time.Now()
	enqueue(ctx, func(seq int64) {
		lines.add(seq, time.Now())
		n.Add(1)
	}, func(err error) { fail(err) })
	took := time.Since(start)
	if err := errors.Join(context.Cause(ctx), lines.close()); err != nil {
		return err
	}
	jobs := n.Load()
	return p.print(Answer{Jobs: &jobs, Seconds: took.Seconds()})
}

// sleepUntil waits for the time, and reports false when ctx has ended.
func sleepUntil(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

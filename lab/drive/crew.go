package drive

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopGrace is how long workers may take to stop in good order. Chosen: above what the
// contenders' own documentation gives to a stop.
const stopGrace = 45 * time.Second

// Crew is the work processes of one contender, side by side.
type Crew struct {
	workers []*Worker
}

// StartCrew starts as many workers as the launcher says, and waits until all of them
// look for jobs. args makes the arguments of the verb for each.
func (l *Launcher) StartCrew(ctx context.Context, verb string, args func(process int) []string) (*Crew, error) {
	c := &Crew{}
	for i := range max(l.Env.Processes, 1) {
		w, err := l.Start(verb, args(i)...)
		if err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		c.workers = append(c.workers, w)
	}
	for _, w := range c.workers {
		if err := w.waitReady(ctx); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// ReadyAt is when the first of them began to look for jobs.
func (c *Crew) ReadyAt() time.Time {
	var first time.Time
	for _, w := range c.workers {
		w.mu.Lock()
		if at := w.readyAt; first.IsZero() || at.Before(first) {
			first = at
		}
		w.mu.Unlock()
	}
	return first
}

// Progress returns how many jobs they have done, and when the last of them that they
// told of was done.
func (c *Crew) Progress() (done int64, at time.Time) {
	for _, w := range c.workers {
		n, t := w.progress()
		done += n
		if t.After(at) {
			at = t
		}
	}
	return done, at
}

// Wait returns when n jobs have been done, with true, or at the deadline, with false.
// It is an error when one of the workers ends before.
func (c *Crew) Wait(ctx context.Context, n int64, deadline time.Time) (bool, error) {
	// Not finer: the driver's work is taken from the contenders', and what is measured
	// is when they say that they were done, and not when that is noticed.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, _ := c.Progress(); done >= n {
			return true, nil
		}
		for _, w := range c.workers {
			select {
			case <-w.ended:
				return false, w.err
			default:
			}
		}
		if !time.Now().Before(deadline) {
			return false, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, fmt.Errorf("wait for %d jobs: %w", n, context.Cause(ctx))
		}
	}
}

// Stop ends all of them in good order. A second call does nothing.
func (c *Crew) Stop() error {
	errs := make(chan error)
	for _, w := range c.workers {
		go func() { errs <- w.stop(stopGrace) }()
	}
	var all error
	for range c.workers {
		all = errors.Join(all, <-errs)
	}
	return all
}

// CPU is the processor time of all of them. They must have been stopped.
func (c *Crew) CPU() time.Duration {
	var sum time.Duration
	for _, w := range c.workers {
		sum += w.cmd.ProcessState.UserTime() + w.cmd.ProcessState.SystemTime()
	}
	return sum
}

// Memory is the most that the largest of them has had, as of Stop.
func (c *Crew) Memory() int64 {
	var most int64
	for _, w := range c.workers {
		w.mu.Lock()
		most = max(most, w.memory)
		w.mu.Unlock()
	}
	return most
}

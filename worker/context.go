package worker

import (
	"context"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// jobContext is the context of one handler. It costs nothing until the handler
// looks at it: then it becomes a context of the standard library, with all that
// those do. (The two contexts and the timer that every job had before were half
// of what a short job cost, in time and in garbage.) Its Deadline is the job's
// timeout. It is safe for concurrent use.
type jobContext struct {
	values   context.Context
	deadline time.Time

	mu     sync.Mutex
	cause  error // why it was ended, nil if it was not
	full   context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
}

// Deadline implements [context.Context].
func (c *jobContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements [context.Context].
func (c *jobContext) Done() <-chan struct{} { return c.standard().Done() }

// Err implements [context.Context].
func (c *jobContext) Err() error { return c.standard().Err() }

// Value implements [context.Context]. It is also how [context.Cause] finds the
// cause.
func (c *jobContext) Value(key any) any { return c.standard().Value(key) }

// standard makes the context that the handler sees.
func (c *jobContext) standard() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full != nil {
		return c.full
	}
	ctx, cancel := context.WithCancelCause(c.values)
	if c.cause != nil && c.cause != later.ErrTimeout { // that one the deadline makes
		cancel(c.cause)
	}
	c.full, c.stop = context.WithDeadlineCause(ctx, c.deadline, later.ErrTimeout)
	c.cancel = cancel
	return c.full
}

// causeOf returns why ctx has ended, nil if it has not.
func causeOf(ctx context.Context) error {
	if c, ok := ctx.(*jobContext); ok {
		return c.ended(time.Now()) // makes nothing that the handler did not ask for
	}
	return context.Cause(ctx)
}

// ended returns why the context has ended at the time now, nil if it has not.
func (c *jobContext) ended(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endedLocked(now)
}

func (c *jobContext) endedLocked(now time.Time) error {
	switch {
	case c.full != nil:
		return context.Cause(c.full)
	case c.cause == nil && !now.Before(c.deadline):
		return later.ErrTimeout
	}
	return c.cause
}

// end ends the context because of cause, unless it has ended before.
func (c *jobContext) end(cause error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endedLocked(now) == nil {
		c.cause = cause
	}
	if c.full != nil {
		c.cancel(cause)
		c.stop()
	}
}

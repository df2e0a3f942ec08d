package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// retryBackoff spreads the tries of an operation that the store cannot do now.
// Chosen: a restart of the database takes seconds.
var retryBackoff = later.Backoff{Base: 100 * time.Millisecond, Factor: 2, Cap: 5 * time.Second, Jitter: 0.2}

// outages logs when an operation of the store begins to fail and when it works
// again, and nothing in between, however long that is.
type outages struct {
	log *slog.Logger

	mu     sync.Mutex
	failed map[string]outage
}

type outage struct {
	since time.Time
	tries int
}

// fail notes that op failed and returns how long to wait before the next try.
func (o *outages) fail(op string, err error) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, known := o.failed[op]
	if !known {
		now.since = time.Now()
		o.log.Warn("store operation failed, trying again", "op", op, "err", err)
	}
	now.tries++
	if o.failed == nil {
		o.failed = map[string]outage{}
	}
	o.failed[op] = now
	return retryBackoff.Delay(now.tries, nil)
}

// works notes that op succeeded.
func (o *outages) works(op string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was, failed := o.failed[op]; failed {
		delete(o.failed, op)
		o.log.Info("store operation works again", "op", op, "after", time.Since(was.since).Round(time.Millisecond), "tries", was.tries)
	}
}

// worthRetrying reports whether err may go away by itself. What it does not
// know is the fault of the statement, not of the moment.
func worthRetrying(err error) bool {
	return later.IsTransient(err) || errors.Is(err, later.ErrSchema) || errors.Is(err, later.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// isFatal reports whether err means that this process cannot work at all.
func isFatal(err error) bool {
	return errors.Is(err, later.ErrSchema) || errors.Is(err, later.ErrClosed)
}

// pause waits for d, and returns false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

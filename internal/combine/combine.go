// Package combine lets concurrent callers share one operation of a database: what
// comes in while one batch is being committed makes up the next one. There is no
// timer: a caller who is alone is not delayed, and the busier it is, the larger the
// batches become by themselves.
package combine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

var (
	// ErrClosed is the error of a call that came after Close, or was waiting then.
	// Nothing of it was done.
	ErrClosed = errors.New("closed")
	// ErrUnderWay is matched when a caller's context ended after its batch had
	// begun: the batch goes on, and may still take effect.
	ErrUnderWay = errors.New("under way, with an unknown end")
)

// Conn is what a batch travels with, as a connection of a pool.
type Conn[J, R any] interface {
	// Run does all items or none, and returns a result for each, in their order.
	// It may be called again after an error.
	Run(ctx context.Context, items []J) ([]R, error)
	// Release gives the Conn back. It is called once, after all runs.
	Release()
}

// Config says how batches are made. All fields must be set.
type Config[J, R any] struct {
	// Open returns what the next batch travels with. The batch is put together
	// only afterwards, so that who comes while Open waits is taken along. Its
	// context ends when nobody waits any more, and has the values of the first
	// caller's. Its error goes to all that wait.
	Open func(ctx context.Context) (Conn[J, R], error)
	// Divisible reports whether an error of Run means that nothing was done, and
	// may be the fault of some of the items: a batch of several calls is then
	// tried again in halves, until only the calls at fault have the error.
	Divisible func(err error) bool
	// MaxItems and MaxBytes bound a batch. A call beyond them is a batch by itself.
	MaxItems, MaxBytes int
	// MaxBatches is how many batches may be under way at a time.
	MaxBatches int
	// Timeout bounds each Run, whatever the callers' deadlines are.
	Timeout time.Duration
}

// Combiner combines calls. It is safe for concurrent use. It has no goroutine
// while there is nothing to do.
type Combiner[J, R any] struct {
	config Config[J, R]

	mu      sync.Mutex
	waiting []*call[J, R]      // in the order of their coming
	opening context.CancelFunc // ends an Open that is under way; nil when none is
	lone    context.CancelFunc // the same for a call by itself
	batches int                // that are opening or running
	quiet   bool               // the last batch had but one call: no others are about
	closed  bool
	running sync.WaitGroup
}

// call is what one caller wants done.
type call[J, R any] struct {
	ctx   context.Context // for its values; its end is the caller's own affair
	items []J
	bytes int

	results []R // these two are set before done is closed
	err     error
	done    chan struct{}
}

// New returns a Combiner.
func New[J, R any](config Config[J, R]) *Combiner[J, R] {
	return &Combiner[J, R]{config: config, quiet: true}
}

// Do has items, of so many bytes, done in a batch, and returns their results in
// their order. Calls are taken in the order in which they came. A call is done as a
// whole or not at all.
//
// When ctx ends before the batch has begun, nothing of the call is done, and the
// error is that of ctx. Later the error matches [ErrUnderWay] too. Neither concerns
// the other calls. A batch that has begun runs with the values of the context of its
// first call. It may read items after Do has returned.
func (c *Combiner[J, R]) Do(ctx context.Context, items []J, bytes int) ([]R, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own := &call[J, R]{ctx: ctx, items: items, bytes: bytes, done: make(chan struct{})}
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return nil, ErrClosed
	case c.quiet && c.batches == 0:
		c.batches++
		c.running.Add(1)
		opening, cancel := context.WithCancel(ctx)
		c.lone = cancel
		c.mu.Unlock()
		return c.alone(opening, own)
	}
	c.waiting = append(c.waiting, own)
	c.begin()
	c.mu.Unlock()

	select {
	case <-own.done:
		return own.results, own.err
	case <-ctx.Done():
	}
	if c.withdraw(own) {
		return nil, ctx.Err()
	}
	select {
	case <-own.done:
		return own.results, own.err
	default:
		return nil, fmt.Errorf("%w: %w", ErrUnderWay, ctx.Err())
	}
}

// alone does a call as if there were no others: in the caller's goroutine, and within
// the caller's context. A goroutine of its own costs a lone caller as much processor time as
// the whole statement does.
func (c *Combiner[J, R]) alone(opening context.Context, own *call[J, R]) ([]R, error) {
	defer c.running.Done()
	defer c.end()
	conn, err := c.open(opening)
	c.mu.Lock()
	c.lone()
	c.lone = nil
	closed := c.closed
	c.mu.Unlock()
	switch {
	case err != nil && own.ctx.Err() != nil:
		return nil, own.ctx.Err()
	case closed:
		if err == nil {
			conn.Release()
		}
		return nil, ErrClosed
	case err != nil:
		return nil, err
	}
	defer conn.Release()
	results, err := c.try(own.ctx, conn, own.items)
	if err != nil && own.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrUnderWay, err)
	}
	return results, err
}

// Close ends the calls that wait with [ErrClosed], and returns when the batches
// that have begun are done. A second call does the same.
func (c *Combiner[J, R]) Close() {
	c.mu.Lock()
	c.closed = true
	if c.lone != nil {
		c.lone()
	}
	left := c.take(len(c.waiting))
	c.mu.Unlock()
	finish(left, ErrClosed)
	c.running.Wait()
}

// Waiting is how many calls wait for their batch to begin.
func (c *Combiner[J, R]) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// withdraw takes a call back, unless its batch has begun.
func (c *Combiner[J, R]) withdraw(own *call[J, R]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.waiting, own)
	if at < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, at, at+1)
	c.stopOpening()
	return true
}

// stopOpening ends an Open for which nobody waits any more. It needs the lock.
func (c *Combiner[J, R]) stopOpening() {
	if len(c.waiting) == 0 && c.opening != nil {
		c.opening()
	}
}

// begin starts a batch if one is wanted: one that is opening takes along whoever
// waits. It needs the lock.
func (c *Combiner[J, R]) begin() {
	if len(c.waiting) == 0 || c.opening != nil || c.batches == c.config.MaxBatches {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.waiting[0].ctx))
	c.opening = cancel
	c.batches++
	c.running.Go(func() { c.batch(ctx) })
}

// batch is one batch from its beginning to its end.
func (c *Combiner[J, R]) batch(ctx context.Context) {
	defer c.end()
	conn, err := c.open(ctx)
	if err == nil {
		c.gather()
	}
	calls := c.board(ctx, err)
	if err != nil {
		finish(calls, err)
		return
	}
	defer conn.Release()
	if len(calls) > 0 {
		c.run(conn, calls)
	}
}

// end is the end of a batch, and the beginning of the next one.
func (c *Combiner[J, R]) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches--
	c.begin()
}

func (c *Combiner[J, R]) open(ctx context.Context) (conn Conn[J, R], err error) {
	defer recovered(&err, errNothing)
	return c.config.Open(ctx)
}

// gather lets others have the processor as long as more calls come in: callers that the
// last batch has woken are about to come back. Without it the first of them has a batch
// to itself, and all others wait for that.
func (c *Combiner[J, R]) gather() {
	for seen := -1; ; runtime.Gosched() {
		n := c.Waiting()
		if n <= seen || n >= c.config.MaxItems {
			return
		}
		seen = n
	}
}

// board returns the calls that the batch takes, or that share the failure to open it.
func (c *Combiner[J, R]) board(ctx context.Context, failed error) []*call[J, R] {
	c.mu.Lock()
	defer c.mu.Unlock()
	stopped := ctx.Err() != nil // nobody waited; who waits by now is not concerned
	c.opening()
	c.opening = nil
	var calls []*call[J, R]
	switch {
	case failed == nil:
		calls = c.take(c.fitting())
	case !stopped:
		calls = c.take(len(c.waiting))
	}
	c.quiet = len(calls) == 1 && len(c.waiting) == 0
	c.begin()
	return calls
}

// fitting is how many of the waiting calls make up a batch. It needs the lock.
func (c *Combiner[J, R]) fitting() int {
	items, bytes := 0, 0
	for n, call := range c.waiting {
		items += len(call.items)
		bytes += call.bytes
		if n > 0 && (items > c.config.MaxItems || bytes > c.config.MaxBytes) {
			return n
		}
	}
	return len(c.waiting)
}

// take removes the first n calls that wait. It needs the lock.
func (c *Combiner[J, R]) take(n int) []*call[J, R] {
	calls := slices.Clone(c.waiting[:n])
	c.waiting = slices.Delete(c.waiting, 0, n)
	c.stopOpening()
	return calls
}

// run does calls together, or in parts when some of them do not let the others pass.
func (c *Combiner[J, R]) run(conn Conn[J, R], calls []*call[J, R]) {
	n := 0
	for _, call := range calls {
		n += len(call.items)
	}
	items := make([]J, 0, n)
	for _, call := range calls {
		items = append(items, call.items...)
	}
	results, err := c.try(context.WithoutCancel(calls[0].ctx), conn, items)
	if err != nil && len(calls) > 1 && c.config.Divisible(err) {
		half := len(calls) / 2
		c.run(conn, calls[:half])
		c.run(conn, calls[half:])
		return
	}
	for _, call := range calls {
		if n := len(call.items); err == nil {
			call.results, results = results[:n:n], results[n:]
		}
	}
	finish(calls, err)
}

func (c *Combiner[J, R]) try(ctx context.Context, conn Conn[J, R], items []J) (results []R, err error) {
	defer recovered(&err, ErrUnderWay)
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	results, err = conn.Run(ctx, items)
	if err == nil && len(results) != len(items) {
		err = fmt.Errorf("%w: got %d results for %d items", ErrUnderWay, len(results), len(items))
	}
	return results, err
}

func finish[J, R any](calls []*call[J, R], err error) {
	for _, call := range calls {
		call.err = err
		close(call.done)
	}
}

// errNothing begins the error of a batch that did not come to begin.
var errNothing = errors.New("nothing was done")

// recovered makes an error of a panic, because the callers are many and none of them is
// at fault. It wraps state, which says what became of the call.
func recovered(err *error, state error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", state, v, debug.Stack())
	}
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/later-queue/later"
)

const (
	// maxBatch and maxBatchRows bound one transaction of the writer, in
	// operations and in the rows that they touch, so that other processes get
	// the write lock and callers their answers. Chosen: at the 5 to 10 µs a row
	// that were measured, 5,000 rows hold the lock for 25 to 50 ms. One operation
	// with more rows than that has a transaction to itself.
	maxBatch     = 256
	maxBatchRows = 5000
	// slowLock is how long the write lock may be held elsewhere before the
	// writer says so in its log. Chosen, not measured.
	slowLock = 2 * time.Second
)

// writer is the goroutine through which all writes of a store go.
type writer struct {
	db     *sql.DB // one connection
	file   identity
	gate   *gate
	inside bool // the gate
	// watches learn of the jobs that were committed.
	watches *watches
	busy    time.Duration
	logger  *slog.Logger

	ops     chan *operation
	closing chan struct{}
	ended   chan struct{}
	blocked atomic.Bool  // another connection holds the write lock
	taken   atomic.Int64 // how many operations were taken up: for tests

	tx *writeTx // the connection and its statements; nil before the first use
}

// operation is what a caller wants written.
type operation struct {
	// run does it. It may be called again after a transaction was lost, so it
	// sets its results anew each time.
	run  func(tx *writeTx) error
	rows int // how many rows it touches, about
	// frugal is set when it is tried again after it met a full disk: then it
	// frees space before it takes any.
	frugal bool

	state atomic.Int32 // opWaiting, then opBegun or opDropped
	since time.Time    // when the writer took it
	err   error        // set before done is closed
	done  chan struct{}
}

const (
	opWaiting int32 = iota
	opBegun
	opDropped
)

func startWriter(pools *pools, config Config) *writer {
	w := &writer{
		db: pools.write, file: pools.file, gate: pools.gate, watches: pools.watches, busy: config.BusyTimeout, logger: config.Logger,
		ops: make(chan *operation), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	go w.loop()
	return w
}

// stop ends the goroutine, after the transaction that is under way.
func (w *writer) stop() {
	close(w.closing)
	<-w.ended
}

// do has run called in a transaction of the writer and returns after its commit.
// When ctx ends before the operation has begun, it is dropped; once begun it is
// finished, which takes no longer than the disk: its result is worth more than
// a guess.
func (w *writer) do(ctx context.Context, rows int, run func(tx *writeTx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op := &operation{run: run, rows: rows, done: make(chan struct{})}
	select {
	case <-w.closing: // looked at first, because select takes any case that is ready
		return later.ErrClosed
	default:
	}
	select {
	case w.ops <- op:
	case <-w.closing:
		return later.ErrClosed
	case <-ctx.Done():
		return w.gaveUp(ctx)
	}
	select {
	case <-op.done:
		return op.err
	case <-ctx.Done():
	}
	if op.state.CompareAndSwap(opWaiting, opDropped) {
		return w.gaveUp(ctx)
	}
	<-op.done
	return op.err
}

// gaveUp is the error of a caller whose context ended before its turn.
func (w *writer) gaveUp(ctx context.Context) error {
	if w.blocked.Load() {
		return fmt.Errorf("%w: %s: %w", later.ErrUnavailable, lockHeld, ctx.Err())
	}
	return ctx.Err()
}

// lockHeld helps whoever waits for a lock that is their own.
const lockHeld = "another transaction holds the file's write lock (inside a transaction of your own use EnqueueSQLTx or DoneSQLTx)"

func (w *writer) loop() {
	defer close(w.ended)
	defer w.disconnect()
	for {
		select {
		case op := <-w.ops:
			w.transact([]*operation{w.take(op)}, true)
		case <-w.closing:
			return
		}
	}
}

func (w *writer) take(op *operation) *operation {
	op.since = time.Now()
	w.taken.Add(1)
	return op
}

// transact runs ops, and with grow whatever else has queued up, in one
// transaction. An operation that fails takes back only what it did itself.
func (w *writer) transact(ops []*operation, grow bool) {
	ops = w.begin(ops, grow)
	if len(ops) == 0 {
		return
	}
	for _, op := range ops {
		var lost bool
		op.err, lost = w.tx.run(op)
		if lost {
			w.recover(ops, op, op.err)
			return
		}
	}
	if err := w.commit(); err != nil {
		w.rollback(err)
		if isFull(err) && len(ops) > 1 {
			w.oneByOne(ops)
			return
		}
		for _, op := range ops {
			op.err = errors.Join(op.err, err)
		}
	} else {
		w.watches.wake(w.tx.woken)
	}
	for _, op := range ops {
		op.finish(op.err)
	}
}

// recover goes on after an error of culprit at which SQLite has rolled back the
// whole transaction, as it may when the disk is full.
func (w *writer) recover(ops []*operation, culprit *operation, err error) {
	w.rollback(err)
	again := isFull(err) && !culprit.frugal
	culprit.frugal = isFull(err)
	if len(ops) == 1 && !again {
		culprit.finish(err)
		return
	}
	w.oneByOne(ops)
}

// oneByOne gives each operation a transaction of its own: nothing of them was
// committed, and what does not fit together may fit alone.
func (w *writer) oneByOne(ops []*operation) {
	for _, op := range ops {
		w.transact([]*operation{op}, false)
	}
}

// begin takes the write lock. While another connection has it, callers come and
// go: begin returns those whose operations are to be run, marked as begun.
func (w *writer) begin(ops []*operation, grow bool) []*operation {
	start, warned := time.Now(), false
	for {
		err := w.tryBegin()
		if grow {
			ops = w.fill(ops)
		}
		switch {
		case err == nil:
			w.blocked.Store(false)
			if ops = begun(ops); len(ops) == 0 {
				w.rollback(nil)
			}
			return ops
		case !isBusy(err):
			w.blocked.Store(false)
			w.rollback(err)
			failAll(ops, err)
			return nil
		}
		w.blocked.Store(true)
		if !warned && time.Since(start) > slowLock {
			warned = true
			w.logger.Warn("write lock held elsewhere", "err", err)
		}
		ops = w.expire(ops, err)
		select {
		case <-w.closing:
			failAll(ops, later.ErrClosed)
			ops = nil
		case <-time.After(time.Millisecond): // SQLite has waited already, but not for each kind of lock
		}
		if len(ops) == 0 {
			w.blocked.Store(false)
			return nil
		}
	}
}

func (w *writer) tryBegin() error {
	if err := w.file.check(); err != nil {
		return err
	}
	if w.tx == nil {
		tx, err := newWriteTx(w.db)
		if err != nil {
			return err
		}
		w.tx = tx
	}
	if w.inside = w.gate.tryEnter(writerWait); !w.inside {
		return errHeldHere
	}
	err := w.tx.begin()
	if err != nil {
		w.leave()
	}
	return err
}

// leave lets others of this process write.
func (w *writer) leave() {
	if w.inside {
		w.inside = false
		w.gate.leave()
	}
}

// fill adds to ops what has queued up, as far as there is room.
func (w *writer) fill(ops []*operation) []*operation {
	rows := 0
	for _, op := range ops {
		rows += op.rows
	}
	for len(ops) < maxBatch && rows < maxBatchRows {
		select {
		case op := <-w.ops:
			ops, rows = append(ops, w.take(op)), rows+op.rows
		default:
			return ops
		}
	}
	return ops
}

// expire fails the operations that have waited for the lock for too long, and
// forgets those that nobody waits for any more.
func (w *writer) expire(ops []*operation, err error) []*operation {
	kept := ops[:0]
	for _, op := range ops {
		switch {
		case op.state.Load() == opDropped:
		case time.Since(op.since) >= w.busy:
			op.finish(fmt.Errorf("%s: %w", lockHeld, err))
		default:
			kept = append(kept, op)
		}
	}
	return kept
}

// commit ends the transaction. In WAL mode it waits for nobody; a database in
// memory waits for its readers.
func (w *writer) commit() error {
	for start := time.Now(); ; {
		err := w.tx.control("commit")
		if err == nil {
			w.leave()
		}
		if err == nil || !isBusy(err) || time.Since(start) > w.busy {
			return err
		}
	}
}

// rollback ends a transaction that cannot be committed because of err, if it has
// not ended already, and parts with a connection that err makes doubtful.
func (w *writer) rollback(err error) {
	defer w.leave()
	if w.tx == nil {
		return
	}
	failed := w.tx.end()
	if failed != nil || breaksConnection(err) {
		w.disconnect()
	}
}

func (w *writer) disconnect() {
	if w.tx != nil {
		w.tx.close()
		w.tx = nil
	}
}

func (op *operation) finish(err error) {
	op.err = explain(err)
	close(op.done)
}

// begun marks ops and leaves out those whose callers have gone.
func begun(ops []*operation) []*operation {
	kept := ops[:0]
	for _, op := range ops {
		if op.state.Load() == opBegun || op.state.CompareAndSwap(opWaiting, opBegun) {
			kept = append(kept, op)
		}
	}
	return kept
}

func failAll(ops []*operation, err error) {
	for _, op := range ops {
		op.finish(err)
	}
}

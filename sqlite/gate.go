package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"
)

// errHeldHere says that a transaction of this process holds the write lock.
var errHeldHere = errors.New("a transaction of this process holds the write lock")

// gate is the write lock among the connections of one process, in front of the
// file's own. SQLite's waiters sleep and try again, so with forty handlers that
// each begin a transaction the lock is idle while all of them sleep, and the
// store's writer comes last: renewals and settles came too late, leases ended,
// and the work began anew (measured: 3 processes of 40 handlers made no progress
// in 8 minutes). Here they stand in line, and at most one of them competes with
// the writer, so the two take turns.
type gate struct {
	line chan struct{} // taken by the transaction that is next
	lock chan struct{} // taken by whoever writes
}

func newGate() *gate {
	return &gate{line: make(chan struct{}, 1), lock: make(chan struct{}, 1)}
}

// enter waits for the lock for a transaction of the application, for as long as
// SQLite would.
func (g *gate) enter(ctx context.Context, busy time.Duration) error {
	timer := time.NewTimer(busy)
	defer timer.Stop()
	for _, step := range []chan struct{}{g.line, g.lock} {
		select {
		case step <- struct{}{}:
		case <-ctx.Done():
			g.leaveLine(step)
			return ctx.Err()
		case <-timer.C:
			g.leaveLine(step)
			return errHeldHere
		}
	}
	<-g.line
	return nil
}

// leaveLine steps out of the line when waiting at step was in vain.
func (g *gate) leaveLine(step chan struct{}) {
	if step == g.lock {
		<-g.line
	}
}

// tryEnter waits for the lock for the writer, past the line, for a short time.
func (g *gate) tryEnter(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case g.lock <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

func (g *gate) leave() { <-g.lock }

// gatedConnector opens connections whose writing transactions pass the gate.
type gatedConnector struct {
	driver.Connector
	gate  *gate
	busy  time.Duration
	ended func(committed bool) // called inside the gate when a transaction has ended
}

func (c *gatedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(driverConn)
	if !ok {
		return nil, errors.Join(errors.New("the SQLite driver lacks a method of database/sql"), conn.Close())
	}
	return &gatedConn{driverConn: full, gate: c.gate, busy: c.busy, ended: c.ended}, nil
}

// driverConn is what database/sql may use of a connection.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// gatedConn is a connection of the application.
type gatedConn struct {
	driverConn
	gate  *gate
	busy  time.Duration
	ended func(committed bool)
}

// Unwrap is how the driver's own functions find their connection.
func (c *gatedConn) Unwrap() driver.Conn { return c.driverConn }

// BeginTx begins a transaction; unless it is read-only it holds the write lock
// from here to its end.
func (c *gatedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts.ReadOnly {
		return c.driverConn.BeginTx(ctx, opts)
	}
	if err := c.gate.enter(ctx, c.busy); err != nil {
		return nil, err
	}
	tx, err := c.driverConn.BeginTx(ctx, opts)
	if err != nil {
		c.gate.leave()
		return nil, err
	}
	return &gatedTx{Tx: tx, gate: c.gate, ended: c.ended}, nil
}

// Begin is BeginTx for those who bypass database/sql.
func (c *gatedConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// gatedTx leaves the gate when it ends; database/sql ends each exactly once.
type gatedTx struct {
	driver.Tx
	gate  *gate
	ended func(committed bool)
}

func (t *gatedTx) Commit() error {
	defer t.gate.leave()
	err := t.Tx.Commit()
	t.ended(err == nil)
	return err
}

func (t *gatedTx) Rollback() error {
	defer t.gate.leave()
	t.ended(false)
	return t.Tx.Rollback()
}

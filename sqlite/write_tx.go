package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// transaction is what operations write with: the writer's own transaction or
// the caller's.
type transaction interface {
	exec(query string, args ...any) (sql.Result, error)
	query(query string, args ...any) (*sql.Rows, error)
	queryRow(query string, args ...any) *sql.Row
	now() (ms int64, err error)
	// wake says that a job of queue may be claimed once this is committed.
	wake(queue string)
}

// writeTx is the writer's connection with its prepared statements. Only the
// writer's goroutine uses it. No statement takes a context: a write that is
// interrupted makes SQLite roll back the whole transaction, which belongs to
// others too.
type writeTx struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
	clock      int64 // the database's clock when it was first asked for in this transaction; 0: not yet
	frugal     bool  // the operation that runs has met a full disk
	executed   int   // how many statements were run: for tests
	// woken are the queues in which jobs may be claimed after the commit, and
	// perhaps some of operations that were taken back: a wake-up too many is cheap.
	woken map[string]bool
}

func newWriteTx(db *sql.DB) (*writeTx, error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	return &writeTx{conn: conn, statements: map[string]*sql.Stmt{}, woken: map[string]bool{}}, nil
}

// run runs op so that its failure takes back only what it did itself. lost
// reports that the whole transaction is gone.
func (t *writeTx) run(op *operation) (err error, lost bool) {
	if err := t.control("savepoint operation"); err != nil {
		return err, true
	}
	t.frugal = op.frugal
	err = op.run(t)
	if err == nil {
		if err = t.control("release operation"); err == nil {
			return nil, false
		}
	}
	// After some errors SQLite has ended the transaction, and knows the
	// savepoint no more.
	if t.control("rollback to operation") != nil || t.control("release operation") != nil {
		return err, true
	}
	if isFull(err) && !op.frugal {
		op.frugal = true
		return t.run(op)
	}
	return err, breaksConnection(err)
}

// begin begins the transaction.
func (t *writeTx) begin() error {
	t.clock = 0
	clear(t.woken)
	return t.control("begin immediate")
}

// now is the database's clock, read once for each transaction: what is stored in
// one transaction is due in it, too.
func (t *writeTx) now() (ms int64, err error) {
	if t.clock == 0 {
		t.clock, err = now(t)
	}
	return t.clock, err
}

func (t *writeTx) wake(queue string) { t.woken[queue] = true }

// control runs a statement that begins or ends something.
func (t *writeTx) control(statement string) error {
	_, err := t.exec(statement)
	return err
}

// end rolls back the transaction, if there is one.
func (t *writeTx) end() error {
	err := t.control("rollback")
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code() == lib.SQLITE_ERROR {
		return nil // no transaction is active
	}
	return err
}

func (t *writeTx) exec(query string, args ...any) (sql.Result, error) {
	stmt, err := t.prepared(query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(context.Background(), args...)
}

func (t *writeTx) query(query string, args ...any) (*sql.Rows, error) {
	stmt, err := t.prepared(query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(context.Background(), args...)
}

func (t *writeTx) queryRow(query string, args ...any) *sql.Row {
	stmt, err := t.prepared(query)
	if err != nil {
		return t.conn.QueryRowContext(context.Background(), query, args...) // for its error
	}
	return stmt.QueryRowContext(context.Background(), args...)
}

// script runs statements that are not kept prepared.
func (t *writeTx) script(statements string) error {
	_, err := t.conn.ExecContext(context.Background(), statements)
	return err
}

func (t *writeTx) prepared(query string) (*sql.Stmt, error) {
	t.executed++
	if stmt := t.statements[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := t.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	t.statements[query] = stmt
	return stmt, nil
}

// close parts with the connection for good: the pool must not hand it out again.
func (t *writeTx) close() {
	// The statements first: the driver crashes when one is closed after its
	// connection, and database/sql does not look after those of a *sql.Conn.
	if t.conn.Raw(func(any) error { return nil }) == nil {
		for _, stmt := range t.statements {
			stmt.Close()
		}
	}
	t.conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
	t.conn.Close()
}

// now is the database's clock.
func now(q querier) (ms int64, err error) {
	err = q.queryRow(selectNow).Scan(&ms)
	return ms, err
}

// callerTx is a transaction that belongs to the caller. Its statements do not
// end with the caller's context either: they would take the caller's whole
// transaction along, without the caller knowing.
type callerTx struct {
	ctx     context.Context // without cancel
	tx      *sql.Tx
	watches *watches
}

func (s *Store) callerTx(ctx context.Context, tx *sql.Tx) callerTx {
	return callerTx{ctx: context.WithoutCancel(ctx), tx: tx, watches: s.watches}
}

func (c callerTx) exec(query string, args ...any) (sql.Result, error) {
	return c.tx.ExecContext(c.ctx, query, args...)
}

func (c callerTx) query(query string, args ...any) (*sql.Rows, error) {
	return c.tx.QueryContext(c.ctx, query, args...)
}

func (c callerTx) queryRow(query string, args ...any) *sql.Row {
	return c.tx.QueryRowContext(c.ctx, query, args...)
}

func (c callerTx) now() (int64, error) { return now(c) }

func (c callerTx) wake(queue string) { c.watches.enqueuedInTx(queue) }

package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// Tx says how a store works in its callers' transactions, which are of the type
// TX.
type Tx[TX any] struct {
	Begin    func(ctx context.Context) (TX, error)
	Commit   func(ctx context.Context, tx TX) error
	Rollback func(ctx context.Context, tx TX) error
	// Exec runs any statement that succeeds in a transaction that is usable,
	// such as a select without a table.
	Exec func(ctx context.Context, tx TX) error

	Enqueue     func(ctx context.Context, tx TX, args later.Args, opts later.Options) (later.Enqueued, error)
	EnqueueMany func(ctx context.Context, tx TX, requests []later.Request) ([]later.Enqueued, error)
	Done        func(ctx context.Context, tx TX, job later.Held) error
}

// RunTx runs the part of the contract that is about the callers' transactions.
// The store may make others wait while a transaction is open that has written
// (SQLite does); it must not fail them for longer than that.
func RunTx[TX any](t *testing.T, open func(t *testing.T) (later.Store, Tx[TX])) {
	start := func(t *testing.T) *txWorld[TX] {
		t.Helper()
		store, tx := open(t)
		return &txWorld[TX]{
			world: newWorld(t, func(*testing.T) later.Store { return store }), tx: tx,
		}
	}
	t.Run("enqueue", func(t *testing.T) { testEnqueueTx(t, start) })
	t.Run("unique", func(t *testing.T) { testUniqueTx(t, start) })
	t.Run("done", func(t *testing.T) { testDoneTx(t, start) })
}

// txWorld is a world with transactions.
type txWorld[TX any] struct {
	*world
	tx Tx[TX]
}

func (w *txWorld[TX]) begin() TX {
	w.t.Helper()
	tx, err := w.tx.Begin(w.ctx)
	if err != nil {
		w.t.Fatalf("Begin: %v", err)
	}
	return tx
}

func (w *txWorld[TX]) commit(tx TX) {
	w.t.Helper()
	if err := w.tx.Commit(w.ctx, tx); err != nil {
		w.t.Fatalf("Commit: %v", err)
	}
}

func (w *txWorld[TX]) rollback(tx TX) {
	w.t.Helper()
	if err := w.tx.Rollback(w.ctx, tx); err != nil {
		w.t.Fatalf("Rollback: %v", err)
	}
}

func (w *txWorld[TX]) exec(tx TX) {
	w.t.Helper()
	if err := w.tx.Exec(w.ctx, tx); err != nil {
		w.t.Fatalf("the transaction is not usable any more: %v", err)
	}
}

func (w *txWorld[TX]) enqueueTx(tx TX, args later.Args, opts later.Options) int64 {
	w.t.Helper()
	done, err := w.tx.Enqueue(w.ctx, tx, args, opts)
	if err != nil {
		w.t.Fatalf("EnqueueTx: %v", err)
	}
	return done.ID
}

func testEnqueueTx[TX any](t *testing.T, start func(t *testing.T) *txWorld[TX]) {
	// Case 206: the job is there with the commit, and not before.
	t.Run("a job is neither seen nor claimed before the commit", func(t *testing.T) {
		w := start(t)
		tx := w.begin()
		id := w.enqueueTx(tx, raw(`{"user":1}`), later.Options{})
		equal(t, "job is there", w.look(id) != nil, false)
		equal(t, "jobs listed", len(w.list(later.Filter{})), 0)
		w.claimsNothing()
		w.exec(tx)
		w.commit(tx)
		equal(t, "payload", string(w.find(id).Payload), `{"user":1}`)
		w.eventually("the job is claimed", func() bool {
			jobs, err := w.store.Claim(w.ctx, ask(1))
			if err != nil && !later.IsTransient(err) {
				t.Fatalf("Claim: %v", err)
			}
			return len(jobs) == 1 && jobs[0].ID == id
		})
	})

	// Case 206: after a rollback there never was a job.
	t.Run("a job goes with the rollback", func(t *testing.T) {
		w := start(t)
		tx := w.begin()
		id := w.enqueueTx(tx, raw(`{}`), later.Options{})
		w.rollback(tx)
		w.gone(id)
		w.claimNone()
		if next := w.enqueue(later.Options{}); w.find(next).Attempt != 0 {
			t.Errorf("job %d was tried before it was there", next)
		}
	})

	// Cases 1, 4, 7, 13, 14, 16: what is refused is refused before any SQL.
	t.Run("a refused job leaves the transaction usable", func(t *testing.T) {
		w := start(t)
		tx := w.begin()
		refuse := func(what string, args later.Args, opts later.Options) {
			t.Helper()
			_, err := w.tx.Enqueue(w.ctx, tx, args, opts)
			isError(t, what, err, later.ErrInvalid)
			w.exec(tx)
		}
		for _, p := range refusedPayloads {
			refuse(p.name, raw(p.payload), later.Options{})
		}
		for _, v := range []any{math.NaN(), make(chan int), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			refuse(fmt.Sprintf("%T", v), unstorable{v}, later.Options{})
		}
		for _, name := range refusedNames {
			refuse("queue "+name, raw(`{}`), later.Options{Queue: name})
		}
		for _, name := range refusedTenants {
			refuse("tenant "+name, raw(`{}`), later.Options{Tenant: name})
		}
		refuse("a time past the horizon", raw(`{}`), later.Options{RunAt: later.Horizon})
		refuse("nil", nil, later.Options{})
		_, err := w.tx.EnqueueMany(w.ctx, tx, []later.Request{{Args: raw(`{}`)}, {Args: raw(`{"a":`)}})
		isError(t, "EnqueueManyTx", err, later.ErrInvalid)
		id := w.enqueueTx(tx, raw(`{"good":true}`), later.Options{})
		w.commit(tx)
		equalSlices(t, "jobs", listed(w.list(later.Filter{})), []int64{id})
	})

	// A job that passes Build never poisons the caller's transaction.
	t.Run("whatever is accepted leaves the transaction usable too", func(t *testing.T) {
		w := start(t)
		tx := w.begin()
		payloads := map[int64]string{}
		for _, p := range keptPayloads {
			payloads[w.enqueueTx(tx, raw(p.payload), later.Options{})] = p.payload
			w.exec(tx)
		}
		for _, name := range oddNames {
			w.enqueueTx(tx, raw(`{}`), later.Options{Tenant: name, Headers: oddHeaders})
			w.exec(tx)
		}
		for _, name := range keptNames {
			w.enqueueTx(tx, later.RawArgs{JobKind: name, Payload: []byte(`{}`)}, later.Options{Queue: name})
			w.exec(tx)
		}
		for _, o := range oneOption {
			w.enqueueTx(tx, raw(`{}`), o.opts)
			w.exec(tx)
		}
		w.enqueueTx(tx, raw(`{}`), later.Options{Delay: math.MaxInt64, ExpiresIn: math.MaxInt64})
		w.exec(tx)
		w.commit(tx)
		for id, payload := range payloads {
			equal(t, "payload", string(w.find(id).Payload), payload)
		}
	})

	// Case 209: every option through this path, one by one and many at once.
	t.Run("every option is kept", func(t *testing.T) {
		for _, o := range oneOption {
			t.Run(o.name, func(t *testing.T) {
				w := start(t)
				tx := w.begin()
				single := w.enqueueTx(tx, raw(`{}`), o.opts)
				many, err := w.tx.EnqueueMany(w.ctx, tx, []later.Request{{Args: raw(`{}`)}, {Args: raw(`{}`), Options: o.opts}})
				if err != nil {
					t.Fatal(err)
				}
				w.commit(tx)
				w.keepsOption(single, o.change)
				w.keepsOption(many[1].ID, o.change)
			})
		}
	})

	t.Run("many jobs get their ids in the order of the requests", func(t *testing.T) {
		w := start(t)
		var requests []later.Request
		for i := range 200 {
			requests = append(requests, later.Request{Args: raw(fmt.Sprint(i))})
		}
		tx := w.begin()
		done, err := w.tx.EnqueueMany(w.ctx, tx, requests)
		if err != nil {
			t.Fatal(err)
		}
		none, err := w.tx.EnqueueMany(w.ctx, tx, nil)
		if len(none) != 0 || err != nil {
			t.Errorf("EnqueueManyTx of nothing: got %v, %v", none, err)
		}
		w.commit(tx)
		equal(t, "results", len(done), len(requests))
		for i, d := range done {
			equal(t, "payload", string(w.find(d.ID).Payload), fmt.Sprint(i))
		}
	})
}

// claimsNothing looks for a job while another transaction is open; it may have
// to wait for that, and does not for long.
func (w *txWorld[TX]) claimsNothing() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
	defer cancel()
	req := ask(10)
	req.Lease = short // should the claim take place after all, then for nothing
	jobs, err := w.store.Claim(ctx, req)
	if len(jobs) != 0 {
		w.t.Fatalf("Claim: got job %d, want none", jobs[0].ID)
	}
	if err != nil && !later.IsTransient(err) && !errors.Is(err, context.DeadlineExceeded) {
		w.t.Fatalf("Claim: %v", err)
	}
}

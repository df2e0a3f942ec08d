package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

// TestGate is about transactions of the application beside the store's writer.
func TestGate(t *testing.T) {
	open := func(t *testing.T, config sqlite.Config) *sqlite.Store {
		t.Helper()
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "later.db"), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		if _, err := store.DB().ExecContext(t.Context(), "create table effect (n integer)"); err != nil {
			t.Fatal(err)
		}
		return store
	}

	// Cases 82 and 152: handlers with transactions of their own must not keep the
	// renewals and settles waiting until the leases have ended.
	t.Run("forty handlers that write leave the writer its turn", func(t *testing.T) {
		store := open(t, sqlite.Config{})
		ctx, stop := context.WithCancel(t.Context())
		var commits atomic.Int64
		busy := make(chan struct{})
		var handlers sync.WaitGroup
		for range 40 {
			handlers.Go(func() {
				for ctx.Err() == nil {
					tx, err := store.DB().BeginTx(ctx, nil)
					if err != nil {
						continue
					}
					_, err = tx.ExecContext(ctx, "insert into effect (n) values (1)")
					if err == nil && tx.Commit() == nil {
						if commits.Add(1) == 100 {
							close(busy)
						}
					} else {
						tx.Rollback()
					}
				}
			})
		}
		<-busy
		const turns = 40
		before := commits.Load()
		for range turns {
			if _, err := store.Enqueue(ctx, later.RawArgs{JobKind: "x", Payload: []byte(`{}`)}, later.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		got := commits.Load() - before
		stop()
		handlers.Wait()
		// They take turns: 40 or 41 measured, and 105 to 262 without the gate.
		if got > 2*turns {
			t.Errorf("got %d transactions of the application during %d enqueues, want at most %d", got, turns, 2*turns)
		}
	})

	t.Run("a transaction that waits for another of its process ends with its context", func(t *testing.T) {
		store := open(t, sqlite.Config{})
		tx, err := store.DB().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := store.DB().BeginTx(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})

	t.Run("a transaction inside another is refused after the busy timeout, and the next one works", func(t *testing.T) {
		store := open(t, sqlite.Config{BusyTimeout: 50 * time.Millisecond})
		tx, err := store.DB().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.DB().BeginTx(t.Context(), nil); err == nil {
			t.Fatal("got a second writing transaction, want an error")
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		again, err := store.DB().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Rollback(); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("a read-only transaction does not wait for a writing one", func(t *testing.T) {
		store := open(t, sqlite.Config{})
		tx, err := store.DB().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		read, err := store.DB().BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer read.Rollback()
		var n int
		if err := read.QueryRowContext(t.Context(), "select count(*) from effect").Scan(&n); err != nil {
			t.Fatal(err)
		}
	})
}

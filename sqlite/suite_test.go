package sqlite_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
	"github.com/later-queue/later/storetest"
)

// The store contract's suite is the specification; it runs on a file and on a
// database in memory.
func TestContract(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) later.Store { return openStore(t, tempFile(t), sqlite.Config{}) })
	})
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) later.Store { return openStore(t, ":memory:", sqlite.Config{}) })
	})
}

// The part of the contract that is about limits.
func TestLimitsContract(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		storetest.Limits(t, func(t *testing.T) (later.Store, func(t *testing.T) later.Store) {
			path := tempFile(t)
			return openStore(t, path, sqlite.Config{}), func(t *testing.T) later.Store { return openStore(t, path, sqlite.Config{}) }
		})
	})
	t.Run("memory", func(t *testing.T) {
		storetest.Limits(t, func(t *testing.T) (later.Store, func(t *testing.T) later.Store) {
			return openStore(t, ":memory:", sqlite.Config{}), nil
		})
	})
}

// The part of the contract that is about the callers' transactions. It is for
// files: in memory, an open transaction that has written makes readers wait.
func TestTxContract(t *testing.T) {
	inTx := func(s *sqlite.Store, db *sql.DB) storetest.Tx[*sql.Tx] {
		return storetest.Tx[*sql.Tx]{
			Begin:    func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) },
			Commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
			Rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
			Exec: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "select 1")
				return err
			},
			Enqueue:     s.EnqueueSQLTx,
			EnqueueMany: s.EnqueueManySQLTx,
			Done:        s.DoneSQLTx,
		}
	}
	t.Run("of the store's DB", func(t *testing.T) {
		storetest.RunTx(t, func(t *testing.T) (later.Store, storetest.Tx[*sql.Tx]) {
			s := openStore(t, tempFile(t), sqlite.Config{})
			return s, inTx(s, s.DB())
		})
	})
	// An application may open the file itself. Its transactions begin deferred
	// then, and take the write lock with their first write.
	t.Run("of the application's own DB", func(t *testing.T) {
		storetest.RunTx(t, func(t *testing.T) (later.Store, storetest.Tx[*sql.Tx]) {
			path := tempFile(t)
			s := openStore(t, path, sqlite.Config{})
			return s, inTx(s, plain(t, path, "busy_timeout(10000)"))
		})
	})
}

func TestTenantsContract(t *testing.T) {
	storetest.RunTenants(t, func(t *testing.T) later.Store { return openStore(t, tempFile(t), sqlite.Config{}) })
}

// The part of the contract that is about rows that people write by hand.
func TestByHandContract(t *testing.T) {
	storetest.RunByHand(t, func(t *testing.T) (later.Store, storetest.Hand) {
		path := tempFile(t)
		s := openStore(t, path, sqlite.Config{})
		db := plain(t, path, "busy_timeout(10000)")
		return s, storetest.Hand{Job: "later_job", DeadJob: "later_dead_job", Exec: func(ctx context.Context, statement string) error {
			_, err := db.ExecContext(ctx, statement)
			return err
		}}
	})
}

package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

func TestEnqueueTx(t *testing.T) {
	// Case 206.
	t.Run("shares the fate of what the application writes", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{})
		mustExec(t, s.DB(), `create table users (id integer primary key, name text)`)
		for _, commit := range []bool{false, true} {
			tx := begin(t, s.DB())
			mustExec(t, tx, `insert into users (name) values ('ada')`)
			if _, err := s.EnqueueSQLTx(t.Context(), tx, work, later.Options{}); err != nil {
				t.Fatal(err)
			}
			if commit {
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
			} else if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			want := 0
			if commit {
				want = 1
			}
			if got := one[int](t, s.DB(), `select count(*) from users`); got != want {
				t.Errorf("commit %v: %d users, want %d", commit, got, want)
			}
			if got := len(claim(t, s, 5)); got != want {
				t.Errorf("commit %v: %d jobs, want %d", commit, got, want)
			}
		}
	})

	// Case 161.
	t.Run("takes back only its own part when it fails in SQL", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{})
		mustExec(t, s.DB(), `create table orders (id integer primary key)`)
		mustExec(t, s.DB(), `create trigger refuse before insert on later_job when new.kind = 'refused' begin select raise(abort, 'refused'); end`)
		tx := begin(t, s.DB())
		mustExec(t, tx, `insert into orders default values`)
		_, err := s.EnqueueManySQLTx(t.Context(), tx, []later.Request{
			{Args: work}, {Args: work}, {Args: later.RawArgs{JobKind: "refused", Payload: []byte(`{}`)}}, {Args: work},
		})
		wantErrorText(t, err, "refused")
		mustExec(t, tx, `insert into orders default values`)
		if _, err := s.EnqueueSQLTx(t.Context(), tx, work, later.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := one[int](t, s.DB(), `select count(*) from orders`); got != 2 {
			t.Errorf("%d orders, want 2", got)
		}
		if got := len(claim(t, s, 9)); got != 1 {
			t.Errorf("%d jobs, want 1", got)
		}
	})

	t.Run("says when the tables are missing, and leaves the transaction usable", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{NoMigrate: true})
		mustExec(t, s.DB(), `create table orders (id integer primary key)`)
		tx := begin(t, s.DB())
		_, err := s.EnqueueSQLTx(t.Context(), tx, work, later.Options{})
		wantError(t, err, later.ErrSchema)
		wantErrorText(t, err, "later migrate up")
		mustExec(t, tx, `insert into orders default values`)
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	})

	t.Run("does nothing when its context has ended, and leaves the transaction usable", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{})
		tx := begin(t, s.DB())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.EnqueueSQLTx(ctx, tx, work, later.Options{})
		wantError(t, err, context.Canceled)
		if _, err := s.EnqueueSQLTx(t.Context(), tx, work, later.Options{}); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if got := len(claim(t, s, 9)); got != 1 {
			t.Errorf("%d jobs, want 1", got)
		}
	})

	t.Run("refuses a nil transaction", func(t *testing.T) {
		s := openStore(t, ":memory:", sqlite.Config{})
		_, err := s.EnqueueSQLTx(t.Context(), nil, work, later.Options{})
		wantErrorText(t, err, "transaction is nil")
	})

	// Case 62: SQLite's clock does not stand still in a transaction.
	t.Run("counts a delay from the call, not from the transaction's begin", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{})
		tx := begin(t, s.DB())
		clock := `select cast(round((julianday('now') - 2440587.5) * 86400000) as integer)`
		begun := one[int64](t, s.DB(), clock)
		now := begun
		for now <= begun+2 {
			now = one[int64](t, s.DB(), clock)
		}
		done, err := s.EnqueueSQLTx(t.Context(), tx, work, later.Options{Delay: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := one[int64](t, s.DB(), `select run_at from later_job where id = ?`, done.ID); got < now+30_000 {
			t.Errorf("run_at %d, want at least %d", got, now+30_000)
		}
	})
}

// Case 152: a nested write waits for its own transaction; it gives up and says
// what to do instead.
func TestNestedWrite(t *testing.T) {
	for _, path := range []string{tempFile(t), ":memory:"} {
		s := openStore(t, path, sqlite.Config{BusyTimeout: 60 * time.Millisecond})
		tx := begin(t, s.DB())
		_, err := s.Enqueue(t.Context(), work, later.Options{})
		wantError(t, err, later.ErrUnavailable)
		wantErrorText(t, err, "inside a transaction of your own use EnqueueSQLTx")

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		_, err = s.Enqueue(ctx, work, later.Options{})
		wantError(t, err, context.DeadlineExceeded)

		if _, err := s.EnqueueSQLTx(t.Context(), tx, work, later.Options{}); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if got := len(claim(t, s, 9)); got != 1 {
			t.Errorf("%s: %d jobs, want the one of EnqueueSQLTx", path, got)
		}
	}
}

func TestDoneTx(t *testing.T) {
	t.Run("ends a job and its effect together, exactly once", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{})
		mustExec(t, s.DB(), `create table effects (job integer)`)
		enqueue(t, s, later.Options{})
		first := claimOne(t, s)
		// Its lease ends, and another worker claims the job.
		mustExec(t, s.DB(), `update later_job set lease_until = 1`)
		second := claimOne(t, s)
		for _, c := range []*later.Claimed{first, second, second} {
			tx := begin(t, s.DB())
			mustExec(t, tx, `insert into effects values (?)`, c.ID)
			if err := s.DoneSQLTx(t.Context(), tx, c); err != nil {
				wantError(t, err, later.ErrLeaseLost)
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if got := one[int](t, s.DB(), `select count(*) from effects`); got != 1 {
			t.Errorf("%d effects, want 1", got)
		}
		_, err := s.EnqueueSQLTx(t.Context(), nil, nil, later.Options{})
		if !errors.Is(err, later.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNoLog(t *testing.T) {
	s := openStore(t, tempFile(t), sqlite.Config{NoLog: true})
	enqueue(t, s, later.Options{})
	enqueue(t, s, later.Options{})
	enqueue(t, s, later.Options{})
	settle(t, s, later.Settlement{Lease: claimOne(t, s).Lease, Outcome: later.OutcomeDone})
	held := claimOne(t, s)
	tx := begin(t, s.DB())
	if err := s.DoneSQLTx(t.Context(), tx, held); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if got := one[int](t, s.DB(), `select count(*) from later_job_log`); got != 0 {
		t.Errorf("%d log rows, want 0", got)
	}
	_, err := s.Find(t.Context(), 1)
	wantError(t, err, later.ErrNotFound)
}

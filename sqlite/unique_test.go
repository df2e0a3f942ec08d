package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

func enqueueKey(t *testing.T, s *sqlite.Store, u later.Unique) later.Enqueued {
	t.Helper()
	done, err := s.Enqueue(t.Context(), work, later.Options{Unique: &u})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// A transaction that begins deferred, as those of database/sql do, must not read before
// it writes: SQLite would refuse its writes when somebody else has written in between.
func TestUniqueInDeferredTransactions(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, sqlite.Config{})
	const writers, rounds = 8, 25
	var running sync.WaitGroup
	for n := range writers {
		db := plain(t, path, "busy_timeout(20000)")
		running.Go(func() {
			for i := range rounds {
				err := inTx(t.Context(), db, func(tx *sql.Tx) error {
					_, err := s.EnqueueSQLTx(t.Context(), tx, work, later.Options{
						Unique: &later.Unique{Key: fmt.Sprint((i + n) % rounds), OnConflict: later.Replace},
					})
					return err
				})
				if err != nil {
					t.Errorf("writer %d: %v", n, err)
					return
				}
			}
		})
	}
	running.Wait()
	if got := one[int](t, s.DB(), `select count(*) from later_job`); got != rounds {
		t.Errorf("got %d jobs, want %d", got, rounds)
	}
}

func inTx(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func TestUniqueByHand(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, sqlite.Config{})
	db := plain(t, path)
	const insert = `insert into later_job (kind, payload, unique_key) values ('work', '{}', 'k')`

	t.Run("a plain insert takes the key, and a second one is refused", func(t *testing.T) {
		mustExec(t, db, insert)
		id := one[int64](t, db, `select id from later_job where unique_key = 'k'`)
		if _, err := db.Exec(insert); err == nil || !strings.Contains(err.Error(), "UNIQUE") {
			t.Errorf("a second insert: got %v, want it refused", err)
		}
		mustExec(t, db, insert+` on conflict do nothing`)
		if got, want := enqueueKey(t, s, later.Unique{Key: "k"}), (later.Enqueued{ID: id, Outcome: later.Skipped, Holder: later.StateReady}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		mustExec(t, db, `update later_job set unique_key = null where id = ?`, id)
		if got := enqueueKey(t, s, later.Unique{Key: "k"}); got.Outcome != later.Inserted {
			t.Errorf("after the key was freed: got %+v, want a new job", got)
		}
	})

	t.Run("nonsense is refused", func(t *testing.T) {
		for _, row := range []struct{ key, until, constraint string }{
			{`''`, `null`, "unique_key_is_printable"}, {`'a' || char(10)`, `null`, "unique_key_is_printable"},
			{`'a' || char(0)`, `null`, "unique_key_is_printable"}, {`char(127)`, `null`, "unique_key_is_printable"},
			{`char(133)`, `null`, "unique_key_is_printable"}, {`'` + strings.Repeat("k", 201) + `'`, `null`, "unique_key_is_printable"},
			{`'k2'`, `'window'`, "unique_until_is_done_or_started"}, {`'k2'`, `''`, "unique_until_is_done_or_started"},
		} {
			_, err := db.Exec(fmt.Sprintf(`insert into later_job (kind, payload, unique_key, unique_until) values ('work', '{}', %s, %s)`, row.key, row.until))
			if err == nil || !strings.Contains(err.Error(), row.constraint) {
				t.Errorf("%.20s until %s: got %v, want %s", row.key, row.until, err, row.constraint)
			}
		}
	})
}

// Case 229: a program from before the keys claims a job that is unique until it starts,
// and buries one that is unique until it is done.
func TestUniqueBesideOlderPrograms(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, sqlite.Config{})
	db := plain(t, path)
	started, done := later.Unique{Key: "started", Until: later.UntilStarted}, later.Unique{Key: "done"}
	lost := enqueueKey(t, s, later.Unique{Key: "lost", Until: later.UntilStarted})
	mustExec(t, db, `update later_job set attempt = 1, lease_until = 2, lease_token = 7, lease_holder = 'old', claimed_at = 1`)
	claimOne(t, s)
	if got := one[int](t, db, `select count(*) from later_job where unique_key is not null`); got != 0 {
		t.Errorf("job %d has its key still, although it was claimed twice", lost.ID)
	}
	first, second := enqueueKey(t, s, started), enqueueKey(t, s, done)
	mustExec(t, db, `update later_job set attempt = 1, lease_until = 4102444800000, lease_token = 7, lease_holder = 'old', claimed_at = 1 where unique_key is not null`)
	next := enqueueKey(t, s, started)
	if next.Outcome != later.Inserted || next.ID == first.ID {
		t.Errorf("got %+v, want a new job, because job %d has started", next, first.ID)
	}
	if got := enqueueKey(t, s, done); got.ID != second.ID || got.Outcome != later.Skipped || got.Holder != later.StateRunning {
		t.Errorf("got %+v, want job %d, which runs", got, second.ID)
	}
	mustExec(t, db, `insert or replace into later_dead_job (id, queue, priority, tenant, kind, run_at, attempt, max_attempts, timeout_ms, expires_at,
		created_at, failures, crashes, generation, headers, errors, checkpoint, payload, died_at, reason, error)
		select id, queue, priority, tenant, kind, run_at, attempt, max_attempts, timeout_ms, expires_at,
		created_at, failures, crashes, generation, headers, errors, checkpoint, payload, 1, 'failed', 'x' from later_job where id = ?`, second.ID)
	mustExec(t, db, `delete from later_job where id = ?`, second.ID)
	if got := enqueueKey(t, s, done); got.Outcome != later.Inserted {
		t.Errorf("got %+v, want a new job", got)
	}
	if err := s.Retry(t.Context(), second.ID); err != nil {
		t.Errorf("Retry of a job whose key the older program did not keep: %v", err)
	}
}

func TestMaintainForgetsWindows(t *testing.T) {
	s := openStore(t, tempFile(t), sqlite.Config{})
	held := enqueueKey(t, s, later.Unique{Key: "held", Until: later.ForWindow, Window: time.Hour})
	mustExec(t, s.DB(), `with recursive n (i) as (select 1 union all select i + 1 from n where i < 2500)
		insert into later_key_window (tenant, kind, key, ends_at, job_id) select '', 'work', 'key-' || i, i, i from n`)
	if err := s.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, s.DB(), `select group_concat(key || ' ' || job_id) from later_key_window`); got != fmt.Sprintf("held %d", held.ID) {
		t.Errorf("got %s, want the window that has not ended", got)
	}
}

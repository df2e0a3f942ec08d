package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// blockedStore is a store on a file whose write lock another connection holds.
func blockedStore(t *testing.T, config Config) (s *Store, path string, unlock func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "later.db")
	s, err := Open(t.Context(), path, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, path, lock(t, path)
}

// lock takes the write lock of the file from outside of the store.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() { tx.Rollback(); db.Close() })
	t.Cleanup(unlock)
	return unlock
}

func job() []later.NewJob {
	j, err := later.Build(later.RawArgs{JobKind: "work", Payload: []byte(`{}`)}, later.Options{})
	if err != nil {
		panic(err)
	}
	return []later.NewJob{j}
}

func count(t *testing.T, s *Store, query string, args ...any) (n int) {
	t.Helper()
	if err := s.DB().QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const countJobs = `select count(*) from later_job`

// until polls for what the writer's goroutine does by itself.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		pause(t.Context(), time.Millisecond)
	}
}

// queued waits until the writer has taken up n operations after the migration.
func queued(t *testing.T, s *Store, n int64) {
	t.Helper()
	until(t, "the operations have queued up", func() bool { return s.writer.taken.Load() == 1+n })
}

// commits counts the commit frames in the file's WAL (section 4 of SQLite's file
// format).
func commits(t *testing.T, path string) (n int) {
	t.Helper()
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	page := int(binary.BigEndian.Uint32(wal[8:12]))
	salts := string(wal[16:24])
	for at := 32; at+24 <= len(wal); at += 24 + page {
		if string(wal[at+8:at+16]) == salts && binary.BigEndian.Uint32(wal[at+4:at+8]) != 0 {
			n++
		}
	}
	return n
}

func TestWriter(t *testing.T) {
	t.Run("commits together what has queued up", func(t *testing.T) {
		s, path, unlock := blockedStore(t, Config{})
		before := commits(t, path)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := s.Insert(t.Context(), job()); err != nil {
					t.Error(err)
				}
			})
		}
		queued(t, s, 100)
		unlock()
		wg.Wait()
		if got := count(t, s, countJobs); got != 100 {
			t.Errorf("%d jobs, want 100", got)
		}
		if got := commits(t, path) - before; got != 1 {
			t.Errorf("%d commits, want 1", got)
		}
	})

	t.Run("takes back an operation that fails, and keeps the others", func(t *testing.T) {
		s, _, unlock := blockedStore(t, Config{})
		fault := errors.New("fault")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				err := s.writer.do(t.Context(), 1, func(tx *writeTx) error {
					if _, err := insert(tx, job()); err != nil {
						return err
					}
					if i%2 == 0 {
						return fault
					}
					return nil
				})
				if (i%2 == 0) != errors.Is(err, fault) {
					t.Errorf("operation %d: %v", i, err)
				}
			})
		}
		queued(t, s, 20)
		unlock()
		wg.Wait()
		if got := count(t, s, countJobs); got != 10 {
			t.Errorf("%d jobs, want 10", got)
		}
	})

	t.Run("does what can be done after a failure that rolled back everything", func(t *testing.T) {
		s, _, unlock := blockedStore(t, Config{})
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				err := s.writer.do(t.Context(), 1, func(tx *writeTx) error {
					if _, err := insert(tx, job()); err != nil {
						return err
					}
					if i == 5 { // as SQLite does after some errors
						if err := tx.script("rollback"); err != nil {
							return err
						}
						return errors.New("fault")
					}
					return nil
				})
				if (i == 5) != (err != nil) {
					t.Errorf("operation %d: %v", i, err)
				}
			})
		}
		queued(t, s, 10)
		unlock()
		wg.Wait()
		if got := count(t, s, countJobs); got != 9 {
			t.Errorf("%d jobs, want 9", got)
		}
	})

	t.Run("bounds a transaction", func(t *testing.T) {
		s, path, unlock := blockedStore(t, Config{})
		before := commits(t, path)
		var wg sync.WaitGroup
		for range 2 * maxBatch {
			wg.Go(func() {
				if _, err := s.Insert(t.Context(), job()); err != nil {
					t.Error(err)
				}
			})
		}
		queued(t, s, maxBatch)
		unlock()
		wg.Wait()
		if got := commits(t, path) - before; got < 2 {
			t.Errorf("%d commits, want at least 2", got)
		}
	})

	// Case 157: the lock is held by others for a while.
	t.Run("waits for the write lock", func(t *testing.T) {
		s, _, unlock := blockedStore(t, Config{})
		done := make(chan error)
		go func() {
			_, err := s.Insert(t.Context(), job())
			done <- err
		}()
		until(t, "the writer is blocked", s.writer.blocked.Load)
		unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	t.Run("gives up after the busy timeout, and says what may be wrong", func(t *testing.T) {
		s, _, unlock := blockedStore(t, Config{BusyTimeout: 50 * time.Millisecond})
		_, err := s.Insert(t.Context(), job())
		if !errors.Is(err, later.ErrUnavailable) || !strings.Contains(err.Error(), "use EnqueueSQLTx") {
			t.Errorf("got %v, want ErrUnavailable with an advice", err)
		}
		unlock()
		if _, err := s.Insert(t.Context(), job()); err != nil {
			t.Errorf("after the lock was freed: %v", err)
		}
		if got := count(t, s, countJobs); got != 1 {
			t.Errorf("%d jobs, want 1", got)
		}
	})

	t.Run("drops an operation that has not begun when its caller's context ends", func(t *testing.T) {
		s, _, unlock := blockedStore(t, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.Insert(ctx, job())
			done <- err
		}()
		until(t, "the writer is blocked", s.writer.blocked.Load)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, later.ErrUnavailable) {
			t.Errorf("got %v, want context.Canceled and ErrUnavailable", err)
		}
		unlock()
		if _, err := s.Insert(t.Context(), job()); err != nil {
			t.Fatal(err)
		}
		if got := count(t, s, countJobs); got != 1 {
			t.Errorf("%d jobs, want 1: what was dropped was stored", got)
		}
	})

	t.Run("finishes an operation that has begun when its caller's context ends", func(t *testing.T) {
		s, err := Open(t.Context(), ":memory:", Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		err = s.writer.do(ctx, 1, func(tx *writeTx) error {
			cancel()
			_, err := insert(tx, job())
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if got := count(t, s, countJobs); got != 1 {
			t.Errorf("%d jobs, want 1", got)
		}
	})

	t.Run("ends at Close although the lock is held", func(t *testing.T) {
		s, _, _ := blockedStore(t, Config{})
		done := make(chan error)
		go func() {
			_, err := s.Insert(t.Context(), job())
			done <- err
		}()
		until(t, "the writer is blocked", s.writer.blocked.Load)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, later.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})

	t.Run("goes on with a new connection when the old one is broken", func(t *testing.T) {
		s, err := Open(t.Context(), filepath.Join(t.TempDir(), "later.db"), Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		err = s.writer.do(t.Context(), 1, func(tx *writeTx) error {
			if _, err := insert(tx, job()); err != nil {
				return err
			}
			return driver.ErrBadConn
		})
		if !errors.Is(err, driver.ErrBadConn) || s.writer.tx != nil {
			t.Errorf("got %v and the connection %v, want driver.ErrBadConn and none", err, s.writer.tx)
		}
		if _, err := s.Insert(t.Context(), job()); err != nil {
			t.Error(err)
		}
		if got := count(t, s, countJobs); got != 1 {
			t.Errorf("%d jobs, want 1", got)
		}
	})
}

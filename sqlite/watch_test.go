package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/later-queue/later"
)

func openFile(t *testing.T) (s *Store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "later.db")
	s, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, path
}

func openMemory(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), ":memory:", Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// waitingFor is a watch that waits for jobs of the queue default.
func waitingFor(t *testing.T, s *Store) later.Watch {
	t.Helper()
	w := s.Watch("worker-1", []string{"other", later.DefaultQueue})
	t.Cleanup(w.Close)
	wait(t, w)
	return w
}

func wait(t *testing.T, w later.Watch) {
	t.Helper()
	if heard, err := w.Waiting(t.Context()); err != nil || !heard {
		t.Fatalf("Waiting: %v, %v, want true", heard, err)
	}
}

func woken(w later.Watch) bool {
	select {
	case <-w.Wakes():
		return true
	default:
		return false
	}
}

// wokenSoon is for what shows in the file.
func wokenSoon(t *testing.T, w later.Watch) {
	t.Helper()
	select {
	case <-w.Wakes():
	case <-time.After(30 * time.Second):
		t.Error("not woken")
	}
}

// settled waits until the file has been at rest for so long that nothing more is
// said about earlier writes.
func settled(t *testing.T, s *Store, w later.Watch) {
	t.Helper()
	until(t, "the file is at rest", func() bool {
		s.watches.mu.Lock()
		defer s.watches.mu.Unlock()
		return s.watches.seen.settled
	})
	woken(w)
}

func claimed(t *testing.T, s *Store, n int) []*later.Claimed {
	t.Helper()
	list, err := s.Claim(t.Context(), later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: n}}, Limit: n, Kinds: []string{"work"},
		Worker: "worker-1", Token: later.NewToken(), Lease: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What this store commits is told before the call returns, so nothing has to be
// waited for. In memory there is no file that would tell the same once more.
func TestWatchOfThisProcess(t *testing.T) {
	args := later.RawArgs{JobKind: "work", Payload: []byte(`{}`)}
	enqueue := func(t *testing.T, s *Store, opts later.Options) int64 {
		t.Helper()
		done, err := s.Enqueue(t.Context(), args, opts)
		if err != nil {
			t.Fatal(err)
		}
		return done.ID
	}
	settle := func(t *testing.T, s *Store, st later.Settlement) {
		t.Helper()
		st.Lease = claimed(t, s, 1)[0].Lease
		if refused, err := s.Settle(t.Context(), []later.Settlement{st}); err != nil || len(refused) > 0 {
			t.Fatalf("Settle: refused %v, %v", refused, err)
		}
	}
	inTx := func(t *testing.T, s *Store, end func(tx *sql.Tx) error) {
		t.Helper()
		tx, err := s.DB().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.EnqueueSQLTx(t.Context(), tx, args, later.Options{})
		if err := errors.Join(err, end(tx)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		before func(t *testing.T, s *Store)
		do     func(t *testing.T, s *Store)
		want   bool
	}{
		{"an enqueue wakes", nil, func(t *testing.T, s *Store) { enqueue(t, s, later.Options{}) }, true},
		{"an enqueue for later wakes, so that the wait can be shortened", nil,
			func(t *testing.T, s *Store) { enqueue(t, s, later.Options{Delay: time.Second}) }, true},
		{"an enqueue for much later does not wake", nil,
			func(t *testing.T, s *Store) { enqueue(t, s, later.Options{Delay: later.WakeAhead + time.Second}) }, false},
		{"an enqueue into another queue does not wake", nil,
			func(t *testing.T, s *Store) { enqueue(t, s, later.Options{Queue: "elsewhere"}) }, false},
		{"an enqueue that is refused does not wake", nil, func(t *testing.T, s *Store) {
			if _, err := s.Enqueue(t.Context(), later.RawArgs{JobKind: ""}, later.Options{}); err == nil {
				t.Error("no error")
			}
		}, false},
		{"a retry wakes", func(t *testing.T, s *Store) { enqueue(t, s, later.Options{}) },
			func(t *testing.T, s *Store) { settle(t, s, later.Settlement{Outcome: later.OutcomeRetry}) }, true},
		{"a retry much later does not wake", func(t *testing.T, s *Store) { enqueue(t, s, later.Options{}) },
			func(t *testing.T, s *Store) {
				settle(t, s, later.Settlement{Outcome: later.OutcomeRetry, Delay: later.WakeAhead + time.Second})
			}, false},
		{"a snooze wakes", func(t *testing.T, s *Store) { enqueue(t, s, later.Options{}) },
			func(t *testing.T, s *Store) { settle(t, s, later.Settlement{Outcome: later.OutcomeSnoozed}) }, true},
		{"a release wakes", func(t *testing.T, s *Store) { enqueue(t, s, later.Options{}) },
			func(t *testing.T, s *Store) { settle(t, s, later.Settlement{Outcome: later.OutcomeReleased}) }, true},
		{"a job that is done does not wake", func(t *testing.T, s *Store) { enqueue(t, s, later.Options{}) },
			func(t *testing.T, s *Store) { settle(t, s, later.Settlement{Outcome: later.OutcomeDone}) }, false},
		{"a person's retry of a waiting job wakes", func(t *testing.T, s *Store) { enqueue(t, s, later.Options{Delay: time.Hour}) },
			func(t *testing.T, s *Store) {
				if err := s.Retry(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}, true},
		{"a person's retry of dead jobs wakes", func(t *testing.T, s *Store) {
			enqueue(t, s, later.Options{})
			settle(t, s, later.Settlement{Outcome: later.OutcomeDead, Reason: later.DeadFailed})
		}, func(t *testing.T, s *Store) {
			if n, err := s.RetryDead(t.Context(), later.Filter{}); err != nil || n != 1 {
				t.Fatal(n, err)
			}
		}, true},
		{"a transaction of the application that enqueued wakes at its commit", nil,
			func(t *testing.T, s *Store) { inTx(t, s, (*sql.Tx).Commit) }, true},
		{"one that is rolled back does not wake", nil,
			func(t *testing.T, s *Store) { inTx(t, s, (*sql.Tx).Rollback) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openMemory(t)
			if c.before != nil {
				c.before(t, s)
			}
			w := waitingFor(t, s)
			if woken(w) {
				t.Fatal("woken by what was there when the wait began")
			}
			c.do(t, s)
			if got := woken(w); got != c.want {
				t.Errorf("woken: %v, want %v", got, c.want)
			}
		})
	}
	t.Run("a transaction has woken nobody before its commit", func(t *testing.T) {
		s, _ := openFile(t)
		w := waitingFor(t, s)
		settled(t, s, w)
		inTx(t, s, func(tx *sql.Tx) error {
			if woken(w) {
				t.Error("woken before the commit")
			}
			return tx.Commit()
		})
		if !woken(w) {
			t.Error("not woken at the commit")
		}
	})
	t.Run("wake-ups that nobody takes merge into one", func(t *testing.T) {
		s := openMemory(t)
		w := waitingFor(t, s)
		enqueue(t, s, later.Options{})
		enqueue(t, s, later.Options{})
		if !woken(w) || woken(w) {
			t.Error("want one value")
		}
	})
	t.Run("who is busy is not woken, until it waits again", func(t *testing.T) {
		s := openMemory(t)
		w := waitingFor(t, s)
		waitingFor(t, s) // another worker, which goes on waiting
		w.Busy()
		w.Busy()
		enqueue(t, s, later.Options{})
		if woken(w) {
			t.Error("woken while busy")
		}
		wait(t, w)
		enqueue(t, s, later.Options{})
		if !woken(w) {
			t.Error("not woken")
		}
	})
	t.Run("each of several watches is woken", func(t *testing.T) {
		s := openMemory(t)
		one, two := waitingFor(t, s), waitingFor(t, s)
		enqueue(t, s, later.Options{})
		if !woken(one) || !woken(two) {
			t.Error("want both woken")
		}
	})
}

// What others write shows in the file (case 169 for those who miss it otherwise).
func TestWatchOfOthers(t *testing.T) {
	t.Run("another store's commit", func(t *testing.T) {
		s, path := openFile(t)
		other, err := Open(t.Context(), path, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		w := waitingFor(t, s)
		for range 3 {
			settled(t, s, w)
			if _, err := other.Insert(t.Context(), job()); err != nil {
				t.Fatal(err)
			}
			wokenSoon(t, w)
		}
	})
	t.Run("plain SQL of another program, and after a rest", func(t *testing.T) {
		s, path := openFile(t)
		db, err := sql.Open("sqlite", "file:"+path+"?_busy_timeout=10000")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		w := waitingFor(t, s)
		settled(t, s, w)
		w.Busy()
		wait(t, w)
		if _, err := db.Exec(`insert into later_job (kind, payload) values ('work', '{}')`); err != nil {
			t.Fatal(err)
		}
		wokenSoon(t, w)
	})
	t.Run("what is committed before the wait begins is found by the claim behind it", func(t *testing.T) {
		s, path := openFile(t)
		other, err := Open(t.Context(), path, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		w := s.Watch("worker-1", []string{later.DefaultQueue})
		defer w.Close()
		if _, err := other.Insert(t.Context(), job()); err != nil {
			t.Fatal(err)
		}
		wait(t, w)
		if got := len(claimed(t, s, 5)); got != 1 {
			t.Errorf("claimed %d jobs, want 1", got)
		}
	})
	// A file's time comes from the system's tick: of two commits within one of
	// them, the second may leave the file as it was.
	t.Run("a write just before the last look counts once more", func(t *testing.T) {
		at := time.Now()
		recent := walState{exists: true, size: 4096, mtime: at}
		old := walState{exists: true, size: 4096, mtime: at, settled: true}
		if !recent.changed(old) {
			t.Error("a file that had just been written counts as unchanged")
		}
		if old.changed(old) {
			t.Error("a file at rest counts as changed")
		}
	})
	// Else two idle processes would wake each other for ever.
	t.Run("claims that find nothing do not show", func(t *testing.T) {
		s, path := openFile(t)
		other, err := Open(t.Context(), path, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		w := waitingFor(t, s)
		settled(t, s, w)
		before, err := s.watches.file.state()
		if err != nil || !before.exists {
			t.Fatalf("the WAL file: %+v, %v", before, err)
		}
		for _, store := range []*Store{s, other} {
			claimed(t, store, 5)
			if _, _, err := store.NextDue(t.Context(), []string{later.DefaultQueue}, []string{"work"}); err != nil {
				t.Fatal(err)
			}
		}
		after, err := s.watches.file.state()
		if err != nil || before.changed(after) {
			t.Errorf("the WAL file: %+v, and then %+v, %v", before, after, err)
		}
	})
}

func TestWatchEnds(t *testing.T) {
	t.Run("with Close, and nothing of it runs any more", func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		s, _ := openFile(t)
		w := waitingFor(t, s)
		w.Close()
		w.Close()
		if heard, err := w.Waiting(t.Context()); heard || err != nil {
			t.Errorf("Waiting after Close: %v, %v, want false", heard, err)
		}
		if _, err := s.Insert(t.Context(), job()); err != nil {
			t.Fatal(err)
		}
		if woken(w) {
			t.Error("woken after Close")
		}
		again := waitingFor(t, s)
		if _, err := s.Insert(t.Context(), job()); err != nil {
			t.Fatal(err)
		}
		wokenSoon(t, again)
		again.Close()
		if s.watches.stop != nil {
			t.Error("the file is still looked at after the last Close")
		}
		select {
		case <-s.watches.ended:
		default:
			t.Error("Close returned before the last look had ended")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		goleak.VerifyNone(t, before)
	})
	t.Run("with the store", func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		s, _ := openFile(t)
		w := waitingFor(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		goleak.VerifyNone(t, before)
		w.Busy()
		if _, err := w.Waiting(t.Context()); !errors.Is(err, later.ErrClosed) {
			t.Errorf("Waiting: %v, want ErrClosed", err)
		}
		w.Close()
	})
	t.Run("a context that has ended is said at once", func(t *testing.T) {
		s := openMemory(t)
		w := s.Watch("worker-1", nil)
		defer w.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Waiting(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

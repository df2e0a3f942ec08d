package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// A file that is removed or replaced under its users is told about: a job must
// not be stored where nobody looks.
func TestFileGone(t *testing.T) {
	for _, how := range []struct {
		name string
		do   func(path string) error
	}{
		{"removed", os.Remove},
		{"replaced", func(path string) error {
			if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "later.db")
			s, err := Open(t.Context(), path, Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Insert(t.Context(), job()); err != nil {
				t.Fatal(err)
			}
			if err := how.do(path); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Insert(t.Context(), job()); !errors.Is(err, later.ErrUnavailable) || !errors.Is(err, errFileGone) {
				t.Errorf("got %v, want that the file is gone", err)
			}
		})
	}
}

// Case 155: a full disk, as SQLite's limit of pages has it.
func TestFull(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "later.db"), Config{LogRetention: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	big := job()
	big[0].Payload = []byte(fmt.Sprintf("%q", strings.Repeat("x", 20_000)))

	// A job that runs, and some history.
	first, err := s.Insert(ctx, job())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := s.Insert(ctx, job()); err != nil {
			t.Fatal(err)
		}
	}
	claimed, err := s.Claim(ctx, later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: "default", Limit: 2}}, Limit: 2, Kinds: []string{"work"},
		Worker: "worker-1", Token: later.NewToken(), Lease: time.Hour,
	})
	if err != nil || len(claimed) != 2 || claimed[0].ID != first[0].ID {
		t.Fatalf("claimed %v, %v", claimed, err)
	}
	done := func(c *later.Claimed) later.Settlement {
		return later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDone}
	}
	if _, err := s.Settle(ctx, []later.Settlement{done(claimed[0])}); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		t.Helper()
		err := s.writer.do(ctx, 1, func(tx *writeTx) error {
			return tx.script(fmt.Sprintf("pragma max_page_count = %d", pages))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(count(t, s, "pragma page_count") + 2)

	if _, err := s.Insert(ctx, big); !errors.Is(err, later.ErrFull) {
		t.Errorf("Insert into a full database: %v, want ErrFull", err)
	}
	if _, err := s.Settle(ctx, []later.Settlement{done(claimed[1])}); err != nil {
		t.Errorf("settling while the database is full: %v", err)
	}
	until(t, "Maintain has emptied the log", func() bool { // not in the millisecond of the last row
		if err := s.Maintain(ctx); err != nil {
			t.Fatalf("Maintain while the database is full: %v", err)
		}
		return count(t, s, "select count(*) from later_job_log") == 0
	})

	// In one transaction with what does not fit, others get through.
	unlock := lock(t, s.path(t))
	taken := s.writer.taken.Load()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Insert(ctx, big); !errors.Is(err, later.ErrFull) {
			t.Errorf("Insert into a full database: %v, want ErrFull", err)
		}
	})
	wg.Go(func() {
		if err := s.Delete(ctx, first[0].ID+2); err != nil {
			t.Errorf("Delete beside an Insert that does not fit: %v", err)
		}
	})
	until(t, "both have queued up", func() bool { return s.writer.taken.Load() == taken+2 })
	unlock()
	wg.Wait()

	limit(1 << 30)
	if _, err := s.Insert(ctx, big); err != nil {
		t.Errorf("Insert after there is space again: %v", err)
	}
	if got := count(t, s, "select count(*) from later_job where length(payload) > 10000"); got != 1 {
		t.Errorf("%d big jobs, want 1", got)
	}
}

// path is the file's.
func (s *Store) path(t *testing.T) (path string) {
	t.Helper()
	if err := s.DB().QueryRow("select file from pragma_database_list where name = 'main'").Scan(&path); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file that cannot be written for a while, as case 148 has it for a server
// that turned read-only: the connection is given up, and the next one works.
func TestReadOnly(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "later.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.writer.do(t.Context(), 1, func(tx *writeTx) error { return tx.script("pragma query_only = 1") })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Insert(t.Context(), job()); !errors.Is(err, later.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if _, err := s.Insert(t.Context(), job()); err != nil {
		t.Errorf("with a new connection: %v", err)
	}
	if got := count(t, s, countJobs); got != 1 {
		t.Errorf("%d jobs, want 1", got)
	}
}

// A damaged file is an error that says so, and no reason to try again.
func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "later.db")
	s, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Insert(t.Context(), job()); err != nil {
		t.Fatal(err)
	}
	page := count(t, s, "pragma page_size")
	root := count(t, s, "select rootpage from sqlite_schema where name = 'later_job'")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range page {
		content[(root-1)*page+i] = 0xa5
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), path, Config{NoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Insert(t.Context(), job())
	if err == nil || later.IsTransient(err) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Insert: got %v, want a lasting error that says damaged", err)
	}
	if _, err = s.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Status: got %v, want an error that says damaged", err)
	}
}

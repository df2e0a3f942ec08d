package sqlite_test

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

// openStore returns a store that is closed when the test ends.
func openStore(t *testing.T, path string, config sqlite.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func tempFile(t *testing.T) string { return filepath.Join(t.TempDir(), "later.db") }

// plain opens the file as any other program would, with the pragmas given, such
// as busy_timeout(5000).
func plain(t *testing.T, path string, pragmas ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?"+url.Values{"_pragma": pragmas}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t *testing.T, db interface {
	Exec(query string, args ...any) (sql.Result, error)
}, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func one[T any](t *testing.T, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var value T
	if err := db.QueryRow(query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func enqueue(t *testing.T, s *sqlite.Store, opts later.Options) int64 {
	t.Helper()
	done, err := s.Enqueue(t.Context(), work, opts)
	if err != nil {
		t.Fatal(err)
	}
	return done.ID
}

// work is the job of most tests.
var work = later.RawArgs{JobKind: "work", Payload: []byte(`{}`)}

// request claims work of the default queue.
func request(limit int) later.ClaimRequest {
	return later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: limit}}, Limit: limit,
		Kinds: []string{"work"}, Worker: "worker-1", Token: later.NewToken(), Lease: time.Hour,
	}
}

func claim(t *testing.T, s *sqlite.Store, limit int) []*later.Claimed {
	t.Helper()
	claimed, err := s.Claim(t.Context(), request(limit))
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

func claimOne(t *testing.T, s *sqlite.Store) *later.Claimed {
	t.Helper()
	claimed := claim(t, s, 1)
	if len(claimed) != 1 {
		t.Fatalf("claimed %d jobs, want 1", len(claimed))
	}
	return claimed[0]
}

func settle(t *testing.T, s *sqlite.Store, st later.Settlement) {
	t.Helper()
	refused, err := s.Settle(t.Context(), []later.Settlement{st})
	if err != nil || len(refused) > 0 {
		t.Fatalf("Settle: refused %v, %v", refused, err)
	}
}

func TestOpen(t *testing.T) {
	t.Run("creates the file, and its tables, whatever characters are in its name", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a b%41?x=1#y.db")
		s := openStore(t, path, sqlite.Config{})
		enqueue(t, s, later.Options{})
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		again := openStore(t, path, sqlite.Config{})
		if got := len(claim(t, again, 9)); got != 1 {
			t.Errorf("a second store on the path claims %d jobs, want 1", got)
		}
	})
	t.Run("says what is wrong with a path", func(t *testing.T) {
		dir := t.TempDir()
		for path, want := range map[string]string{
			"":                               "the path is empty",
			"file:later.db":                  "the path is a URI",
			dir:                              "the path is a folder",
			filepath.Join(dir, "no", "x.db"): "the folder " + filepath.Join(dir, "no") + " does not exist",
		} {
			_, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			wantErrorText(t, err, want)
		}
	})
	t.Run("refuses a file that is no database", func(t *testing.T) {
		path := tempFile(t)
		writeFile(t, path, "this is a text, and long enough to be taken for a database header of SQLite, which has 100 bytes")
		_, err := sqlite.Open(t.Context(), path, sqlite.Config{})
		wantErrorText(t, err, "damaged or no database")
	})
	t.Run("waits while another program has the whole file, as long as BusyTimeout", func(t *testing.T) {
		path := tempFile(t)
		db := plain(t, path)
		db.SetMaxOpenConns(1)
		mustExec(t, db, `create table a (b)`) // the file is not in WAL mode yet
		mustExec(t, db, `begin exclusive`)
		_, err := sqlite.Open(t.Context(), path, sqlite.Config{BusyTimeout: 30 * time.Millisecond})
		wantError(t, err, later.ErrUnavailable)

		opened := make(chan error)
		go func() {
			s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
		select {
		case err := <-opened:
			t.Fatalf("Open returned %v while the file was locked", err)
		case <-time.After(100 * time.Millisecond): // several times what SQLite waits by itself
		}
		mustExec(t, db, `rollback`)
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
	t.Run("refuses values out of range", func(t *testing.T) {
		_, err := sqlite.Open(t.Context(), ":memory:", sqlite.Config{LogRetention: -1})
		wantErrorText(t, err, "LogRetention")
		_, err = sqlite.Open(t.Context(), ":memory:", sqlite.Config{BusyTimeout: -1})
		wantErrorText(t, err, "BusyTimeout")
	})
	t.Run("syncs every commit in WAL mode", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{})
		if got := one[string](t, s.DB(), "pragma journal_mode"); got != "wal" {
			t.Errorf("journal_mode %q, want wal", got)
		}
		if got := one[int](t, s.DB(), "pragma synchronous"); got != 2 {
			t.Errorf("synchronous %d, want 2 (full)", got)
		}
	})
}

func TestClose(t *testing.T) {
	t.Run("ends all goroutines, and a second call does nothing", func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		for _, path := range []string{tempFile(t), ":memory:"} {
			s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			if err != nil {
				t.Fatal(err)
			}
			enqueue(t, s, later.Options{})
			if _, err := s.Status(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		goleak.VerifyNone(t, before)
	})
	t.Run("makes every operation fail with ErrClosed", func(t *testing.T) {
		s := openStore(t, ":memory:", sqlite.Config{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		_, err := s.Enqueue(ctx, work, later.Options{})
		wantError(t, err, later.ErrClosed)
		_, err = s.Claim(ctx, request(1))
		wantError(t, err, later.ErrClosed)
		_, err = s.Status(ctx)
		wantError(t, err, later.ErrClosed)
		_, err = s.Find(ctx, 1)
		wantError(t, err, later.ErrClosed)
		_, err = s.CancelRequests(ctx, []later.Lease{{ID: 1, Token: 1}})
		wantError(t, err, later.ErrClosed)
		wantError(t, s.Maintain(ctx), later.ErrClosed)
		wantError(t, s.CheckSchema(ctx), later.ErrClosed)
	})
}

package bench

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
)

func TestSQLite(t *testing.T) {
	dir := t.TempDir()
	cfg := small("sqlite:" + filepath.Join(dir, "later.db"))
	busyAfter := map[Phase]bool{}
	cfg.Progress = func(s Step) {
		if s.Result != nil {
			busyAfter[s.Phase] = checkpointIsHeldUp(t, dir)
		}
	}
	r, err := Run(context.Background(), cfg)
	checkReport(t, cfg, r, err)
	t.Run("holds a reader from the second drain on, and only then", func(t *testing.T) {
		for phase, want := range map[Phase]bool{Bulk: false, Drain: false, DrainHeld: true, Singles: true, Steady: true, Trickle: true} {
			if got, seen := busyAfter[phase]; got != want || !seen {
				t.Errorf("%s: got %v, want %v", phase, got, want)
			}
		}
	})
	t.Run("counts what it writes", func(t *testing.T) {
		for _, p := range r.Phases {
			c := p.Cost
			if c.Written == nil || *c.Written < float64(cfg.Payload) || c.TableSize == nil || c.WALFile == nil {
				t.Errorf("%s: got %+v", p.Name, c)
			}
			if c.ServerCPU != nil || c.WAL != nil || c.Commits != nil || c.HOT != nil {
				t.Errorf("%s: got %+v, want nothing of Postgres", p.Name, c)
			}
		}
	})
	if r.Database != "sqlite" || r.Server.Settings["synchronous"] != "2" || r.Server.Settings["journal_mode"] != "wal" {
		t.Errorf("got %+v", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want an empty folder", left, err)
	}
}

// checkpointIsHeldUp reports whether a reader keeps the WAL file from being emptied.
func checkpointIsHeldUp(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, folderPattern+"*", "later.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got the files %q, %v", files, err)
	}
	db, err := sql.Open("sqlite", files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var busy, log, moved int
	if err := db.QueryRow("pragma wal_checkpoint(truncate)").Scan(&busy, &log, &moved); err != nil {
		t.Fatal(err)
	}
	return busy != 0
}

func TestSQLiteLeftovers(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	url := "sqlite:" + filepath.Join(dir, "later.db")
	cfg, err := small(url).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *sqlitePlace {
		p, err := enterSQLite(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return p.(*sqlitePlace)
	}
	killed, running := begin(), begin()
	if err := killed.keep.Close(); err != nil {
		t.Fatal(err)
	}
	// No process has this number: it is above what Linux gives (proc(5), pid_max).
	if err := os.WriteFile(filepath.Join(killed.dir, pidFile), []byte("99999999"), 0o600); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, folderPattern+"mine")
	if err := os.Mkdir(users, 0o700); err != nil {
		t.Fatal(err)
	}

	left, err := Clean(ctx, url)
	if err != nil || len(left) != 2 {
		t.Errorf("got %+v, %v, want both", left, err)
	}
	for folder, want := range map[string]bool{killed.dir: false, running.dir: true, users: true} {
		if _, err := os.Stat(folder); (err == nil) != want {
			t.Errorf("%s: got %v, want that it is there: %v", folder, err, want)
		}
	}
	if err := running.leave(ctx); err != nil {
		t.Error(err)
	}
}

package sqlitefile_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/goqite"
	"github.com/later-queue/later/lab/contender/ours"
	"github.com/later-queue/later/lab/contender/riversqlite"
	"github.com/later-queue/later/lab/contender/sqlitefile"
)

// TestContenders plays one round with each contender on SQLite, in each setting: what
// a race counts must be true of all of them.
func TestContenders(t *testing.T) {
	for _, def := range []contender.Definition{ours.SQLite, goqite.Definition, riversqlite.Definition} {
		for setting := range def.Settings {
			t.Run(def.Name+" "+setting, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				c, err := def.Open(ctx, contender.Env{URL: filepath.Join(t.TempDir(), "queue.db"), Settings: setting, Processes: 1, Payload: "text"})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				const jobs = 7
				for range 2 { // the second setup finds what the first one left
					if err := c.Setup(ctx); err != nil {
						t.Fatal("setup:", err)
					}
					if err := c.Enqueue(ctx, 1, jobs-1); err != nil {
						t.Fatal("enqueue:", err)
					}
					if err := c.EnqueueOne(ctx, jobs); err != nil {
						t.Fatal("enqueue one:", err)
					}
				}
				expectRemaining(ctx, t, c, jobs)
				seen := drain(ctx, t, c, jobs)
				for seq := int64(1); seq <= jobs; seq++ {
					if seen[seq] != 1 {
						t.Errorf("job %d was handled %d times", seq, seen[seq])
					}
				}
				expectRemaining(ctx, t, c, 0)
			})
		}
	}
}

// drain works until so many jobs have been handled, and stops in good order.
func drain(ctx context.Context, t *testing.T, c contender.Contender, jobs int) map[int64]int {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	seen := map[int64]int{}
	isReady := false
	err := c.Work(ctx, func() { isReady = true }, func(job contender.Payload) {
		mu.Lock()
		defer mu.Unlock()
		seen[job.Seq]++
		if len(seen) == jobs {
			stop()
		}
	})
	if err != nil {
		t.Fatal("work:", err)
	}
	if !isReady {
		t.Error("it was never ready")
	}
	return seen
}

func expectRemaining(ctx context.Context, t *testing.T, c contender.Contender, want int64) {
	t.Helper()
	if got, err := c.Remaining(ctx); err != nil || got != want {
		t.Errorf("%d jobs remain (%v), want %d", got, err, want)
	}
}

func TestOpen(t *testing.T) {
	for name, want := range map[string]int{sqlitefile.Full: 2, sqlitefile.Normal: 1} {
		db, err := sqlitefile.Open(filepath.Join(t.TempDir(), "queue.db"), name)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var synchronous int
		var mode string
		if err := db.QueryRow("select * from pragma_synchronous, pragma_journal_mode").Scan(&synchronous, &mode); err != nil {
			t.Fatal(err)
		}
		if synchronous != want || mode != "wal" {
			t.Errorf("%s: synchronous %d in mode %s, want %d in mode wal", name, synchronous, mode, want)
		}
	}
}

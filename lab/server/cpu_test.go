package server

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Run("a name may hold spaces and parentheses", func(t *testing.T) {
		got, err := parseStat([]byte("41 (post) gres: x) S 7 41 41 0 -1 4194560 1 2 3 4 150 50 300 100 20 0 1 0 99 1 2\n"))
		if err != nil {
			t.Fatal(err)
		}
		if want := (stat{parent: 7, own: 2 * time.Second, reaped: 4 * time.Second}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("what is cut off is an error", func(t *testing.T) {
		for _, text := range []string{"", "41 (x", "41 (x) S 7 41", "41 (x) S 7 41 41 0 -1 1 1 2 3 4 x 50 300 100 20"} {
			if _, err := parseStat([]byte(text)); err == nil {
				t.Errorf("%q: got no error", text)
			}
		}
	})
}

// burn makes a child use the processor for a while, and returns it.
func burn(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd
}

func TestTreeCPU(t *testing.T) {
	before, err := treeCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	running := burn(t, "while :; do :; done")
	const enough = 200 * time.Millisecond
	deadline := time.Now().Add(20 * time.Second)
	grown := func() time.Duration {
		now, err := treeCPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return now - before
	}
	for grown() < enough {
		if time.Now().After(deadline) {
			t.Fatalf("got %v of processor time of a child that runs, want %v", grown(), enough)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Run("what a child has used stays when it has ended", func(t *testing.T) {
		if err := running.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = running.Wait() // it was killed
		if got := grown(); got < enough {
			t.Errorf("got %v after its end, want at least the %v from before", got, enough)
		}
	})
}

func TestUsageSince(t *testing.T) {
	before := Usage{CPU: 1, WAL: 2, Commits: 3, Inserted: 4, Updated: 5, Deleted: 6}
	after := Usage{CPU: 11, WAL: 22, Commits: 33, Inserted: 44, Updated: 55, Deleted: 66}
	if got, want := after.Since(before), (Usage{CPU: 10, WAL: 20, Commits: 30, Inserted: 40, Updated: 50, Deleted: 60}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

package server

import (
	"fmt"
	"os/exec"
	"syscall"
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

func TestTreeCPU(t *testing.T) {
	// A parent that does nothing, and whose child uses the processor until it is killed.
	parent := exec.Command("sh", "-c", "sh -c 'while :; do :; done' & echo $!; wait $!; read line")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	killed := false
	defer func() {
		if !killed {
			_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended
		}
		in.Close()
		_ = parent.Wait() // its last read fails
	}()

	const enough = 200 * time.Millisecond
	used := func() time.Duration {
		t.Helper()
		cpu, err := treeCPU(parent.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return cpu
	}
	deadline := time.Now().Add(30 * time.Second)
	for used() < enough {
		if time.Now().After(deadline) {
			t.Fatalf("got %v of a child that runs, want %v", used(), enough)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Run("what a child has used stays when it has ended", func(t *testing.T) {
		if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed = true
		for {
			_, err := readStat(child)
			if err != nil {
				break // it has ended, and its parent has taken notice
			}
			if time.Now().After(deadline) {
				t.Fatal("the child does not end")
			}
			time.Sleep(time.Millisecond)
		}
		if got := used(); got < enough {
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

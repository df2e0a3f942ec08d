//go:build unix

package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/command"
)

// TestMain lets the test binary play the parts that a shell cannot: a worker
// that is killed, and a process that leaves its group.
func TestMain(m *testing.M) {
	switch os.Getenv("COMMAND_TEST_PART") {
	case "worker": // runs os.Args[1] as a job's command
		run, err := command.New(command.Config{Command: []string{"/bin/sh", "-c", os.Args[1]}})
		if err != nil {
			panic(err)
		}
		_ = run(context.Background(), newJob(`{}`))
		os.Exit(0)
	case "escape": // starts itself again in a session of its own, with its pipes
		c := exec.Command("/bin/sh", "-c", os.Args[1])
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lifeline is a named pipe. A process that holds its writing end is alive; when
// the last one has ended, the reading end is at its end.
type lifeline struct {
	path string
	r    *os.File
}

func newLifeline(t *testing.T) *lifeline {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lifeline")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return &lifeline{path, r}
}

// await returns when word was written.
func (l *lifeline) await(t *testing.T, word string) {
	t.Helper()
	until := time.Now().Add(patience)
	if err := l.r.SetReadDeadline(until); err != nil {
		t.Fatal(err)
	}
	got := ""
	for buf := make([]byte, 1); !strings.Contains(got, word); {
		n, err := l.r.Read(buf)
		got += string(buf[:n])
		if errors.Is(err, io.EOF) && time.Now().Before(until) {
			time.Sleep(time.Millisecond) // nobody has opened it yet: poll
			continue
		}
		if err != nil {
			t.Fatalf("read %q, waiting for %q: %v", got, word, err)
		}
	}
}

// awaitDeath returns when nobody holds the writing end.
func (l *lifeline) awaitDeath(t *testing.T) {
	t.Helper()
	if err := l.r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, l.r); err != nil {
		t.Fatalf("a process is still alive: %v", err)
	}
}

// begin runs script, whose $0 is the lifeline, until the test ends ctx.
func begin(t *testing.T, killAfter time.Duration, script string) (l *lifeline, end context.CancelCauseFunc, result <-chan error) {
	t.Helper()
	l = newLifeline(t)
	run, err := command.New(command.Config{Command: []string{"/bin/sh", "-c", script, l.path}, KillAfter: killAfter})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, newJob(`{}`)) }()
	return l, end, done
}

func receive(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(patience):
		t.Fatal("the handler did not return")
		return nil
	}
}

func TestEnd(t *testing.T) {
	t.Run("the whole group gets SIGTERM when the context ends", func(t *testing.T) {
		l, end, result := begin(t, time.Hour, `
			exec 3>"$0"
			(trap 'echo child >&3; exit 0' TERM; sleep 300 & wait) &
			trap 'echo parent >&2; wait; exit 7' TERM
			sleep 0.1; echo ready >&3; wait`)
		l.await(t, "ready")
		end(later.ErrTimeout)
		l.await(t, "child")
		err := receive(t, result)
		if !errors.Is(err, later.ErrTimeout) {
			t.Errorf("got %v, want the context's cause in the chain", err)
		}
		if got, want := err.Error(), "timed out; the command was ended and exit code 7: parent"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		l.awaitDeath(t)
	})
	t.Run("exit code 0 after SIGTERM is not done", func(t *testing.T) {
		for _, code := range []string{"0", "65", "75"} {
			l, end, result := begin(t, time.Hour, `trap 'exit `+code+`' TERM; sleep 300 & echo ready >"$0"; wait`)
			l.await(t, "ready")
			end(later.ErrShutdown)
			err := receive(t, result)
			if got := verdict(err); got != "retry" || !errors.Is(err, later.ErrShutdown) {
				t.Errorf("exit %s: got %s (%v), want retry for the shutdown", code, got, err)
			}
		}
	})
	t.Run("a group that ignores SIGTERM is killed after KillAfter", func(t *testing.T) {
		l, end, result := begin(t, 50*time.Millisecond, `
			exec 3>"$0"; trap '' TERM; sleep 300 & echo ready >&3
			while :; do wait; sleep 300; done`)
		l.await(t, "ready")
		end(later.ErrLeaseLost)
		err := receive(t, result)
		if !errors.Is(err, later.ErrLeaseLost) || !strings.Contains(err.Error(), "killed by signal: killed") {
			t.Errorf("got %v", err)
		}
		l.awaitDeath(t)
	})
	t.Run("a command is not started when the context has ended", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "out")
		run, err := command.New(command.Config{Command: []string{"/bin/sh", "-c", `echo ran >"$0"`, out}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(later.ErrCancelled)
		err = run(ctx, newJob(`{}`))
		if !errors.Is(err, later.ErrCancelled) || !strings.HasPrefix(err.Error(), "command not started") {
			t.Errorf("got %v, want that it was not started because of %v", err, later.ErrCancelled)
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("the command ran")
		}
	})
	t.Run("what the command leaves in the background is killed and not waited for", func(t *testing.T) {
		for _, script := range []string{
			`exec 3>"$0"; sleep 300 & exit 0`,
			`exec 3>"$0"; (trap '' TERM HUP; sleep 300) & exit 0`,
			`exec 3>"$0"; sh -c 'sleep 300 & sleep 300' & exit 0`,
		} {
			l, _, result := begin(t, time.Hour, script)
			if err := receive(t, result); err != nil {
				t.Errorf("%s: got %v, want done", script, err)
			}
			l.awaitDeath(t)
		}
	})
	t.Run("a process that left the group cannot hold up the job", func(t *testing.T) {
		l := newLifeline(t)
		config := command.Config{
			Command: []string{os.Args[0], `exec 3>` + l.path + `; echo ready >&3; sleep 300 & echo $! >&3; wait`},
			Env:     append(os.Environ(), "COMMAND_TEST_PART=escape"),
		}
		start := time.Now()
		if err := runConfig(t, config, newJob(`"`+strings.Repeat("x", 9<<20)+`"`)); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > patience/2 {
			t.Errorf("it took %v", took)
		}
		l.await(t, "ready")
		killWriters(t, l)
	})
}

// killWriters ends the sleeping process whose number stands in l, and with it
// the shell that waits for it.
func killWriters(t *testing.T, l *lifeline) {
	t.Helper()
	var pid []byte
	for buf := make([]byte, 1); ; {
		if err := l.r.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.r.Read(buf); err != nil {
			t.Fatal(err)
		}
		if buf[0] == '\n' && len(pid) > 0 {
			break
		}
		if buf[0] >= '0' && buf[0] <= '9' {
			pid = append(pid, buf[0])
		}
	}
	var n int
	if err := json.Unmarshal(pid, &n); err != nil || n <= 1 {
		t.Fatalf("no process number: %q", pid)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.awaitDeath(t)
}

func TestLeaks(t *testing.T) {
	t.Run("a hundred commands leave no file open", func(t *testing.T) {
		count := func() int {
			entries, err := os.ReadDir("/dev/fd")
			if err != nil {
				t.Fatal(err)
			}
			return len(entries)
		}
		run, err := command.New(command.Config{Command: []string{"/bin/sh", "-c", "sleep 300 & exit 1"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = run(t.Context(), newJob(`{}`))
		before := count()
		for range 100 {
			_ = run(t.Context(), newJob(`{}`))
		}
		if after := count(); after > before+2 {
			t.Errorf("%d files were open before and %d after", before, after)
		}
	})
}

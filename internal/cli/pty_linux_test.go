package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/later-queue/later/internal/terminal"
)

// pty is a terminal without a person.
type pty struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	shown  lockedBuffer
	closed chan struct{}
}

// newPTY makes a terminal of 80 columns and 24 rows.
func newPTY(t *testing.T) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pty{t: t, master: master, slave: slave, closed: make(chan struct{})}
	p.resize(80, 24)
	go func() {
		defer close(p.closed)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			_, _ = p.shown.Write(buffer[:n])
			if err != nil {
				return // EIO: the last process has gone
			}
		}
	}()
	t.Cleanup(func() { p.end(); master.Close() })
	return p
}

func (p *pty) resize(columns, rows uint16) {
	p.t.Helper()
	if err := unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		p.t.Fatal(err)
	}
}

// end closes the terminal's own end, and returns everything that was shown.
func (p *pty) end() string {
	if p.slave != nil {
		p.slave.Close()
		p.slave = nil
		<-p.closed
	}
	return p.shown.String()
}

// start starts the command on the terminal, which is the one that controls it.
func (p *pty) start(s *shell, args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), beCommand+"=1", "LATER_DB="+s.url, "TERM=xterm-256color", "NO_COLOR=")
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.slave, p.slave, p.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// run runs the command on a terminal of its own, and returns what is shown.
func onTerminal(t *testing.T, s *shell, args ...string) string {
	t.Helper()
	p := newPTY(t)
	if err := p.start(s, args...).Wait(); err != nil {
		t.Errorf("later %s: %v", strings.Join(args, " "), err)
	}
	return p.end()
}

func TestOnTerminal(t *testing.T) {
	s := newShell(t)
	hostile, err := json.Marshal("\u009b2J\u202e\x7f")
	if err != nil {
		t.Fatal(err)
	}
	s.ok("enqueue", "k", string(hostile))
	t.Run("colours, unless told not to", func(t *testing.T) {
		if out := onTerminal(t, s, "list"); !strings.Contains(out, "\x1b[") {
			t.Errorf("got %q, want colours", out)
		}
		if out := onTerminal(t, s, "list", "--no-color"); strings.Contains(out, "\x1b") {
			t.Errorf("got %q, want no colours", out)
		}
		s.env["NO_COLOR"] = "1"
		defer delete(s.env, "NO_COLOR")
		if out := onTerminal(t, s, "list"); strings.Contains(out, "\x1b") {
			t.Errorf("got %q, want no colours", out)
		}
	})
	// Case 196: JSON escapes only the controls below U+0020 by itself.
	t.Run("escapes what is not visible in JSON and in payloads, with the same meaning", func(t *testing.T) {
		for _, args := range [][]string{{"show", "1", "--json"}, {"show", "1", "--payload"}, {"list", "--json"}} {
			out := onTerminal(t, s, args...)
			for _, r := range out {
				if !unicode.IsPrint(r) && !strings.ContainsRune("\r\n", r) {
					t.Errorf("later %q prints %U raw: %q", args, r, out)
				}
			}
		}
		var back string
		if err := json.Unmarshal([]byte(onTerminal(t, s, "show", "1", "--payload")), &back); err != nil || back != "\u009b2J\u202e\x7f" {
			t.Errorf("got %q, %v", back, err)
		}
		if got := s.ok("show", "1", "--payload"); got != string(hostile) {
			t.Errorf("got %q without a terminal, want the bytes as they are", got)
		}
	})
	t.Run("keeps to the width", func(t *testing.T) {
		s.in = `"` + strings.Repeat("x", 500) + `"`
		s.ok("enqueue", "k", "-")
		for _, line := range strings.Split(onTerminal(t, s, "list", "--no-color"), "\r\n") {
			if got := terminal.Width(line); got > 80 {
				t.Errorf("got a line of %d columns, want at most 80: %s", got, line)
			}
		}
	})
	t.Run("shows progress, and takes it away", func(t *testing.T) {
		out := onTerminal(t, s, "enqueue", "--bulk", bulkFile(t, lines(1500)...))
		if !strings.Contains(out, "enqueue") || !strings.Contains(out, "%") || !strings.Contains(out, "1500 jobs, ids") {
			t.Errorf("got %q", out)
		}
	})
	t.Run("asks before it destroys", func(t *testing.T) {
		for answer, want := range map[string]string{"no\n": "not done", "yes\n": "1 is deleted"} {
			p := newPTY(t)
			cmd := p.start(s, "delete", "1")
			eventually(t, "the question", func() bool { return strings.Contains(p.shown.String(), "Type yes to go on: ") })
			if _, err := p.master.WriteString(answer); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if out := p.end(); !strings.Contains(out, want) || (err == nil) != (answer == "yes\n") {
				t.Errorf("after %q: got %q, %v, want %q", answer, out, err, want)
			}
		}
	})
}

const (
	enterScreen = "\x1b[?1049h"
	leaveScreen = "\x1b[?1049l"
)

func TestWatchOnTerminal(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "k", "1")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(fmt.Sprintf("brings the terminal back after %v", sig), func(t *testing.T) {
			p := newPTY(t)
			cmd := p.start(s, "status", "--watch", "--interval", "100ms")
			eventually(t, "two pictures", func() bool { return strings.Count(p.shown.String(), "oldest due") >= 2 })
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			out := p.end()
			if err != nil || strings.Count(out, enterScreen) != 1 || !strings.HasSuffix(out, leaveScreen) {
				t.Errorf("got %v and %q", err, out)
			}
		})
	}
	t.Run("draws again when the size changes", func(t *testing.T) {
		p := newPTY(t)
		p.start(s, "status", "--watch", "--interval", "1h")
		eventually(t, "the first picture", func() bool { return strings.Contains(p.shown.String(), "oldest due") })
		p.resize(100, 3)
		eventually(t, "the second picture", func() bool { return strings.Count(p.shown.String(), "oldest due") == 2 })
		p.resize(40, 2) // too low for the table
		eventually(t, "the third picture", func() bool { return strings.Count(p.shown.String(), "every 1h") == 3 })
		if got := strings.Count(p.shown.String(), "oldest due"); got != 2 {
			t.Errorf("a picture of 2 rows shows the third")
		}
	})
	t.Run("lets itself be suspended", func(t *testing.T) {
		p := newPTY(t)
		cmd := p.start(s, "status", "--watch", "--interval", "100ms")
		eventually(t, "the first picture", func() bool { return strings.Contains(p.shown.String(), "oldest due") })
		for n := 1; n <= 5; n++ { // it may fail by chance to be wrong
			if err := cmd.Process.Signal(syscall.SIGTSTP); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it has stopped", func() bool {
				return strings.Contains(read(t, fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)), "State:\tT")
			})
			eventually(t, "the terminal is as it was", func() bool { return strings.HasSuffix(p.shown.String(), leaveScreen) })
			if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it goes on", func() bool { return strings.Count(p.shown.String(), enterScreen) == n+1 })
		}
	})
	t.Run("goes on when a look fails, and says so", func(t *testing.T) {
		p := newPTY(t)
		a := &App{Out: p.slave}
		a.complete()
		ctx, cancel := context.WithCancel(context.Background())
		looks := 0
		err := a.watch(ctx, time.Millisecond, func(context.Context) (picture, error) {
			looks++
			switch looks {
			case 2:
				return nil, errors.New("database\x1b[2J unavailable")
			case 4:
				cancel()
			}
			return text(fmt.Sprintf("look %d", looks)), nil
		})
		out := p.end()
		if err != nil || !strings.Contains(out, `the last look failed, this is the one before: database\x1b[2J unavailable`) || !strings.Contains(out, "look 3") {
			t.Errorf("got %v and %q", err, out)
		}
	})
}

// text is a picture of one line.
type text string

func (x text) json() any          { return x }
func (x text) lines(int) []string { return []string{string(x)} }

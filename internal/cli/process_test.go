package cli

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// process is the command as a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out lockedBuffer
	err lockedBuffer
	// ended is closed when the process has ended.
	ended chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start starts the command; it is killed when the test ends.
func (s *shell) start(args ...string) *process {
	s.t.Helper()
	return s.startWith(func(*exec.Cmd) {}, args...)
}

// startWith is start with something to prepare.
func (s *shell) startWith(prepare func(*exec.Cmd), args ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), beCommand+"=1", "LATER_DB="+s.url)
	for name, value := range s.env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	prepare(p.cmd)
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is what tests look at
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has mostly ended
		<-p.ended
		if s.t.Failed() {
			s.t.Logf("later %s:\n%s%s", strings.Join(args, " "), p.out.String(), p.err.String())
		}
	})
	return p
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code, -1 after a signal that was not caught.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the process did not end:\n%s", p.err.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to this: %s", what)
		}
	}
}

func (s *shell) state(id int64) later.State { return s.find(id).State }

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command is one program to run.
type command struct {
	name        string
	args        []string
	dir         string // its working folder
	log         string // the file that its messages are appended to
	user        *account
	deathSignal syscall.Signal // what it gets when we die; Linux only
}

// cmd makes the [exec.Cmd]. The environment is short on purpose: PGDATA, PGPORT and
// the like of the caller would lead the server astray.
func (c command) cmd() *exec.Cmd {
	cmd := exec.Command(c.name, c.args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + c.dir}
	cmd.SysProcAttr = procAttr(c.user, c.deathSignal)
	return cmd
}

// runProcess runs a program to its end. When ctx ends before, the program is killed
// together with those that it has started.
func runProcess(ctx context.Context, c command) error {
	c.deathSignal = syscall.SIGKILL
	p, err := startProcess(c)
	if err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		killGroup(p.pid)
		<-p.ended
		return fmt.Errorf("pgserver: %s: %w", p.name, context.Cause(ctx))
	}
	if p.err != nil {
		return fmt.Errorf("pgserver: %s: %w\n%s", p.name, p.err, p.logTail())
	}
	return nil
}

// process is a program that runs until it is stopped.
type process struct {
	name  string
	pid   *os.Process
	log   string
	ended chan struct{} // closed when the process has ended
	err   error         // how it ended; to be read after ended
}

// startProcess starts a program that runs on.
func startProcess(c command) (*process, error) {
	logFile, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	cmd := c.cmd()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	p := &process{name: filepath.Base(c.name), log: c.log, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the *thread* that started the child
		// ends (prctl(2), PR_SET_PDEATHSIG), and Go ends idle threads. So this
		// goroutine keeps its thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		defer logFile.Close()
		err := cmd.Start()
		p.pid = cmd.Process
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("pgserver: start %s: %w", c.name, err)
	}
	return p, nil
}

// stop sends the signal and waits for the end. A process that takes longer than the
// timeout is killed, and that is an error.
func (p *process) stop(signal syscall.Signal, timeout time.Duration) error {
	err := p.pid.Signal(signal)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("pgserver: stop %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(timeout):
		p.pid.Kill()
		<-p.ended
		return fmt.Errorf("pgserver: %s had to be killed after %v:\n%s", p.name, timeout, p.logTail())
	}
}

// logTail is the end of the process's messages, for errors.
func (p *process) logTail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return strings.TrimSpace(string(text))
}

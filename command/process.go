package command

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// pipeGrace is how long the output is still read after the command has ended
// and its process group was killed. By then the pipes are at their end, unless a
// process that left the group holds one. Chosen, not measured.
const pipeGrace = time.Second

// process is a running command.
type process struct {
	cmd     *exec.Cmd
	started chan error    // one value: nil once it runs
	ended   chan struct{} // closed when it has been reaped

	mu     sync.Mutex
	reaped bool // its id may belong to somebody else
}

// execute runs the command and returns how it ended, or an error when it could
// not be started. It returns after the command has ended and all that it left
// in its process group has been killed.
func (c Config) execute(ctx context.Context, environ []string, payload []byte) (*ExitError, error) {
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env = c.Dir, environ
	cmd.SysProcAttr = groupAttr()

	// Pipes of our own: those that os/exec makes would let Wait wait for
	// whoever inherited one.
	var pipes pipes
	defer pipes.close()
	if err := pipes.open(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, started: make(chan error, 1), ended: make(chan struct{})}
	go p.run()
	if err := <-p.started; err != nil {
		return nil, err
	}
	pipes.closeChildEnds()
	stdout, stderr := &tail{limit: c.MaxOutput}, &tail{limit: c.MaxOutput}
	pipes.pump(payload, stdout, stderr)

	ended := &ExitError{}
	select {
	case <-p.ended:
	case <-ctx.Done():
		if p.signal(terminateGroup) {
			ended.cause = context.Cause(ctx)
		}
		timer := time.NewTimer(c.KillAfter)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
			p.signal(killGroup)
			<-p.ended
		}
	}
	pipes.drain(pipeGrace)
	ended.Stdout, ended.Stderr = stdout.Bytes(), stderr.Bytes()
	ended.Code = -1
	if state := cmd.ProcessState; state != nil {
		ended.Code, ended.Signal = state.ExitCode(), signalName(state)
	}
	return ended, nil
}

// run starts the command and waits for it, on one thread: where the system kills
// a child together with its parent (Pdeathsig), the parent is the thread that
// started it, and Go may end any other thread while the command runs. Waiting
// takes a thread anyway.
func (p *process) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	p.started <- err
	if err != nil {
		return
	}
	p.wait()
}

// signal calls send unless the command has been reaped, and reports whether it
// did. Without this an id could be signalled that has a new owner.
func (p *process) signal(send func(*os.Process)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return false
	}
	send(p.cmd.Process)
	return true
}

// pipes are the command's three streams.
type pipes struct {
	parent, child []*os.File // stdin, stdout, stderr
	readers       sync.WaitGroup
	writer        sync.WaitGroup
}

func (p *pipes) open(cmd *exec.Cmd) error {
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		if i == 0 {
			p.child, p.parent = append(p.child, r), append(p.parent, w)
		} else {
			p.child, p.parent = append(p.child, w), append(p.parent, r)
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.child[0], p.child[1], p.child[2]
	return nil
}

// pump begins to write the payload and to read both outputs.
func (p *pipes) pump(payload []byte, stdout, stderr io.Writer) {
	p.writer.Go(func() {
		// A command need not read its input: a broken pipe is no error.
		_, _ = p.parent[0].Write(payload)
		_ = p.parent[0].Close()
	})
	for i, to := range map[int]io.Writer{1: stdout, 2: stderr} {
		p.readers.Go(func() { _, _ = io.Copy(to, p.parent[i]) })
	}
}

// drain reads what is left of the outputs, for no longer than grace, and ends
// the writing of the input.
func (p *pipes) drain(grace time.Duration) {
	_ = p.parent[0].Close()
	p.writer.Wait()
	until := time.Now().Add(grace)
	for _, f := range p.parent[1:] {
		if err := f.SetReadDeadline(until); err != nil {
			_ = f.Close() // no deadlines on this system's pipes
		}
	}
	p.readers.Wait()
}

func (p *pipes) closeChildEnds() {
	for _, f := range p.child {
		_ = f.Close()
	}
	p.child = nil
}

func (p *pipes) close() {
	p.closeChildEnds()
	for _, f := range p.parent {
		_ = f.Close()
	}
}

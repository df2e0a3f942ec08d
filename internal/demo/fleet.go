package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// fleet is the worker processes, those that ended included.
type fleet struct {
	place place
	mail  string
	story *story

	mu    sync.Mutex
	procs []*process
}

// process is one worker process. Its fields are the fleet's to change, under
// its mutex.
type process struct {
	name  string
	pid   int
	cmd   *exec.Cmd
	stdin io.Closer
	ready chan struct{} // closed when it listens to SIGTERM, or has ended
	ended chan struct{} // closed after err was set
	err   error         // how it ended; nil is exit code 0
	fate  fate
	note  string // what happened to it, for people
}

// over reports whether the process has ended.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// fate is what was done to a process.
type fate int

const (
	working  fate = iota
	killed        // with SIGKILL
	draining      // SIGTERM sent, has not ended
	drained       // ended with exit code 0 after SIGTERM
	failed        // ended by itself, or with another exit code
)

func (f fate) String() string {
	return [...]string{"working", "killed", "draining", "drained", "failed"}[f]
}

// start starts one more worker. why is added to the story.
func (f *fleet) start(why string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &process{name: fmt.Sprintf("worker-%d", len(f.procs)+1), note: why, ready: make(chan struct{}), ended: make(chan struct{})}
	spec, err := json.Marshal(workerSpec{Place: f.place, Name: p.name, Mail: f.mail})
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(f.place.Dir, p.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	defer log.Close() // the process has a handle of its own
	p.cmd = exec.Command(self, "demo", "worker")
	p.cmd.Env = append(os.Environ(), WorkerEnv+"="+string(spec))
	p.cmd.Stderr = log
	stdout, err1 := p.cmd.StdoutPipe()
	stdin, err2 := p.cmd.StdinPipe()
	if err := errors.Join(err1, err2, p.cmd.Start()); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	p.stdin, p.pid = stdin, p.cmd.Process.Pid
	f.procs = append(f.procs, p)
	go f.watch(p, stdout)
	return nil
}

// watch tells what the process prints, waits for its end and notes how it came.
func (f *fleet) watch(p *process, stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	if lines.Scan() && lines.Text() != readyLine {
		f.story.tell("%s %s", p.name, lines.Text()) // an error that came first
	}
	close(p.ready)
	for lines.Scan() {
		f.story.tell("%s %s", p.name, lines.Text())
	}
	err := p.cmd.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	p.err = err
	switch {
	case p.fate == draining && err == nil:
		p.fate = drained
	case p.fate != killed:
		p.fate, p.note = failed, fmt.Sprintf("ended: %s, see %s.log", p.cmd.ProcessState, p.name)
		f.story.tell("%s %s", p.name, p.note)
	}
	close(p.ended)
}

// kill ends the process at once and waits until it is gone.
func (f *fleet) kill(p *process, note string) {
	f.mu.Lock()
	p.fate, p.note = killed, note
	_ = p.cmd.Process.Kill() // it fails when the process has ended, which is seen below
	f.mu.Unlock()
	<-p.ended
}

// drain tells the process to finish what it has begun. Where there is no
// SIGTERM, the end of its standard input means the same.
func (f *fleet) drain(p *process) {
	<-p.ready
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.fate != working {
		return
	}
	p.fate = draining
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		_ = p.stdin.Close() // the pipe is ours and cannot fail to close
	}
}

// drainAll drains the workers that are left, and kills those that have not
// ended within limit.
func (f *fleet) drainAll(limit time.Duration) {
	all := f.all()
	for _, p := range all {
		f.drain(p)
	}
	deadline := time.After(limit)
	for _, p := range all {
		select {
		case <-p.ended:
		case <-deadline:
			f.kill(p, fmt.Sprintf("had to be killed: it had not drained after %v", limit))
			deadline = time.After(0)
		}
	}
}

// killAll ends what is left at once.
func (f *fleet) killAll() {
	for _, p := range f.all() {
		if !p.over() {
			f.kill(p, "killed at the end")
		}
	}
}

// lost returns an error when a worker has ended by itself: something is wrong
// with the demo or its surroundings, and the worker's log says what.
func (f *fleet) lost() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.procs {
		if p.fate == failed {
			return fmt.Errorf("%s %s", p.name, p.note)
		}
	}
	return nil
}

// all returns the processes in the order of their start.
func (f *fleet) all() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*process(nil), f.procs...)
}

// find returns the process with that name, or nil.
func (f *fleet) find(name string) *process {
	for _, p := range f.all() {
		if p.name == name {
			return p
		}
	}
	return nil
}

// workerView is a worker as it is shown.
type workerView struct {
	name string
	pid  int
	fate fate
	note string
}

func (f *fleet) view() []workerView {
	f.mu.Lock()
	defer f.mu.Unlock()
	views := make([]workerView, len(f.procs))
	for i, p := range f.procs {
		views[i] = workerView{name: p.name, pid: p.pid, fate: p.fate, note: p.note}
	}
	return views
}

// setNote changes what is shown of a process.
func (f *fleet) setNote(p *process, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.note = fmt.Sprintf(format, args...)
}

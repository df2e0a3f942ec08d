package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// fleet keeps a number of worker processes running and hurts them.
type fleet struct {
	run                  *run
	size                 int
	procs                []*process
	count                int // of all processes that were started
	kills, stops, drains int
}

// process is one worker process.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	err    error
	frozen atomic.Bool
}

func newFleet(r *run, size int) *fleet {
	return &fleet{run: r, size: size, procs: make([]*process, size)}
}

// fill starts a process in each empty place. Those that ended by themselves
// (killer jobs do that) are replaced too.
func (f *fleet) fill() error {
	for i, p := range f.procs {
		if p != nil && !p.over() {
			continue
		}
		started, err := f.start()
		if err != nil {
			return err
		}
		f.procs[i] = started
	}
	return nil
}

func (f *fleet) start() (*process, error) {
	f.count++
	cmd := exec.Command(f.run.self, "work", "--db", f.run.url, "--dir", f.run.dir,
		"--name", fmt.Sprintf("w%04d", f.count), "--seed", fmt.Sprint(f.run.cfg.seed), "--lease", f.run.cfg.lease.String())
	cmd.Env = append(os.Environ(), childEnv+"=1")
	output, err := os.OpenFile(f.run.dir+"/output", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) signal(s syscall.Signal) { p.cmd.Process.Signal(s) }

// hurt does one thing to one process, as random decides, and returns at once.
func (f *fleet) hurt(random *rand.Rand, wait *sync.WaitGroup) {
	p := f.procs[random.IntN(len(f.procs))]
	freeze := time.Duration(random.Float64() * 2 * float64(f.run.cfg.lease))
	if p == nil || p.over() || p.frozen.Load() {
		return
	}
	switch dice := random.Float64(); {
	case dice < 0.6:
		f.kills++
		p.signal(syscall.SIGKILL)
		<-p.ended
	case dice < 0.85:
		f.stops++
		p.frozen.Store(true)
		p.signal(syscall.SIGSTOP)
		wait.Go(func() {
			time.Sleep(freeze)
			p.signal(syscall.SIGCONT)
			p.frozen.Store(false)
		})
	default:
		f.drains++
		p.signal(syscall.SIGTERM)
	}
}

// drain ends every process in good order, and kills those that do not end.
func (f *fleet) drain(limit time.Duration) {
	for _, p := range f.procs {
		if p != nil && !p.over() {
			p.signal(syscall.SIGTERM)
		}
	}
	deadline := time.After(limit)
	for _, p := range f.procs {
		if p == nil {
			continue
		}
		select {
		case <-p.ended:
		case <-deadline:
			p.signal(syscall.SIGKILL)
			<-p.ended
		}
	}
}

// kill ends what is left at once.
func (f *fleet) kill() {
	for _, p := range f.procs {
		if p != nil && !p.over() {
			p.signal(syscall.SIGKILL)
			<-p.ended
		}
	}
}

package drive

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/later-queue/later/lab/contender"
)

// Worker is a process that runs jobs until it is stopped.
type Worker struct {
	cmd   *exec.Cmd
	input io.Closer
	verb  string
	ready chan struct{} // closed when it begins to look for jobs
	ended chan struct{} // closed when it has ended, and err is set

	mu       sync.Mutex
	done     int64
	doneAt   time.Time
	readyAt  time.Time
	said     error // what was wrong with its lines
	err      error
	stopping bool
	memory   int64
}

// Start starts a worker with the verb drain, or work and its file.
func (l *Launcher) Start(verb string, args ...string) (*Worker, error) {
	cmd := l.command(verb, args)
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	w := &Worker{cmd: cmd, input: input, verb: verb, ready: make(chan struct{}), ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	go w.listen(output)
	return w, nil
}

// listen reads the worker's lines to their end, and then waits for the worker's.
func (w *Worker) listen(output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		w.hear(lines.Bytes(), time.Now())
	}
	err := lines.Err()
	if err != nil {
		_, _ = io.Copy(io.Discard, output) // or it could not end
	}
	err = errors.Join(err, w.cmd.Wait())
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !w.stopping {
		err = errors.New("it ended by itself")
	}
	if err = errors.Join(err, w.said); err != nil {
		w.err = fmt.Errorf("%s: %w", w.verb, err)
	}
	close(w.ended)
}

// hear takes in one line.
func (w *Worker) hear(line []byte, now time.Time) {
	var answer contender.Answer
	err := json.Unmarshal(line, &answer)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.said = fmt.Errorf("it said %q: %w", line, err)
	case answer.Ready && w.readyAt.IsZero():
		w.readyAt = now
		close(w.ready)
	case answer.Done != nil && *answer.Done > w.done:
		w.done, w.doneAt = *answer.Done, time.UnixMicro(answer.At)
	}
}

// progress returns how many jobs it has done, and when it said so last.
func (w *Worker) progress() (done int64, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done, w.doneAt
}

// stop ends the worker in good order, or kills it when that takes longer than grace.
func (w *Worker) stop(grace time.Duration) error {
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	w.measure()
	// It may have ended already, and its end of the pipe with it.
	_ = w.input.Close()
	select {
	case <-w.ended:
	case <-time.After(grace):
		kill(w.cmd)
		<-w.ended
		return fmt.Errorf("%s: it did not stop within %v and was killed", w.verb, grace)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// measure notes the most memory that it has had.
func (w *Worker) measure() {
	memory, err := peakMemory(w.cmd.Process.Pid)
	if err != nil {
		return // it has ended
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memory = max(w.memory, memory)
}

// peakMemory is VmHWM of /proc/PID/status (proc(5)), in bytes. The ru_maxrss of a child
// that has ended will not do: it begins with the memory of the process that forked it.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, errors.New("no VmHWM")
}

// waitReady waits until it looks for jobs.
func (w *Worker) waitReady(ctx context.Context) error {
	select {
	case <-w.ready:
		return nil
	case <-w.ended:
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("%s: not ready: %w", w.verb, context.Cause(ctx))
	}
}

package cli

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"github.com/later-queue/later/worker"
)

// shutdown ends a worker by signals: the first one drains it, the second one
// stops it at once, and a third one does what signals do to a process that does
// not care. Before the worker runs, the first one ends the start.
type shutdown struct {
	ctx    context.Context // ends with the first signal
	cancel context.CancelFunc
	log    *slog.Logger
	over   chan struct{}

	mu       sync.Mutex
	received []os.Signal
	worker   *worker.Worker
}

func (a *App) newShutdown(parent context.Context, log *slog.Logger) *shutdown {
	s := &shutdown{log: log, over: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(parent)
	signals := a.Signals()
	go func() {
		defer signals.stop()
		for range 2 {
			select {
			case sig := <-signals.C:
				s.receive(sig)
			case <-s.over:
				return
			}
		}
	}()
	return s
}

// end lets go of the signals.
func (s *shutdown) end() {
	s.cancel()
	close(s.over)
}

// watch is called before the worker runs.
func (s *shutdown) watch(w *worker.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worker = w
}

func (s *shutdown) receive(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, sig)
	if len(s.received) == 1 {
		s.log.Info("signal received, draining", "signal", sig.String())
		s.cancel()
		return
	}
	s.log.Warn("signal received again, stopping at once", "signal", sig.String())
	if s.worker != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		go func() { _ = s.worker.Stop(now) }() // Run returns the same error
	}
}

// first and second are the signals as errors; nil when they did not come.
func (s *shutdown) first() *signalError  { return s.nth(1) }
func (s *shutdown) second() *signalError { return s.nth(2) }

func (s *shutdown) nth(n int) *signalError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.received) < n {
		return nil
	}
	return newSignalError(s.received[n-1])
}

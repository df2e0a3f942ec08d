package memory

import (
	"context"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// watch is one worker's. Its fields belong to Store.mu.
type watch struct {
	store   *Store
	queues  []string
	wakes   chan struct{} // has room for one
	waiting bool
	closed  bool
}

var _ later.Waker = (*Store)(nil)

// Watch implements [later.Waker]. Wake-ups are always heard.
func (s *Store) Watch(worker string, queues []string) later.Watch {
	return &watch{store: s, queues: slices.Clone(queues), wakes: make(chan struct{}, 1)}
}

// Wakes implements [later.Watch].
func (w *watch) Wakes() <-chan struct{} { return w.wakes }

// Waiting implements [later.Watch].
func (w *watch) Waiting(ctx context.Context) (heard bool, err error) {
	_, unlock, err := w.store.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if w.closed {
		return false, nil
	}
	if !w.waiting {
		w.waiting = true
		w.store.watches = append(w.store.watches, w)
	}
	return true, nil
}

// Busy implements [later.Watch].
func (w *watch) Busy() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.leave()
}

// Close implements [later.Watch].
func (w *watch) Close() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.closed = true
	w.leave()
}

func (w *watch) leave() {
	w.waiting = false
	w.store.watches = slices.DeleteFunc(w.store.watches, func(other *watch) bool { return other == w })
}

// wake wakes those who wait for jobs of queue, because one is due at runAt.
func (s *Store) wake(queue string, runAt, now time.Time) {
	if runAt.Sub(now) > later.WakeAhead {
		return
	}
	for _, w := range s.watches {
		if !slices.Contains(w.queues, queue) {
			continue
		}
		w.tell()
	}
}

// tellAll wakes all who wait.
func (s *Store) tellAll() {
	for _, w := range s.watches {
		w.tell()
	}
}

func (w *watch) tell() {
	select {
	case w.wakes <- struct{}{}:
	default: // it has not taken the last one yet
	}
}

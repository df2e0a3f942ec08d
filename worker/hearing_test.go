package worker_test

import (
	"context"
	"sync"

	"github.com/later-queue/later"
)

// hearing is a store with a Watch that the test is in command of.
type hearing struct {
	*faulty

	mu      sync.Mutex
	deaf    bool
	err     error
	told    bool // Waiting was the last that was said
	waited  int  // how often Waiting was said
	busied  int  // and Busy
	closed  bool
	onTold  func() // called before Waiting returns
	wakes   chan struct{}
	watches int
}

// hearing makes the bed's store one that has a Watch.
func (b *bed) hearing() *hearing {
	b.hears = &hearing{faulty: b.store, wakes: make(chan struct{}, 1)}
	return b.hears
}

func (h *hearing) Watch(string, []string) later.Watch {
	h.watches++
	return heardWatch{h}
}

// heardWatch is its Watch.
type heardWatch struct{ *hearing }

func (h heardWatch) Wakes() <-chan struct{} { return h.wakes }

func (h heardWatch) Waiting(context.Context) (bool, error) {
	h.mu.Lock()
	onTold, err, deaf := h.onTold, h.err, h.deaf
	h.waited++
	h.told = err == nil
	h.mu.Unlock()
	if onTold != nil {
		onTold()
	}
	return err == nil && !deaf, err
}

func (h heardWatch) Busy() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busied++
	h.told = false
}

func (h heardWatch) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

func (h *hearing) wake() {
	select {
	case h.wakes <- struct{}{}:
	default:
	}
}

func (h *hearing) said() (waited, busied int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waited, h.busied
}

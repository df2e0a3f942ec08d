package postgres

import (
	"sync"
	"time"

	"github.com/later-queue/later"
)

const (
	// gateRecheck is after how long a full limit is asked again: what another process has
	// freed is noticed then. Chosen: nobody calls it stuck yet, and with everything full an idle
	// process makes few statements.
	gateRecheck = time.Second
	// gateBusy is after how long a limit is asked again whose lock another claim had. Chosen:
	// several times a claim's duration.
	gateBusy = 10 * time.Millisecond
	// maxRemembered bounds what is remembered of jobs that were let in: more do not run in
	// one process.
	maxRemembered = 100_000
)

// holding is what a store remembers of limits that let nobody in, so that they are not asked again
// before they may.
type holding struct {
	mu     sync.Mutex
	closed map[later.Scope]time.Time // until when
	let    map[int64][]later.Scope   // the jobs that fill a place, by this store's doing
	next   map[string]time.Time      // when a claim of some kinds may find what its latest found held back
	now    func() time.Time          // nil is time.Now
}

func (h *holding) clock() time.Time {
	if h.now != nil {
		return h.now()
	}
	return time.Now()
}

// isClosed reports whether a scope lets nobody in, and for how long it need not be asked.
func (h *holding) isClosed(scope later.Scope) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, closed := h.closed[scope]
	if !closed {
		return 0, false
	}
	wait := until.Sub(h.clock())
	if wait <= 0 {
		delete(h.closed, scope)
		return 0, false
	}
	return wait, true
}

// closedTenants are those that let nobody in.
func (h *holding) closedTenants() (tenants []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	for scope, until := range h.closed {
		switch {
		case !now.Before(until):
			delete(h.closed, scope)
		case scope.Of == later.ScopeTenant:
			tenants = append(tenants, scope.Name)
		}
	}
	return tenants
}

func (h *holding) close(scope later.Scope, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed == nil || len(h.closed) > maxLanes {
		h.closed = map[later.Scope]time.Time{}
	}
	h.closed[scope] = h.clock().Add(wait)
}

// started notes that a job fills places of scopes.
func (h *holding) started(id int64, scopes []later.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.let == nil || len(h.let) > maxRemembered {
		h.let = map[int64][]later.Scope{}
	}
	h.let[id] = scopes
}

// ended opens the scopes of jobs that run no more, and reports whether there are any.
func (h *holding) ended(settlements []later.Settlement) (opened bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.let) == 0 {
		return false
	}
	for _, end := range settlements {
		for _, scope := range h.let[end.Lease.ID] {
			delete(h.closed, scope)
			opened = true
		}
		delete(h.let, end.Lease.ID)
	}
	if opened {
		clear(h.next)
	}
	return opened
}

// setNext notes when a claim of some kinds may find what was held back; zero: nothing was.
func (h *holding) setNext(kinds string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wait == 0 {
		delete(h.next, kinds)
		return
	}
	if h.next == nil || len(h.next) > maxLanes {
		h.next = map[string]time.Time{}
	}
	h.next[kinds] = h.clock().Add(wait)
}

// untilNext is how long it is until then.
func (h *holding) untilNext(kinds string) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next, held := h.next[kinds]
	return max(next.Sub(h.clock()), 0), held
}

// reset forgets all but who runs: the limits have changed.
func (h *holding) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.next = nil, nil
}

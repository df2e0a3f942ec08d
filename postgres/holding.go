package postgres

import (
	"slices"
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
	closed map[later.Scope]closedGate
	let    map[int64][]later.Scope // the jobs that fill a place, by this store's doing
	next   map[string]nextLook     // of kinds
	// ends counts the settlements that freed places, and freed has the count for each scope of
	// which one did, later than unknown.
	ends, unknown uint64
	freed         map[later.Scope]uint64
	now           func() time.Time // nil is time.Now
}

// closedGate is a limit that let nobody in.
type closedGate struct {
	until time.Time // it is asked again
	opens time.Time // by itself, as far as is known
}

func (h *holding) clock() time.Time {
	if h.now != nil {
		return h.now()
	}
	return time.Now()
}

// isClosed reports whether a scope lets nobody in, and for how long that will be so if nobody does
// anything about it.
func (h *holding) isClosed(scope later.Scope) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gate, closed := h.closed[scope]
	if !closed {
		return 0, false
	}
	now := h.clock()
	if !now.Before(gate.until) {
		delete(h.closed, scope)
		return 0, false
	}
	return gate.opens.Sub(now), true
}

// closedTenants are those that let nobody in, and for how long at least if there are any.
func (h *holding) closedTenants() (tenants []string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	for scope, gate := range h.closed {
		switch {
		case !now.Before(gate.until):
			delete(h.closed, scope)
		case scope.Of == later.ScopeTenant:
			tenants = append(tenants, scope.Name)
			if opens := gate.opens.Sub(now); wait == 0 || opens < wait {
				wait = opens
			}
		}
	}
	return tenants, wait
}

// counted is how often places have been freed by now, for [holding.close].
func (h *holding) counted() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ends
}

// close notes that a scope lets nobody in, as it was seen after so many ends. If one of its own
// has come since, it may let somebody in again.
func (h *holding) close(scope later.Scope, wait time.Duration, ends uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if max(h.freed[scope], h.unknown) > ends {
		return
	}
	if h.closed == nil || len(h.closed) > maxLanes {
		h.closed = map[later.Scope]closedGate{}
	}
	now := h.clock()
	h.closed[scope] = closedGate{now.Add(min(wait, gateRecheck)), now.Add(wait)}
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
	h.ends++
	if h.freed == nil || len(h.freed) > maxLanes {
		h.freed, h.unknown = map[later.Scope]uint64{}, h.ends
	}
	for _, end := range settlements {
		for _, scope := range h.let[end.Lease.ID] {
			delete(h.closed, scope)
			h.freed[scope] = h.ends
			opened = true
		}
		delete(h.let, end.Lease.ID)
	}
	if opened {
		clear(h.next)
	}
	return opened
}

// nextLook is when a claim may find what the latest one of its kinds found held back.
type nextLook struct {
	queues []string
	at     time.Time
}

// setNext notes it; zero: nothing was held back.
func (h *holding) setNext(kinds string, queues []string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wait == 0 {
		delete(h.next, kinds)
		return
	}
	if h.next == nil || len(h.next) > maxLanes {
		h.next = map[string]nextLook{}
	}
	h.next[kinds] = nextLook{queues, h.clock().Add(wait)}
}

// untilNext is how long it is until then, for claims of some queues.
func (h *holding) untilNext(kinds string, queues []string) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next, held := h.next[kinds]
	for _, queue := range next.queues {
		held = held && slices.Contains(queues, queue)
	}
	if !held {
		return 0, false
	}
	return max(next.at.Sub(h.clock()), 0), true
}

// reset forgets all but who runs: limits have changed, or what they wait for.
func (h *holding) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.next = nil, nil
}

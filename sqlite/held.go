package sqlite

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// heldBack remembers where the latest claims of this store met due jobs that a limit held
// back: those who wait for them ask again at a time, and are woken when a place becomes free.
type heldBack struct {
	mu    sync.Mutex
	until map[heldKey]time.Time // when the first of them may go
}

// heldKey is a queue that was claimed from, and for which kinds.
type heldKey struct {
	queue string
	kinds string
}

// maxHeld is how many are remembered; then all are forgotten, and workers that wait find out
// when they poll. Chosen: far more than a store claims from.
const maxHeld = 10_000

// kindsKey is the same for the same kinds in any order.
func kindsKey(kinds []string) string { return strings.Join(uniqueNames(kinds), ",") }

// note remembers how long jobs are held back at least that a claim has met; 0: it met none.
func (h *heldBack) note(queues, kinds []string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wait == 0 && len(h.until) == 0 {
		return
	}
	if h.until == nil || len(h.until) > maxHeld {
		h.until = map[heldKey]time.Time{}
	}
	key, until := heldKey{kinds: kindsKey(kinds)}, time.Now().Add(wait)
	for _, key.queue = range queues {
		if wait == 0 {
			delete(h.until, key)
		} else {
			h.until[key] = until
		}
	}
}

// next is how long it is until the first job may go that is held back in queues; ok is false if
// none is.
func (h *heldBack) next(queues, kinds []string) (in time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.until) == 0 {
		return 0, false
	}
	key := heldKey{kinds: kindsKey(kinds)}
	for _, key.queue = range queues {
		if until, held := h.until[key]; held {
			if wait := max(time.Until(until), 0); !ok || wait < in {
				in, ok = wait, true
			}
		}
	}
	return in, ok
}

// queues are those in which jobs are held back.
func (h *heldBack) queues() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.until) == 0 {
		return nil
	}
	var names []string
	for key := range h.until {
		names = append(names, key.queue)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// freed wakes those who wait for jobs that are held back, because one that ran or was the head
// of an ordered scope is so no more.
func (s *Store) freed(tx transaction) {
	for _, queue := range s.held.queues() {
		tx.wake(queue)
	}
}

package sqlite

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// heldBack remembers what the latest claims of this store met that a limit held back: those who
// wait for it ask again at a time, and are woken when a place becomes free.
type heldBack struct {
	mu  sync.Mutex
	met map[heldKey]met // nil: there are no limits, as far as this store knows
}

// met is what a claim of a queue met.
type met struct {
	until time.Time // when the first that was held back may go; zero: none was met
	all   bool      // the claim would have met whatever was there: it had room left
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

// note remembers what a claim met: how long jobs are held back at least, 0 if none are, and
// whether it had room left. limited is whether there are limits.
func (h *heldBack) note(queues, kinds []string, wait time.Duration, room, limited bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !limited {
		h.met = nil
		return
	}
	if h.met == nil || len(h.met) > maxHeld {
		h.met = map[heldKey]met{}
	}
	one := met{all: room}
	if wait > 0 {
		one.until = time.Now().Add(wait)
	}
	key := heldKey{kinds: kindsKey(kinds)}
	for _, key.queue = range queues {
		h.met[key] = one
	}
}

// limits notes that there are limits.
func (h *heldBack) limits() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.met == nil {
		h.met = map[heldKey]met{}
	}
}

// next is how long it is until the first job may go that is held back in queues; ok is false if
// none is.
func (h *heldBack) next(queues, kinds []string) (in time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.met) == 0 {
		return 0, false
	}
	key := heldKey{kinds: kindsKey(kinds)}
	for _, key.queue = range queues {
		if one := h.met[key]; !one.until.IsZero() {
			if wait := max(time.Until(one.until), 0); !ok || wait < in {
				in, ok = wait, true
			}
		}
	}
	return in, ok
}

// queues are those in which jobs may be held back.
func (h *heldBack) queues() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.met == nil:
		return nil
	case len(h.met) == 0:
		return []string{anyQueue}
	}
	var names []string
	for key, one := range h.met {
		if !one.until.IsZero() || !one.all {
			names = append(names, key.queue)
		}
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

package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

const (
	// firstPause and longestPause bound how long the ear waits before it connects
	// again; each pause may be twice as long as the one before. Chosen: shorter than a
	// server's restart, and long enough for thousands of processes to find it.
	firstPause   = 100 * time.Millisecond
	longestPause = 15 * time.Second
	// deafPause is the longest pause when the connection is well, but hears nothing: that
	// is how poolers are, and it seldom changes. Chosen.
	deafPause = 5 * time.Minute
	// steady is how long a connection must have lasted for the next one to be tried at
	// once again. Chosen.
	steady = 10 * time.Second
)

// ear hears for all watches of a store. It has a goroutine and a connection while
// there are watches that have waited.
type ear struct {
	store      *Store
	direct     *pgx.ConnConfig // for listening; nil: as the pool connects
	proofEvery time.Duration   // the constant, but in tests
	proofTime  time.Duration

	mu      sync.Mutex
	closed  bool
	watches []*watch
	warned  bool               // that nothing is heard
	hearing *hearing           // the connection, or nil
	cancel  context.CancelFunc // of the goroutine, or nil
	done    chan struct{}      // closed when the goroutine has ended
}

func newEar(s *Store) *ear { return &ear{store: s, proofEvery: proofEvery, proofTime: proofTime} }

// add has the ear hear for w. Call it with the lock held.
func (e *ear) add(w *watch) {
	if !slices.Contains(e.watches, w) {
		e.watches = append(e.watches, w)
	}
	if e.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	before, done := e.done, make(chan struct{})
	e.cancel, e.done = cancel, done
	go func() {
		defer close(done)
		if before != nil {
			<-before // one connection at a time
		}
		e.run(ctx)
	}()
}

// remove undoes add. With the last watch the connection ends.
func (e *ear) remove(w *watch) {
	e.mu.Lock()
	e.watches = slices.DeleteFunc(e.watches, func(other *watch) bool { return other == w })
	if len(e.watches) > 0 {
		e.kick()
		e.mu.Unlock()
		return
	}
	e.end()
}

// close ends the ear for good.
func (e *ear) close() {
	e.mu.Lock()
	e.closed = true
	e.end()
}

// end ends the goroutine, and waits for it. It gives the lock back.
func (e *ear) end() {
	cancel, done := e.cancel, e.done
	e.cancel = nil
	e.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if done != nil {
		<-done
	}
}

// kick has the connection see that the watches have changed. Call it with the lock
// held.
func (e *ear) kick() {
	if e.hearing != nil {
		e.hearing.kick()
	}
}

// run connects again and again.
func (e *ear) run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		h := &hearing{ear: e, changed: make(chan struct{})}
		e.mu.Lock()
		e.hearing = h
		e.mu.Unlock()

		began := time.Now()
		err := h.session(ctx)
		proven := e.lose(h, err)
		if ctx.Err() != nil {
			return
		}
		if proven && time.Since(began) > steady {
			pause = firstPause
		}
		longest := longestPause
		if isDeaf(err) && !proven {
			longest = deafPause
		}
		timer := time.NewTimer(rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		pause = min(2*pause, longest)
	}
}

// lose gives up a connection. The watches that relied on it are woken, so that their
// workers learn that they have to poll.
func (e *ear) lose(h *hearing, reason error) (proven bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hearing = nil
	proven, h.proven = h.proven, false
	h.tell()
	for _, w := range e.watches {
		w.known = false
		if proven {
			w.wake()
		}
	}
	if !e.warned && !errors.Is(reason, context.Canceled) {
		e.warned = true
		e.store.log.Warn("wake-ups are not heard, workers poll", "err", reason)
	}
	return proven
}

// prove marks a connection on which wake-ups arrive. What came before, nobody has heard.
func (e *ear) prove(h *hearing) {
	h.proven = true
	h.tell()
	for _, w := range e.watches {
		w.wake()
	}
	if e.warned {
		e.warned = false
		e.store.log.Info("wake-ups are heard again")
	}
}

// wanted are the locks that the watches want held, without repetition.
func (e *ear) wanted() []string {
	var keys []string
	for _, w := range e.watches {
		if w.listed {
			keys = append(keys, w.keys()...)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

const (
	// keyAny and keyMany stand for the locks that are not a queue's; no queue has such
	// a name.
	keyAny  = ""
	keyMany = "*"
	// manyQueues is how many queues have locks of their own. The server has room for some
	// thousands of locks in all. Chosen.
	manyQueues = 16
)

// keys are what shows that the watch waits.
func (w *watch) keys() []string {
	if len(w.queues) > manyQueues {
		return []string{keyAny, keyMany}
	}
	return append([]string{keyAny}, w.queues...)
}

// anyQueue is in a notification that concerns every queue: the gates have changed.
const anyQueue = "*"

// wakeAll has the workers of this process that wait look again.
func (e *ear) wakeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.watches {
		if w.waiting {
			w.wake()
		}
	}
}

// heard passes a notification on.
func (e *ear) heard(queue string, peers int) {
	for _, w := range e.watches {
		if queue == anyQueue || slices.Contains(w.queues, queue) {
			w.notified(peers)
		}
	}
}

var _ later.Watch = (*watch)(nil)

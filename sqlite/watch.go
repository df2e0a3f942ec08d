package sqlite

import (
	"context"
	"slices"
	"sync"

	"github.com/later-queue/later"
)

var _ later.Waker = (*Store)(nil)

// Watch implements [later.Waker]. What this store commits, and what is enqueued
// in a transaction of [Store.DB], is told at once. What others write, such as
// another process or plain SQL, shows in the file and is told within 25 ms;
// they are not asked which queue it was for. On Windows, where the times of an
// open file are not kept up to date, Waiting says that the worker has to poll. In
// a database in memory, plain SQL outside of a transaction is not noticed. Several
// workers of one process are told at once: their claims take turns anyway.
func (s *Store) Watch(worker string, queues []string) later.Watch {
	return s.watches.add(queues)
}

// watches are those of one store.
type watches struct {
	file walFile

	mu      sync.Mutex
	open    map[*watch]bool
	waiting int // how many of open
	seen    walState
	heard   bool            // the last look at the file told something
	pending map[string]bool // queues of the jobs enqueued in the application's transaction that is under way
	closed  bool
	looks   int // how often the file was looked at: for tests

	begun chan struct{} // has a value when somebody began to wait
	stop  chan struct{} // ends the looker; nil: it does not run
	ended chan struct{} // closed when it has ended
}

func newWatches(file walFile) *watches {
	return &watches{file: file, open: map[*watch]bool{}, pending: map[string]bool{}, begun: make(chan struct{}, 1)}
}

// watch implements [later.Watch].
type watch struct {
	all    *watches
	queues []string
	wakes  chan struct{}

	waiting bool // guarded by all.mu, as closed is
	closed  bool
}

func (w *watches) add(queues []string) *watch {
	one := &watch{all: w, queues: slices.Clone(queues), wakes: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[one] = true
	return one
}

// Wakes implements [later.Watch].
func (one *watch) Wakes() <-chan struct{} { return one.wakes }

// Waiting implements [later.Watch]. It remembers how the file looks, which takes
// one system call.
func (one *watch) Waiting(ctx context.Context) (heard bool, err error) {
	w := one.all
	if err := ctx.Err(); err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return false, later.ErrClosed
	case one.closed:
		return false, nil
	case one.waiting:
		return w.heard, nil
	}
	w.look() // on behalf of those who wait already
	one.waiting = true
	w.waiting++
	w.ensureLooker()
	return w.heard, nil
}

// Busy implements [later.Watch].
func (one *watch) Busy() {
	one.all.mu.Lock()
	defer one.all.mu.Unlock()
	one.all.rest(one)
}

// Close implements [later.Watch].
func (one *watch) Close() {
	w := one.all
	w.mu.Lock()
	w.rest(one)
	one.closed = true
	delete(w.open, one)
	var ended chan struct{}
	if len(w.open) == 0 {
		ended = w.stopLooker()
	}
	w.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// close ends what runs on behalf of watches that were not closed.
func (w *watches) close() {
	w.mu.Lock()
	w.closed = true
	ended := w.stopLooker()
	w.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// wake tells those who wait for jobs of queues.
func (w *watches) wake(queues map[string]bool) {
	if len(queues) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(queues)
}

// enqueuedInTx remembers the queue of a job that was enqueued in a transaction of
// the application. There is one at a time, behind the gate; one of a connection
// that the store did not make may be mistaken for it, and then shows in the file.
func (w *watches) enqueuedInTx(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[queue] = true
}

// txEnded tells of the jobs of a transaction of the application. It is called
// before the next one can begin.
func (w *watches) txEnded(committed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !committed:
	case w.file == "": // nothing else would show plain SQL
		w.tell(nil)
	default:
		if len(w.pending) > 0 {
			w.tell(w.pending)
		}
	}
	clear(w.pending)
}

// anyQueue stands for all queues among those to be woken.
const anyQueue = "*"

// tell wakes those who wait for one of queues, nil being all. It needs mu.
func (w *watches) tell(queues map[string]bool) {
	if w.waiting == 0 {
		return
	}
	for one := range w.open {
		if !one.waiting || queues != nil && !queues[anyQueue] && !slices.ContainsFunc(one.queues, func(q string) bool { return queues[q] }) {
			continue
		}
		select {
		case one.wakes <- struct{}{}:
		default: // there is one that nobody has taken yet
		}
	}
}

// rest notes that one does not wait. It needs mu.
func (w *watches) rest(one *watch) {
	if one.waiting {
		one.waiting = false
		w.waiting--
	}
}

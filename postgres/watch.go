package postgres

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/later-queue/later"
)

const (
	// busyGrace is how long a worker that has found jobs still counts as waiting. One
	// that waits again within it, as an idle one with a short job now and then, causes
	// no statement. Chosen: longer than it takes to claim and to look once more.
	busyGrace = 20 * time.Millisecond
	// trail is after how long a worker looks once more for what was committed late: by
	// a transaction that had its wake-up sent by another, or that inserted before the
	// worker's waiting was known. Chosen: many times the duration of a commit.
	trail = 25 * time.Millisecond
	// longTrail is the same for transactions that went on after they had inserted.
	// Notifications put it off, each of which has a look of its own.
	longTrail = 500 * time.Millisecond
	// lateLookers is how many of the processes that wait look again after longTrail, on
	// average. Chosen: that none does happens once in twenty times (e to the power of
	// minus 3), and beside the looks that the notification itself has caused, one for
	// each process, three cost little.
	lateLookers = 3
	// spread is by how much each further process that waits spreads their wake-ups, so
	// that they do not claim at once what only one of them gets. Chosen: a claim's
	// duration.
	spread = 2 * time.Millisecond
	// longestSpread bounds that, whatever the number of processes. Chosen.
	longestSpread = 50 * time.Millisecond
)

// watch is one worker's. Its fields belong to ear.mu.
type watch struct {
	ear    *ear
	queues []string
	wakes  chan struct{} // has room for one

	closed  bool
	waiting bool // since Waiting, until Busy
	listed  bool // waiting, or until a moment ago
	known   bool // to those who enqueue, since an earlier Waiting
	grace   *time.Timer
	looks   [3]time.Time // when to look without a notification; zero: not
	timer   *time.Timer  // for the first of looks
}

// What a look is for.
const (
	lookSpread = iota // after a notification, in turn with other processes
	lookTrail
	lookLongTrail
)

var _ later.Waker = (*Store)(nil)

// Watch implements [later.Waker]. All watches of a store share one connection of
// their own, which is made when one of them first waits, and ends with the last of
// them. It must be able to LISTEN: behind a pooler in transaction mode, but for
// [Config.ListenURL], or with [Config.NoListen], Waiting always says that wake-ups
// are not heard.
func (s *Store) Watch(worker string, queues []string) later.Watch {
	return &watch{ear: s.ear, queues: slices.Clone(queues), wakes: make(chan struct{}, 1)}
}

// Wakes implements [later.Watch].
func (w *watch) Wakes() <-chan struct{} { return w.wakes }

// Waiting implements [later.Watch].
func (w *watch) Waiting(ctx context.Context) (heard bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	e := w.ear
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false, later.ErrClosed
	}
	if w.closed || e.store.config.NoListen {
		return false, nil
	}
	w.waiting, w.listed = true, true
	stop(w.grace)
	e.add(w)
	for {
		if e.closed {
			return false, later.ErrClosed
		}
		hearing := e.hearing
		if w.closed || hearing == nil || !hearing.proven {
			return false, nil
		}
		if hearing.holds(w) {
			break
		}
		w.known = false
		if err := hearing.await(ctx); err != nil {
			return false, err
		}
	}
	if !w.known {
		w.known = true
		w.lookAfter(lookTrail, trail)
		w.lookAfter(lookLongTrail, longTrail)
	}
	return true, nil
}

// Busy implements [later.Watch].
func (w *watch) Busy() {
	e := w.ear
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.closed || !w.waiting {
		return
	}
	w.waiting = false
	stop(w.grace)
	w.grace = time.AfterFunc(busyGrace, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if w.waiting || w.closed {
			return
		}
		w.listed, w.known = false, false
		e.kick()
	})
}

// Close implements [later.Watch].
func (w *watch) Close() {
	w.ear.mu.Lock()
	w.closed, w.waiting, w.listed = true, false, false
	stop(w.grace)
	stop(w.timer)
	w.ear.mu.Unlock()
	w.ear.remove(w)
}

// notified is told of a job in one of the watch's queues. Of the processes that wait,
// peers in number, each comes in its time, and some come once more. One that is busy
// looks before it waits, but a commit that left the notifying to the one that was heard
// may come after that.
func (w *watch) notified(peers int) {
	if !w.waiting && !w.known {
		return // Waiting will have it look
	}
	if w.waiting {
		if window := min(time.Duration(peers-1)*spread, longestSpread); window <= 0 {
			w.wake()
		} else if w.looks[lookSpread].IsZero() {
			w.lookAfter(lookSpread, rand.N(window))
		}
	}
	if oneOf(1, peers) {
		w.lookAfter(lookTrail, trail)
	}
	if oneOf(lateLookers, peers) {
		w.lookAfter(lookLongTrail, longTrail)
	}
}

// oneOf has n of the processes do something, on average, and all if they are fewer.
func oneOf(n, processes int) bool { return processes <= n || rand.IntN(processes) < n }

// lookAfter wakes the watch after d, in place of an earlier call for the same reason.
func (w *watch) lookAfter(reason int, d time.Duration) {
	w.looks[reason] = time.Now().Add(d)
	w.arm()
}

// arm sets the timer for the first of the looks.
func (w *watch) arm() {
	stop(w.timer)
	var first time.Time
	for _, at := range w.looks {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return
	}
	w.timer = time.AfterFunc(time.Until(first), func() {
		w.ear.mu.Lock()
		defer w.ear.mu.Unlock()
		if w.closed {
			return
		}
		for reason, at := range w.looks {
			if !at.IsZero() && time.Until(at) <= 0 {
				w.looks[reason] = time.Time{}
				w.wake() // who is busy now will look before it waits
			}
		}
		w.arm()
	})
}

// wake puts a value into the channel, where there is none yet.
func (w *watch) wake() {
	if w.closed || !w.waiting {
		return
	}
	select {
	case w.wakes <- struct{}{}:
	default:
	}
}

func stop(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

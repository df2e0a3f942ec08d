package postgres

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// marks remember where claims have got to. What a claim may not take (jobs that
// run, cancelled ones) stays in front of what it may, and so do the index entries of
// finished jobs for as long as some transaction keeps them from being vacuumed.
// Where reading past all that takes long, the next claims start where the last one
// ended.
//
// What comes in behind a mark is found by the next look from the head: commits
// that took their time, jobs given back, leases that ended. After a look that
// took the time t there is no other for headPause·t, but not for longer than
// maxHeadPause or t itself. A look that was given up because it outlasted its bound
// counts like one that ended: the claims after it go on behind the marks. One that
// takes so long that jobs would wait for it is made beside the claims ([Store.lookBehind]),
// and moves the marks back to what it finds. As long as
// looks from the head are quick, which is nearly always, each claim is one and there
// are no marks; one slow look may be the server's doing, two in a row are not.
type marks struct {
	mu    sync.Mutex
	lanes map[laneKey]*lane
	now   func() time.Time // nil is time.Now
	// way is how much longer the latest careful claim took for its caller than for the
	// server: the way there and back, and a connection for it.
	way time.Duration
}

const (
	// headPause is how many times its own duration a look from the head is
	// followed by none. Chosen: it bounds the cost at 5% of one connection's time,
	// as long as a look takes less than a quarter of a second.
	headPause = 20
	// maxHeadPause is the longest pause, and so for how long what comes in behind a
	// mark, or with a priority that a blind lane has not seen, stays hidden at most.
	// Chosen: nobody calls it stuck yet.
	maxHeadPause = 5 * time.Second
	// slowLook, slowRow and slowLane are what a look from the head may take, for each
	// job that it takes, and for each kind of each level that it looks for, without
	// being called slow. Measured: with nothing in the way it takes 0.3 ms, 6 µs for
	// each job and 3 to 8 µs for each kind; the rest is for a busy server.
	slowLook = 5 * time.Millisecond
	slowRow  = 20 * time.Microsecond
	slowLane = 20 * time.Microsecond
	// unsettledTime is how far back from now a mark stays at least. Whoever enqueues has
	// a run_at from before the commit: a job that is committed just after a claim
	// has looked would lie behind a mark at that claim's time. Chosen: many times what
	// an insert takes; at 2,000 jobs a second a claim then passes 600 entries too many,
	// some 0.2 ms. A transaction that stays open for longer after it has enqueued has its jobs
	// found by the next look from the head.
	unsettledTime = 300 * time.Millisecond
	// longLook is how long a look from the head may have taken for the next to be a
	// claim, for which the jobs that come meanwhile wait. After a longer one, what is
	// behind the marks is looked for beside the claims. Chosen: it is 5% of one's latencies.
	longLook = 20 * time.Millisecond
	// maxLanes bounds the memory; beyond it, all is forgotten. Far more queues
	// and sets of kinds than one process serves.
	maxLanes = 10_000
)

type laneKey struct{ kinds, queue string }

type lane struct {
	headAfter time.Time          // no look from the head before
	gaveUp    bool               // the last look from the head outlasted its bound
	took      time.Duration      // the last look from the head
	looking   bool               // a look beside the claims is under way ([Store.lookBehind])
	levels    map[int32]position // nil after the first slow look
	// behind is from where the next claim is to begin instead, in levels where a look
	// beside the claims has found something. It is kept apart, because a claim that was
	// under way meanwhile moves its mark on.
	behind map[int32]position
	// blind: only these levels are visited until the next look from the head,
	// because looking for others is slow as well. That is so where a whole level
	// has been finished before this process came, and cannot be vacuumed.
	blind bool
}

// position is a place in the order of a priority level.
type position struct {
	runAt time.Time
	id    int64
}

// markArrays are marks as parameters: of the queue with the number nr, priority's
// mark; and for each queue whether it is blind.
type markArrays struct {
	nrs, priorities []int32
	runAts          []time.Time
	ids             []int64
	blind           []bool
}

// seen is what a claim tells about the levels that it went through.
type seen struct {
	nrs, priorities []int32
	asked, picked   []int32
	now             time.Time
	elapsed         time.Duration
}

func (m *marks) clock() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

// none reports whether no marks are kept for the queues of a claim, so that it need not
// tell how far it has come.
func (m *marks) none(req later.ClaimRequest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lanes) == 0 {
		return true
	}
	kinds := kindsKey(req.Kinds)
	return !slices.ContainsFunc(req.Queues, func(q later.QueueLimit) bool {
		return m.lanes[laneKey{kinds, q.Queue}] != nil
	})
}

// afterQuick notes that a claim without marks took long, if it did. It cannot say where.
func (m *marks) afterQuick(req later.ClaimRequest, elapsed time.Duration, jobs int) {
	if !isSlow(elapsed, jobs, len(req.Queues)*len(req.Kinds)) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeRoom()
	for _, q := range req.Queues {
		if key := (laneKey{kindsKey(req.Kinds), q.Queue}); m.lanes[key] == nil {
			m.lanes[key] = &lane{}
		}
	}
}

func (m *marks) lag() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.way
}

func (m *marks) learnLag(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.way = d
}

// isSlow reports whether a look that found so many jobs in so many lanes took long.
func isSlow(elapsed time.Duration, jobs, lanes int) bool {
	return elapsed > slowLook+time.Duration(jobs)*slowRow+time.Duration(lanes)*slowLane
}

// makeRoom prepares the map for a new lane. The lock is held.
func (m *marks) makeRoom() {
	if m.lanes == nil || len(m.lanes) > maxLanes {
		m.lanes = map[laneKey]*lane{}
	}
}

// before returns where a claim is to start, and for which of its queues that is
// the head.
func (m *marks) before(req later.ClaimRequest) (arrays markArrays, head []bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	head = make([]bool, len(req.Queues))
	arrays.blind = make([]bool, len(req.Queues))
	if len(m.lanes) == 0 || req.Thorough {
		for i := range head {
			head[i] = true
		}
		return arrays, head
	}
	now, kinds := m.clock(), kindsKey(req.Kinds)
	for i, q := range req.Queues {
		l := m.lanes[laneKey{kinds, q.Queue}]
		if l == nil || !now.Before(l.headAfter) && l.took <= longLook {
			head[i] = true
			continue
		}
		arrays.blind[i] = l.blind
		for priority, p := range l.behind {
			if mark, known := l.levels[priority]; !known || p.before(mark) {
				l.levels[priority] = p
			}
		}
		l.behind = nil
		for priority, p := range l.levels {
			arrays.nrs, arrays.priorities = append(arrays.nrs, int32(i+1)), append(arrays.priorities, priority)
			arrays.runAts, arrays.ids = append(arrays.runAts, p.runAt), append(arrays.ids, p.id)
		}
	}
	return arrays, head
}

// after records how far a claim has got, if it is worth remembering.
func (m *marks) after(req later.ClaimRequest, head []bool, s seen, jobs []*later.Claimed) {
	slow := isSlow(s.elapsed, len(jobs), len(s.nrs)*len(req.Kinds))
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slow && len(m.lanes) == 0 {
		return
	}
	m.makeRoom()
	last := lastOf(jobs)
	kinds := kindsKey(req.Kinds)
	for i, q := range req.Queues {
		key := laneKey{kinds, q.Queue}
		switch {
		case head[i] && !slow:
			delete(m.lanes, key)
			continue
		case head[i] && m.lanes[key] == nil:
			m.lanes[key] = &lane{}
			continue
		case head[i]:
			m.lanes[key] = m.lanes[key].relooked(m.clock(), s)
		case m.lanes[key] == nil || m.lanes[key].levels == nil: // another claim has looked from the head meanwhile
			continue
		case slow:
			m.lanes[key].blind = true
		}
		for j, nr := range s.nrs {
			if int(nr) != i+1 || s.asked[j] == 0 {
				continue
			}
			p, ok := last[level{q.Queue, s.priorities[j]}]
			if edge := seenUntil(s.now); s.picked[j] < s.asked[j] || ok && edge.runAt.Before(p.runAt) {
				p, ok = edge, true // all that was due has been seen, or nearly all
			}
			if ok {
				m.lanes[key].levels[s.priorities[j]] = p
			}
		}
	}
}

// relooked is l after a slow look from the head. A level that the
// look does not mention has nothing in it; its mark stays, because only through it
// is the level passed quickly.
func (l *lane) relooked(clock time.Time, s seen) *lane {
	next := &lane{
		headAfter: clock.Add(pauseAfter(s.elapsed)), took: s.elapsed, looking: l.looking, levels: map[int32]position{},
	}
	for priority := range l.levels {
		next.levels[priority] = seenUntil(s.now)
	}
	return next
}

// seenUntil is the place up to which a level is known that was seen whole at the time
// now.
func seenUntil(now time.Time) position { return position{now.Add(-unsettledTime), math.MaxInt64} }

// pauseAfter is for how long no look from the head follows one that took so long.
func pauseAfter(elapsed time.Duration) time.Duration {
	return max(elapsed, min(headPause*elapsed, maxHeadPause))
}

// gaveUp records that a claim outlasted its bound. Where it looked from the head,
// that is put off, and the marks from before it hold on. Where there are none yet,
// there is nothing to go on from.
func (m *marks) gaveUp(req later.ClaimRequest, head []bool, elapsed time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kinds := kindsKey(req.Kinds)
	for i, q := range req.Queues {
		if l := m.lanes[laneKey{kinds, q.Queue}]; l != nil && head[i] {
			l.headAfter, l.gaveUp = m.clock().Add(pauseAfter(elapsed)), true
		}
	}
}

// forget has the next claims look from the head: this process has put something
// back behind the marks. They stay for the case that the look is given up; where
// the last one was, it is not tried again before its time.
func (m *marks) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lanes {
		if !l.gaveUp {
			l.headAfter = time.Time{}
		}
	}
}

type level struct {
	queue    string
	priority int32
}

// lastOf is the position of the last job of each level.
func lastOf(jobs []*later.Claimed) map[level]position {
	last := map[level]position{}
	for _, c := range jobs { // in order
		last[level{c.Queue, int32(c.Priority)}] = position{c.RunAt, c.ID}
	}
	return last
}

func kindsKey(kinds []string) string { return strings.Join(kinds, " ") } // no kind has a space

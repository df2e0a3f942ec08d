package postgres

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// rotations remember, for queues in which tenants take turns, whose turn is next, and for those in
// which claims are slow, where to begin.
//
// What a claim may not take (jobs that run, cancelled ones) stays in front of what it may,
// and so do the index entries of finished jobs for as long as some transaction keeps them
// from being vacuumed. Where reading past all that takes long, the next claims start where
// the last one ended: each lane has a mark.
//
// What comes in behind a mark, or in a lane that has none, is found by the next look from the
// heads: commits that took their time, jobs given back, leases that ended, tenants that are
// new. After a look that took the time t there is no other for headPause·t, but not for longer
// than maxHeadPause or t itself. A look that was given up because it outlasted its bound
// counts like one that ended: the claims after it go on behind the marks. One that
// takes so long that jobs would wait for it is made beside the claims ([Store.lookBehind]),
// and moves the marks back to what it finds. As long as looks from the heads are quick, which is
// nearly always, each claim makes one and there are no marks; one slow look may be the
// server's doing, two in a row are not.
type rotations struct {
	mu  sync.Mutex
	all map[rotationKey]*rotation
	// asked is when a claim for some queues and kinds, of which the latest was full, has last
	// asked whether any of their jobs has a tenant.
	asked map[string]time.Time
	now   func() time.Time // nil is time.Now
	// way is how much longer the latest claim took for its caller than for the server: the
	// way there and back, and a connection for it.
	way time.Duration
	// server is the latest time that the server has told, and told when it was heard.
	server, told time.Time
	// highest is the highest id that was claimed.
	highest int64
	// alone: there is one connection for everything, so a look beside the claims would keep
	// all else waiting, and claims look themselves, however long it takes.
	alone bool
}

const (
	// headPause is how many times its own duration a look from the heads is
	// followed by none. Chosen: it bounds the cost at 5% of one connection's time,
	// as long as a look takes less than a quarter of a second.
	headPause = 20
	// maxHeadPause is the longest pause, and so for how long what comes in behind a
	// mark, or in a lane without one, stays hidden at most. Chosen: nobody calls it stuck yet.
	maxHeadPause = 5 * time.Second
	// slowLook, slowRow and slowLane are what a look from the heads may take, for each
	// job that it takes, and for each kind of each lane that it looks for, without
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
	// found by the next look from the heads.
	unsettledTime = 300 * time.Millisecond
	// longLook is how long a look from the heads may have taken for the next to be part of a
	// claim, for which the jobs that come meanwhile wait. After a longer one, what is
	// behind the marks is looked for beside the claims. Chosen: it is 5% of one's latencies.
	longLook = 20 * time.Millisecond
	// maxLanes bounds the memory: of a queue with more lanes, the ones longest looked at are
	// forgotten, and found again by the next look. Far more queues and sets of kinds than
	// one process serves.
	maxLanes = 10_000
	// askAgain is for how long claims that are full do not ask whether any job has a tenant,
	// and tenantsGone for how long there must be none for claims to stop looking for them.
	// Chosen: a tenant may wait so long for its first turn beside a queue full of jobs
	// that have none, and the question costs no more than a job.
	askAgain    = 50 * time.Millisecond
	tenantsGone = time.Second
)

type rotationKey struct{ kinds, queue string }

// lane is what takes turns: the jobs of a queue with one priority and one tenant.
type lane struct {
	priority int32
	tenant   string
}

// position is a place in the order of a lane.
type position struct {
	runAt time.Time
	id    int64
}

// before reports whether p comes first.
func (p position) before(q position) bool {
	return p.runAt.Before(q.runAt) || p.runAt.Equal(q.runAt) && p.id < q.id
}

// seenUntil is the place up to which a lane is known that was seen whole at the time
// now.
func seenUntil(now time.Time) position { return position{now.Add(-unsettledTime), math.MaxInt64} }

type rotation struct {
	cursors map[int32]string // whose turn was the last one of each priority
	begun   map[int32]begunTurn
	tenants time.Time // when there was a tenant last

	marks map[lane]position // nil: claims begin at the heads
	// behind is from where the next claim is to begin instead, in lanes where a look
	// beside the claims has found something. It is kept apart, because a claim that was
	// under way meanwhile moves its mark on.
	behind    map[lane]position
	fresh     fresh
	slow      bool          // the last look from the heads was
	took      time.Duration // by it
	lookAfter time.Time     // no look from the heads before
	gaveUp    bool          // it outlasted its bound
	looking   bool          // a look beside the claims is under way
	searched  []int64       // unanswered tokens that a look was for
	forgotten int           // how often forget was called
}

func (m *rotations) clock() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

// none reports whether nothing is remembered of the queues of a claim, so that a quick claim
// will do.
func (m *rotations) none(req later.ClaimRequest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) == 0 {
		return true
	}
	kinds := kindsKey(req)
	return !slices.ContainsFunc(req.Queues, func(q later.QueueLimit) bool {
		return m.all[rotationKey{kinds, q.Queue}] != nil
	})
}

// toAsk reports whether a quick claim is to ask if any job has a tenant: not while the claims
// are full and it was asked just now.
func (m *rotations) toAsk(req later.ClaimRequest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.asked[askKey(req)]
	return !ok || m.clock().Sub(last) >= askAgain
}

// afterQuick notes what a quick claim has told. It cannot say where it was slow.
func (m *rotations) afterQuick(req later.ClaimRequest, elapsed time.Duration, jobs int, asked, tenants bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch key := askKey(req); {
	case jobs < req.Limit:
		delete(m.asked, key)
	case asked:
		if m.asked == nil || len(m.asked) > maxLanes {
			m.asked = map[string]time.Time{}
		}
		m.asked[key] = m.clock()
	}
	slow := isSlow(elapsed, jobs, len(req.Queues)*len(req.Kinds))
	if !slow && !tenants {
		return
	}
	for _, q := range req.Queues {
		if r := m.of(rotationKey{kindsKey(req), q.Queue}); tenants {
			r.tenants = m.clock()
		} else {
			r.slow = true
		}
	}
}

// of is a rotation, made if there is none. The lock is held.
func (m *rotations) of(key rotationKey) *rotation {
	if m.all == nil || len(m.all) > maxLanes {
		m.all = map[rotationKey]*rotation{}
	}
	r := m.all[key]
	if r == nil {
		r = &rotation{cursors: map[int32]string{}}
		m.all[key] = r
	}
	return r
}

func (m *rotations) lag() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.way
}

// learn notes what a statement has told: the server's time, and how much longer it took for
// its caller than for the server.
func (m *rotations) learn(server time.Time, lag time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server, m.told, m.way = server, m.clock(), lag
}

// serverTime is a time at which the server's clock has been already, or zero: a statement that
// returns no rows does not tell its own.
func (m *rotations) serverTime() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server.IsZero() {
		return time.Time{}
	}
	return m.server.Add(max(m.clock().Sub(m.told), 0))
}

// isSlow reports whether a look that found so many jobs in so many lanes took long.
func isSlow(elapsed time.Duration, jobs, lanes int) bool {
	return elapsed > slowLook+time.Duration(jobs)*slowRow+time.Duration(lanes)*slowLane
}

// pauseAfter is for how long no look from the heads follows one that took so long.
func pauseAfter(elapsed time.Duration) time.Duration {
	return max(elapsed, min(headPause*elapsed, maxHeadPause))
}

// begin returns the queues of a claim: for those with marks, the lanes in the order of their
// turns; the others are to be looked through from the heads.
func (m *rotations) begin(req later.ClaimRequest) []*turnQueue {
	m.mu.Lock()
	defer m.mu.Unlock()
	queues := make([]*turnQueue, len(req.Queues))
	for i, limit := range req.Queues {
		q := &turnQueue{name: limit.Queue, nr: int32(i + 1), room: min(limit.Limit, maxClaim), head: true, whole: req.Thorough, fromLowest: req.FromLowest}
		queues[i] = q
		r := m.all[rotationKey{kindsKey(req), limit.Queue}]
		if r == nil {
			continue
		}
		q.cursors, q.begun, q.forgotten = maps.Clone(r.cursors), maps.Clone(r.begun), r.forgotten
		q.whole = q.whole || r.slow || r.marks != nil
		if r.marks == nil || req.Thorough || (r.took <= longLook || m.alone) && r.lookDue(m.clock(), req.Unanswered) {
			continue
		}
		q.head, q.complete = false, true
		for l, p := range r.behind {
			if mark, known := r.marks[l]; !known || p.before(mark) {
				r.marks[l] = p
			}
		}
		r.behind = nil
		for l, p := range r.marks {
			q.add(&turnLane{lane: l, from: p})
		}
		q.sort()
	}
	return queues
}

// lookDue reports whether it is time to look from the heads: after a pause, or because there is a
// claim whose answer was lost and that was not looked for.
func (r *rotation) lookDue(now time.Time, unanswered []int64) bool {
	due := !now.Before(r.lookAfter)
	for _, token := range unanswered {
		due = due || !slices.Contains(r.searched, token)
	}
	if due {
		r.searched = slices.Clone(unanswered)
	}
	return due
}

// end takes what a claim has seen: in its queues from the heads, and behind their marks.
func (m *rotations) end(req later.ClaimRequest, c *turnClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kinds, now := kindsKey(req), c.now
	for _, job := range c.jobs {
		m.highest = max(m.highest, job.ID)
	}
	for _, q := range c.queues {
		key := rotationKey{kinds, q.name}
		r := m.all[key]
		if r != nil && c.fresh.told && (!q.head || q.whole) {
			r.fresh.moveOn(c.fresh.now, max(c.fresh.last, m.highest))
		}
		switch {
		case !q.head:
			if r != nil && r.marks != nil { // else another claim has looked from the heads meanwhile
				r.moveOn(q, now)
			}
		case r == nil && (q.slow || q.tenants()):
			r = m.of(key)
			r.slow, r.tenants = q.slow, m.clock()
		case r == nil:
		case q.slow && r.slow:
			r.relooked(q, m.clock(), now, c.lookedAt, c.isLeftOut)
		default:
			r.slow, r.gaveUp = q.slow, false
			if q.slow {
				break
			}
			r.unmark()
			if q.tenants() || !q.complete {
				r.tenants = m.clock()
			} else if m.clock().Sub(r.tenants) > tenantsGone {
				delete(m.all, key)
			}
		}
		if r != nil {
			maps.Copy(r.cursors, q.cursors)
			r.begun = q.begun
		}
	}
}

// relooked takes a second slow look from the heads. A lane that it does not mention has
// nothing in it, unless it was left out; its mark stays, because only through it is the lane passed
// quickly.
func (r *rotation) relooked(q *turnQueue, clock, now, lookedAt time.Time, leftOut func(tenant string) bool) {
	if r.marks == nil {
		r.marks = map[lane]position{}
	}
	r.gaveUp = false
	r.looked(q, clock, q.took, q.took)
	r.makeRoom(len(q.seen))
	if q.complete && !lookedAt.IsZero() {
		for l := range r.marks {
			if !leftOut(l.tenant) {
				r.marks[l] = seenUntil(lookedAt)
			}
		}
	}
	for _, l := range q.seen {
		r.marks[l.lane] = l.mark(now)
	}
}

// moveOn moves the marks of the lanes that a claim went through behind them.
func (r *rotation) moveOn(q *turnQueue, now time.Time) {
	if now.IsZero() {
		return
	}
	for _, l := range q.seen {
		p, known := r.marks[l.lane]
		switch {
		case !known && len(r.marks) >= maxLanes: // the next look will find it
		case l.visited:
			r.marks[l.lane] = l.mark(now)
		case l.fresh && (!known || l.from.before(p)):
			r.marks[l.lane] = l.from
		}
	}
}

// looked notes that a look from the heads took so long, by the server and for whoever made it.
// What was put back meanwhile it may have missed, so there is no pause then.
func (r *rotation) looked(q *turnQueue, clock time.Time, elapsed, took time.Duration) {
	r.took, r.lookAfter = elapsed, clock.Add(pauseAfter(took))
	if r.forgotten != q.forgotten {
		r.lookAfter = time.Time{}
	}
}

// unmark has the next claims begin at the heads.
func (r *rotation) unmark() { r.marks, r.behind, r.fresh = nil, nil, fresh{} }

// makeRoom forgets the marks if with so many more there would be too many.
func (r *rotation) makeRoom(lanes int) {
	if len(r.marks)+lanes > maxLanes {
		clear(r.marks)
	}
}

// gaveUp records that a look from the heads outlasted its bound. It is put off, and the marks
// from before it hold on. Where there are none yet, the look is made beside the claims.
func (m *rotations) gaveUp(req later.ClaimRequest, queues []*turnQueue, elapsed time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range queues {
		r := m.all[rotationKey{kindsKey(req), q.name}]
		switch {
		case r == nil || !q.head:
		case r.marks == nil:
			r.marks, r.took, r.lookAfter = map[lane]position{}, max(elapsed, longLook+1), time.Time{}
		default:
			r.lookAfter, r.gaveUp = m.clock().Add(pauseAfter(elapsed)), true
		}
	}
}

// forget has the next claims look from the heads: this process has put something
// back behind the marks. They stay for the case that the look is given up; where
// the last one was, it is not tried again before its time.
func (m *rotations) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.all {
		r.forgotten++
		if !r.gaveUp {
			r.lookAfter = time.Time{}
		}
	}
}

// reset forgets everything.
func (m *rotations) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all, m.asked = nil, nil
}

// kindsKey tells apart the sets of kinds, and of tenants if only some are wanted. No kind has a
// space, and no tenant a line feed.
func kindsKey(req later.ClaimRequest) string {
	key := strings.Join(req.Kinds, " ")
	if req.Tenants != nil {
		key += "\n" + strings.Join(req.Tenants, "\n")
	}
	return key
}

func askKey(req later.ClaimRequest) string {
	var key strings.Builder
	for _, q := range req.Queues {
		key.WriteString(q.Queue)
		key.WriteByte(' ')
	}
	return key.String() + "/" + kindsKey(req)
}

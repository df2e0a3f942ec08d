package postgres

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// lookBound is the longest that such a look may take. Chosen: nobody waits for it, and
// it has a connection to itself meanwhile.
const lookBound = time.Minute

// looks are those that are to be made, one after the other.
type looks struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	ctx    context.Context // nil before the first
	closed bool
	one    sync.Mutex // held by the one that is under way
	wait   sync.WaitGroup
}

// start runs look until it ends or the store closes.
func (l *looks) start(look func(ctx context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(context.Background())
	}
	ctx := l.ctx
	l.wait.Go(func() {
		l.one.Lock() // each takes a connection, which others need
		defer l.one.Unlock()
		look(ctx)
	})
}

func (l *looks) close() {
	l.mu.Lock()
	l.closed = true
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
	l.wait.Wait()
}

// lookBehind starts, for the queues of a claim where it is time to look from the heads and
// that would take long, looks beside the claims.
func (s *Store) lookBehind(req later.ClaimRequest, set *gateSet) {
	for _, q := range s.rotations.toLook(req) {
		s.looks.start(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, lookBound)
			defer cancel()
			began := s.rotations.clock()
			lanes, err := s.nextLanes(ctx, req, []*turnQueue{q}, set.tenants)
			s.rotations.looked(req, q, lanes, err, s.rotations.clock().Sub(began))
		})
	}
}

// toLook are the queues of a claim that are to be looked through, which is then
// thought to be under way.
func (m *rotations) toLook(req later.ClaimRequest) (queues []*turnQueue) {
	if req.Thorough || m.alone { // it looks from the heads itself
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, kinds := m.clock(), kindsKey(req)
	for _, q := range req.Queues {
		r := m.all[rotationKey{kinds, q.Queue}]
		if r != nil && r.marks != nil && r.took > longLook && !r.looking && r.lookDue(now, req.Unanswered) {
			r.looking = true
			queues = append(queues, &turnQueue{name: q.Queue, nr: 1, head: true, whole: true, cursors: maps.Clone(r.cursors), forgotten: r.forgotten})
		}
	}
	return queues
}

// looked takes the result of a look: the next claim begins in front of what was found,
// new lanes get a mark, and where it was quick no marks are needed any more.
func (m *rotations) looked(req later.ClaimRequest, q *turnQueue, lanes []lookedLane, err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.all[rotationKey{kindsKey(req), q.name}]
	if r == nil {
		return
	}
	if r.looking = false; r.marks == nil { // forgotten meanwhile
		return
	}
	r.looked(q, m.clock(), r.took, took)
	if err != nil {
		if len(r.marks) == 0 { // there is nothing to go on from
			r.unmark()
		}
		return
	}
	r.makeRoom(len(lanes))
	var elapsed time.Duration // by the server's clock
	if len(lanes) == 0 {
		elapsed = took // it has not told
	}
	if r.behind == nil {
		r.behind = map[lane]position{}
	}
	for _, found := range lanes {
		elapsed = max(elapsed, time.Duration(found.Elapsed*float64(time.Second)))
		if _, known := r.marks[found.lane()]; found.RunAt != nil || !known {
			r.behind[found.lane()] = found.from()
		}
	}
	if r.took, r.slow = elapsed, isSlow(elapsed, 0, (len(lanes)+1)*len(req.Kinds)); !r.slow {
		r.unmark()
	}
}

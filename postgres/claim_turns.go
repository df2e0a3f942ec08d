package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// turnClaim is a claim in which tenants take turns, or which begins behind marks. It looks for
// the next lanes ([nextLanes]) and then takes from them ([laneClaim]), and goes on as
// long as something is wanted and there. All its statements share the claim's token, so
// that one whose answer was lost is taken back with the others.
type turnClaim struct {
	store  *Store
	req    later.ClaimRequest
	kinds  []string
	args   []any // of laneClaim, up to the lanes
	set    *gateSet
	latest bool // the gates that it went by
	told   bool // some statement has told so
	gated  bool // limits may hold back what it finds
	queues []*turnQueue
	room   int // how many jobs are still wanted

	most    map[string]int       // of kinds that the request bounds
	budget  int                  // how many more may be taken without any kind getting too much
	tight   []string             // the kinds that bound it
	spent   map[later.Scope]bool // limits that have let in what they may
	heldFor time.Duration        // what is held back is to be asked for again then; zero: nothing is

	bytes *byteBudget
	jobs  []*later.Claimed
	now   time.Time // the server's, of the latest statement
	// lookedAt is the server's time of the first look.
	lookedAt time.Time
	asked    bool // for what is new
	fresh    freshAnswer
	takes    int // statements that took from lanes
}

// turnQueue is one queue of a turnClaim.
type turnQueue struct {
	name  string
	nr    int32
	room  int         // how many jobs are still wanted of it
	lanes []*turnLane // those whose turn comes next, level by level

	head       bool // its lanes are looked for from the heads of the levels
	whole      bool // all lanes are, not only as many as will be needed
	complete   bool // there is no lane but lanes, and those that are drained
	fromLowest bool // the lowest level comes first
	barren     int  // looks in a row after which nothing was taken

	cursors map[int32]string
	begun   map[int32]begunTurn
	seen    []*turnLane // all that were among lanes
	// forgotten is how often this process had put something back when the claim began.
	forgotten int
	looks     int
	found     int           // by the latest
	took      time.Duration // looking from the heads, by the server
	slow      bool          // that was
}

// begunTurn is the turn of a tenant that the limit of a claim has cut short, of a priority.
type begunTurn struct {
	tenant string
	jobs   int // that it has had
}

// turnLane is a lane of a turnClaim.
type turnLane struct {
	lane
	queue   *turnQueue
	from    position // where to begin
	asked   int      // of the next statement
	had     int      // jobs that it has given, with those of a turn that an earlier claim began
	rounds  int      // how often it has given what it was asked for
	visited bool
	fresh   bool          // news has moved it back, or found it
	seenAt  time.Time     // by the server, of the latest statement that went through it
	drained bool          // there is nothing more
	ends    bool          // the turns have got to it when it has given what it was asked for
	part    int           // of a further turn, which is what it was asked for beyond whole ones
	before  *turnLane     // the lane before it, if it has a part
	closed  bool          // its limit lets nobody in
	wait    time.Duration // for so long, from now
}

const (
	// fewLanes and manyLanes are how many lanes a claim looks for at first, if so many
	// jobs are wanted. Chosen: with a thousand jobs to be claimed, a hundred lanes give ten
	// each, and looking for them costs a tenth of taking the jobs.
	fewLanes, manyLanes = 8, 100
	// manyJobs is how many jobs are asked of each lane, where limits may hold back some and more are wanted
	// than one for each limit of a statement. Chosen: as many as of the hundred lanes; who looks at a limit
	// takes what it lets in.
	manyJobs = 10
	// moreLanes is how many times as many lanes the next look is for, when those of the
	// one before had too few jobs, and how many times as many lanes the next statement goes to
	// behind marks, where most may be empty.
	moreLanes = 4
	// maxBarren is how many looks in a row may find lanes of which others take everything
	// meanwhile. Chosen: with four processes and jobs spread over 6,000 tenants, giving up
	// after the first left one claim in six without a job beside hundreds.
	maxBarren = 3
)

// newTurnClaim begins a claim up to the request's limits, which run makes.
func (s *Store) newTurnClaim(req later.ClaimRequest, kinds []string, args []any, set *gateSet) *turnClaim {
	s.lookBehind(req, set)
	c := &turnClaim{
		store: s, req: req, kinds: kinds, args: args, set: set, latest: true,
		queues: s.rotations.begin(req), room: min(req.Limit, maxClaim),
		most: req.MostOfKind, budget: maxClaim, gated: set.limited(req),
	}
	for _, q := range c.queues {
		c.leaveOut(q)
	}
	return c
}

// leaveOut leaves out the lanes of tenants that are paused, not wanted, or closed.
func (c *turnClaim) leaveOut(q *turnQueue) {
	out := func(l *turnLane) bool { return c.isLeftOut(l.tenant) }
	q.lanes = slices.DeleteFunc(q.lanes, out)
	q.seen = slices.DeleteFunc(q.seen, out)
	q.lanes = slices.DeleteFunc(q.lanes, c.isClosed) // what it has seen of these it remembers
}

// isLeftOut reports whether a tenant's jobs are paused or not wanted.
func (c *turnClaim) isLeftOut(tenant string) bool {
	_, paused := slices.BinarySearch(c.set.tenants, tenant)
	return paused || c.req.Tenants != nil && !slices.Contains(c.req.Tenants, tenant)
}

// isClosed reports whether the limit of a lane's tenant is known to let nobody in.
func (c *turnClaim) isClosed(l *turnLane) bool {
	if len(c.req.Unanswered) > 0 {
		return false // what nobody has seen is given again
	}
	wait, closed := c.store.holding.isClosed(later.Scope{Of: later.ScopeTenant, Name: l.tenant})
	if closed {
		c.wait(wait)
	}
	return closed
}

// excluded are the tenants that a look leaves out. One through the whole queue sees those that are
// closed as well, so that their lanes have marks.
func (c *turnClaim) excluded(queues []*turnQueue) []string {
	if !c.gated || len(c.req.Unanswered) > 0 || slices.ContainsFunc(queues, func(q *turnQueue) bool { return q.whole }) {
		return c.set.tenants
	}
	closed, wait := c.store.holding.closedTenants()
	if len(closed) > 0 {
		c.wait(wait)
	}
	return append(closed, c.set.tenants...)
}

func (c *turnClaim) run(ctx context.Context) error {
	if c.store.rotations.toAskForNews(c.req) || c.notes() {
		if err := c.news(ctx); err != nil {
			return err
		}
	}
	for c.room > 0 && c.budget > 0 && c.latest && !c.bytes.full() {
		if err := c.look(ctx); err != nil {
			return err
		}
		lanes := c.next()
		if len(lanes) == 0 && !c.asked {
			if err := c.news(ctx); err != nil {
				return err
			}
			lanes = c.next()
		}
		if len(lanes) == 0 {
			break
		}
		take := c.takeAdmitted
		if !c.gated {
			take = c.takeFreely
		}
		if err := take(ctx, lanes); err != nil {
			return err
		}
	}
	if c.latest && !c.told { // then nothing has told whether the gates have changed
		var err error
		if c.latest, err = c.store.isLatest(ctx, c.set.version); err != nil {
			return err
		}
	}
	if c.latest {
		c.store.rotations.end(c.req, c)
	}
	return nil
}

// notes reports whether marks may begin with this claim: then what is new later must be
// above an id from before.
func (c *turnClaim) notes() bool {
	return slices.ContainsFunc(c.queues, func(q *turnQueue) bool { return q.head && q.whole })
}

// wanted is for how many lanes the queue's next look is.
func (q *turnQueue) wanted() int {
	if q.whole {
		return maxLanes
	}
	n := min(max(q.room, fewLanes), manyLanes)
	for range q.looks {
		n = min(n*moreLanes, maxLanes)
	}
	return n
}

// add adds a lane, which may have been there before.
func (q *turnQueue) add(l *turnLane) {
	l.queue = q
	q.lanes = append(q.lanes, l)
	q.seen = append(q.seen, l)
}

// tenants reports whether any lane was seen that belongs to a tenant.
func (q *turnQueue) tenants() bool {
	return slices.ContainsFunc(q.seen, func(l *turnLane) bool { return l.tenant != "" })
}

// level compares the levels of lanes.
func (q *turnQueue) level(a, b *turnLane) int {
	if q.fromLowest {
		a, b = b, a
	}
	return cmp.Compare(a.priority, b.priority)
}

// sort puts lanes into the order of their turns, which nextLanes gives as well.
func (q *turnQueue) sort() {
	past := func(l *turnLane) int { // whether its turn comes only after going around
		if cursor, ok := q.cursors[l.priority]; ok && l.tenant <= cursor {
			return 1
		}
		return 0
	}
	slices.SortFunc(q.lanes, func(a, b *turnLane) int {
		return cmp.Or(q.level(a, b), cmp.Compare(past(a), past(b)), cmp.Compare(a.tenant, b.tenant))
	})
}

// next are the lanes that a statement is to take from, with how many jobs of each. A level is
// shared among its lanes; what comes after a shared level must wait until it is known
// what its lanes leave. A level with a single lane may give as much as is wanted.
func (c *turnClaim) next() (lanes []*turnLane) {
	for _, q := range c.queues {
		room := min(q.room, c.room)
		for rest := q.lanes; room > 0 && len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].priority == rest[0].priority {
				n++
			}
			if n > 1 && len(lanes) > 0 {
				return lanes // how much is left for it to share is not known yet
			}
			wide := room
			if !q.head { // most of its lanes may be empty
				wide = manyLanes
				for range c.takes {
					wide = min(wide*moreLanes, maxLanes)
				}
			}
			if c.gated {
				wide = min(wide, max(room/manyJobs, min(room, maxGates)))
			}
			level := rest[:min(n, wide)]
			c.share(level, room)
			lanes = append(lanes, level...)
			if n > 1 {
				return lanes
			}
			rest = rest[n:]
		}
		if room > 0 && len(q.lanes) > 0 && !q.complete {
			return lanes // it may have more, which comes before the next queue's
		}
	}
	return lanes
}

// mark is where the next claim of the lane is to begin.
func (l *turnLane) mark(now time.Time) position {
	if !l.seenAt.IsZero() {
		now = l.seenAt
	}
	edge := seenUntil(now)
	if l.drained || l.rounds > 0 && edge.before(l.from) {
		return edge // all that was due has been seen, or nearly all
	}
	return l.from
}

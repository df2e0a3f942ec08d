package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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
	queues []*turnQueue
	room   int // how many jobs are still wanted

	jobs []*later.Claimed
	now  time.Time // the server's, of the latest statement
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

	head     bool // its lanes are looked for from the heads of the levels
	whole    bool // all lanes are, not only as many as will be needed
	complete bool // there is no lane but lanes, and those that are drained
	barren   int  // looks in a row after which nothing was taken

	cursors map[int32]string
	seen    []*turnLane // all that were among lanes
	// forgotten is how often this process had put something back when the claim began.
	forgotten int
	looks     int
	found     int           // by the latest
	took      time.Duration // looking from the heads, by the server
	slow      bool          // that was
}

// turnLane is a lane of a turnClaim.
type turnLane struct {
	lane
	queue   *turnQueue
	from    position // where to begin
	asked   int      // of the next statement
	rounds  int      // how often it has given what it was asked for
	visited bool
	fresh   bool      // news has moved it back, or found it
	seenAt  time.Time // by the server, of the latest statement that went through it
	drained bool      // there is nothing more
}

const (
	// fewLanes and manyLanes are how many lanes a claim looks for at first, if so many
	// jobs are wanted. Chosen: with a thousand jobs to be claimed, a hundred lanes give ten
	// each, and looking for them costs a tenth of taking the jobs.
	fewLanes, manyLanes = 8, 100
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
	}
	for _, q := range c.queues {
		q.lanes = slices.DeleteFunc(q.lanes, c.paused)
		q.seen = slices.DeleteFunc(q.seen, c.paused)
	}
	return c
}

func (c *turnClaim) paused(l *turnLane) bool {
	_, paused := slices.BinarySearch(c.set.tenants, l.tenant)
	return paused
}

func (c *turnClaim) run(ctx context.Context) error {
	if c.store.rotations.toAskForNews(c.req) || c.notes() {
		if err := c.news(ctx); err != nil {
			return err
		}
	}
	taken := false
	for c.room > 0 && c.latest {
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
		if err := c.take(ctx, lanes); err != nil {
			return err
		}
		taken = true
	}
	if !taken { // then nothing has told whether the gates have changed
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

// lookedLane is a row of nextLanes.
type lookedLane struct {
	Nr       int32
	Priority int32
	Tenant   string
	RunAt    *time.Time // of the first job that can be claimed, nil if there is none
	ID       *int64
	Now      time.Time
	Elapsed  float64 // seconds since the look began
}

func (l lookedLane) lane() lane { return lane{l.Priority, l.Tenant} }

// from is in front of what was found, or where to go on from if nothing was.
func (l lookedLane) from() position {
	if l.RunAt == nil {
		return seenUntil(l.Now)
	}
	return position{l.RunAt.UTC(), *l.ID - 1}
}

// look looks for lanes in the queues that have none left and may have.
func (c *turnClaim) look(ctx context.Context) error {
	var queues []*turnQueue
	for _, q := range c.queues {
		if q.room > 0 && len(q.lanes) == 0 && !q.complete && q.barren < maxBarren {
			queues = append(queues, q)
		}
	}
	if len(queues) == 0 {
		return nil
	}
	began, sent := c.store.rotations.clock(), time.Now()
	rows, err := c.store.nextLanes(ctx, c.kinds, c.req.Unanswered, queues, c.set.tenants)
	if err != nil {
		c.failed(err, began)
		return err
	}
	if c.lookedAt.IsZero() && len(rows) > 0 {
		c.lookedAt = rows[0].Now
	}
	var elapsed time.Duration
	if len(rows) == 0 { // then the server has not told
		elapsed = time.Since(sent) - c.store.rotations.lag()
	}
	for _, row := range rows {
		c.now = row.Now
		elapsed = max(elapsed, time.Duration(row.Elapsed*float64(time.Second)))
		q := c.queues[row.Nr-1]
		q.found++
		q.add(&turnLane{lane: row.lane(), from: row.from(), drained: row.RunAt == nil, seenAt: row.Now})
	}
	if len(rows) > 0 {
		c.store.rotations.learn(c.now, time.Since(sent)-elapsed)
	}
	slow := isSlow(elapsed, 0, (len(rows)+len(queues))*len(c.kinds))
	for _, q := range queues {
		q.complete = q.found < q.wanted()
		q.found = 0
		q.lanes = slices.DeleteFunc(q.lanes, func(l *turnLane) bool { return l.drained })
		q.looks++
		q.took += elapsed
		q.slow = q.slow || slow
		q.barren++
	}
	return nil
}

// failed notes that a statement did, if it was for looking from the heads.
func (c *turnClaim) failed(err error, began time.Time) {
	if outlasted(err) {
		c.store.rotations.gaveUp(c.req, c.queues, c.store.rotations.clock().Sub(began))
	}
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

// sort puts lanes into the order of their turns, which nextLanes gives as well.
func (q *turnQueue) sort() {
	past := func(l *turnLane) int { // whether its turn comes only after going around
		if cursor, ok := q.cursors[l.priority]; ok && l.tenant <= cursor {
			return 1
		}
		return 0
	}
	slices.SortFunc(q.lanes, func(a, b *turnLane) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(past(a), past(b)), cmp.Compare(a.tenant, b.tenant))
	})
}

// nextLanes looks for lanes of queues, behind their cursors, but for those of paused tenants:
// those in which something can be claimed, and for a queue that is to be looked through as a
// whole also the others, unless there are so many that they would stand in the way of these.
func (s *Store) nextLanes(ctx context.Context, kinds []string, unanswered []int64, queues []*turnQueue, paused []string) ([]lookedLane, error) {
	whole := slices.ContainsFunc(queues, func(q *turnQueue) bool { return q.whole })
	rows, err := s.readNextLanes(ctx, kinds, unanswered, queues, paused, whole)
	if err != nil || !whole {
		return rows, err
	}
	found := map[int32]int{}
	for _, row := range rows {
		if found[row.Nr]++; found[row.Nr] == maxLanes {
			return s.readNextLanes(ctx, kinds, unanswered, queues, paused, false)
		}
	}
	return rows, nil
}

func (s *Store) readNextLanes(ctx context.Context, kinds []string, unanswered []int64, queues []*turnQueue, paused []string, whole bool) ([]lookedLane, error) {
	names, wanted, all := make([]string, len(queues)), make([]int32, len(queues)), 0
	nrs, priorities, tenants := []int32{}, []int32{}, []string{}
	for i, q := range queues {
		names[i], wanted[i] = q.name, int32(q.wanted())
		all += q.wanted()
		for priority, tenant := range q.cursors {
			nrs, priorities, tenants = append(nrs, int32(i+1)), append(priorities, priority), append(tenants, tenant)
		}
	}
	rows, err := query(ctx, s, statement{
		name: "look for the next lanes", sql: nextLanes,
		args: []any{
			names, wanted, int32(all), kinds, int32(later.SuspectCrashes), append([]int64{}, unanswered...),
			nrs, priorities, tenants, whole, append([]string{}, paused...),
		},
	}, pgx.RowToStructByPos[lookedLane])
	for i := range rows {
		rows[i].Nr = queues[rows[i].Nr-1].nr
	}
	return rows, err
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
				wide = max(room, manyLanes)
				for range c.takes {
					wide = min(wide*moreLanes, maxLanes)
				}
			}
			level := rest[:min(n, wide)]
			for i, l := range level {
				l.asked = room / len(level)
				if i < room%len(level) {
					l.asked++
				}
				l.asked = max(l.asked, 1)
			}
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

// take takes from lanes.
func (c *turnClaim) take(ctx context.Context, lanes []*turnLane) error {
	queues, rooms := make([]string, len(c.queues)), make([]int32, len(c.queues))
	for i, q := range c.queues {
		queues[i], rooms[i] = q.name, int32(q.room)
	}
	n := len(lanes)
	c.takes++
	nrs, priorities, tenants := make([]int32, n), make([]int32, n), make([]string, n)
	asked, runAts, ids := make([]int32, n), make([]time.Time, n), make([]int64, n)
	for i, l := range lanes {
		nrs[i], priorities[i], tenants[i] = l.queue.nr, l.priority, l.tenant
		asked[i], runAts[i], ids[i] = int32(l.asked), l.from.runAt, l.from.id
	}
	args := slices.Clone(c.args)
	args[0], args[1], args[2] = queues, rooms, int32(c.room)
	scan := claimScan{store: c.store, token: c.req.Token}
	c.now = c.store.rotations.serverTime()
	began, sent := c.store.rotations.clock(), time.Now()
	jobs, err := query(ctx, c.store, statement{
		name: fmt.Sprintf("claim %d jobs", c.room), sql: c.store.claimSQL("lanes", laneClaimSQL, len(c.kinds)),
		args: append(args, nrs, priorities, tenants, asked, runAts, ids),
	}, scan.row)
	if err != nil {
		c.failed(err, began)
		return err
	}
	jobs = scan.finish(jobs)
	if len(jobs) == 0 { // nothing there, or other gates
		if c.latest, err = c.store.isLatest(ctx, c.set.version); err != nil || !c.latest {
			return err
		}
	} else {
		c.now = scan.now
		c.store.rotations.learn(c.now, time.Since(sent)-scan.elapsed())
	}
	c.jobs = append(c.jobs, jobs...)
	c.taken(lanes, jobs)
	slow := isSlow(scan.elapsed(), len(jobs), n*len(c.kinds))
	for _, q := range c.queues {
		q.slow = q.slow || q.head && slow
	}
	return nil
}

// taken notes what a statement has taken of lanes.
func (c *turnClaim) taken(lanes []*turnLane, jobs []*later.Claimed) {
	type key struct {
		queue string
		lane
	}
	type taken struct {
		jobs int
		last position
	}
	took := map[key]taken{}
	for _, job := range jobs {
		k := key{job.Queue, lane{int32(job.Priority), job.Tenant}}
		t := took[k]
		t.jobs++
		if p := (position{job.RunAt, job.ID}); t.last.before(p) {
			t.last = p
		}
		took[k] = t
	}
	for _, l := range lanes {
		q := l.queue
		asked := min(l.asked, q.room, c.room) // what the limits of the queue and the claim left for it
		if asked == 0 {
			continue
		}
		t := took[key{q.name, l.lane}]
		q.room -= t.jobs
		c.room -= t.jobs
		if t.jobs > 0 {
			l.from, q.barren = t.last, 0
		}
		l.rounds, l.drained, l.seenAt = l.rounds+1, t.jobs < asked, c.now
		if !l.visited {
			l.visited = true
			if q.cursors == nil {
				q.cursors = map[int32]string{}
			}
			q.cursors[l.priority] = l.tenant
		}
	}
	for _, q := range c.queues {
		q.lanes = slices.DeleteFunc(q.lanes, func(l *turnLane) bool { return l.drained })
		slices.SortStableFunc(q.lanes, func(a, b *turnLane) int {
			return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.rounds, b.rounds))
		})
	}
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

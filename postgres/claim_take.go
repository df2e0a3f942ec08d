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

// share has the lanes of a level give so many jobs, each as many as it weighs in comparison. Where
// there is less than a turn for each, they have their turns one after the other as far as the
// jobs go. Where there is more, the turns go round, and the claim ends with the lane that has the
// last of them.
func (c *turnClaim) share(level []*turnLane, room int) {
	turns, weights := 0, 0
	for _, l := range level {
		l.ends, l.part, l.before, l.asked = true, 0, nil, c.turnOf(l)
		turns += l.asked
		weights += c.weightOf(l)
	}
	if turns >= room {
		return
	}
	times, left := (room-turns)/weights, (room-turns)%weights
	last := len(level) - 1
	for i, l := range level {
		more := min(c.weightOf(l), left)
		left -= more
		l.ends = false
		l.asked += times*c.weightOf(l) + more
		if more > 0 {
			last = i
			l.part = more
		}
	}
	level[last].ends = true
	if last > 0 {
		level[last].before = level[last-1]
	}
}

func (c *turnClaim) weightOf(l *turnLane) int {
	if !c.set.weighed {
		return 1
	}
	return c.set.limits.Weight(l.tenant)
}

// turnOf is how many jobs a lane has in its turn, less what an earlier claim gave of it.
func (c *turnClaim) turnOf(l *turnLane) int {
	turn := c.weightOf(l)
	if begun := l.queue.begun[l.priority]; begun.jobs > 0 && begun.tenant == l.tenant {
		turn -= begun.jobs
		if l.rounds == 0 { // of an earlier claim
			l.had = begun.jobs
		}
	}
	return max(turn, 1)
}

// turned notes where the turns of a level have got to with a lane that has given so many jobs.
func (c *turnClaim) turned(l *turnLane, jobs int) {
	q := l.queue
	if q.cursors == nil {
		q.cursors = map[int32]string{}
	}
	if q.begun == nil {
		q.begun = map[int32]begunTurn{}
	}
	begun := q.begun[l.priority]
	if begun.tenant != l.tenant {
		begun = begunTurn{tenant: l.tenant}
	}
	switch {
	case l.part > 0: // in a further round
		begun.jobs = l.part
		if l.before != nil {
			q.cursors[l.priority] = l.before.tenant
		}
	default:
		begun.jobs += jobs
	}
	if l.drained || begun.jobs >= c.weightOf(l) {
		q.cursors[l.priority] = l.tenant
		delete(q.begun, l.priority)
		return
	}
	q.begun[l.priority] = begun
}

// takeFreely takes from lanes whose jobs no limit holds back.
func (c *turnClaim) takeFreely(ctx context.Context, lanes []*turnLane) error {
	t := c.plan(lanes)
	c.narrow(t)
	if t.total == 0 {
		return nil
	}
	return c.takeFrom(ctx, t, nil)
}

// takeFrom takes as planned, within an admission if there is one.
func (c *turnClaim) takeFrom(ctx context.Context, t *taking, a *admission) error {
	queues, rooms := make([]string, len(c.queues)), make([]int32, len(c.queues))
	for i, q := range c.queues {
		queues[i], rooms[i] = q.name, int32(t.rooms[q.name])
	}
	args := slices.Clone(c.args)
	args[0], args[1] = queues, rooms
	c.now = c.store.rotations.serverTime()
	began, sent := c.store.rotations.clock(), time.Now()
	var jobs, chosen []*later.Claimed
	var err error
	scan := claimScan{store: c.store, token: c.req.Token, bytes: c.bytes}
	if byID := append(t.unseen, t.chosen...); len(byID) > 0 {
		ids := make([]int64, len(byID))
		for i, job := range byID {
			ids[i] = job.id
		}
		args[2] = int32(len(ids))
		if chosen, err = c.claim(ctx, a, chosenClaimSQL, "chosen", append(slices.Clone(args), ids), &scan); err != nil {
			return err
		}
	}
	n := len(t.lanes)
	if n > 0 && t.total > 0 {
		c.takes++
		nrs, priorities, tenants := make([]int32, n), make([]int32, n), make([]string, n)
		asked, runAts, ids := make([]int32, n), make([]time.Time, n), make([]int64, n)
		for i, l := range t.lanes {
			nrs[i], priorities[i], tenants[i] = l.queue.nr, l.priority, l.tenant
			asked[i], runAts[i], ids[i] = int32(l.asked), l.from.runAt, l.from.id
		}
		args[2] = int32(t.total)
		if jobs, err = c.claim(ctx, a, laneClaimSQL, "lanes", append(args, nrs, priorities, tenants, asked, runAts, ids), &scan); err != nil {
			c.failed(err, began)
			return err
		}
	}
	kept := slices.Concat(chosen, jobs)
	if a != nil {
		if kept, err = c.giveBack(ctx, a, kept); err != nil {
			return err
		}
		for _, job := range kept {
			if job.Doom == later.DoomNone { // else it is only ended
				a.let(c.set, job)
			}
		}
		if err := a.commit(ctx); err != nil {
			return fmt.Errorf("claim %d jobs: %w", t.total, c.store.classify(err))
		}
		a.end(ctx)
		c.noteStarted(kept)
		c.noteSpent(a)
	}
	c.told = true
	if len(jobs)+len(chosen) == 0 { // nothing there, or other gates
		if c.latest, err = c.store.isLatest(ctx, c.set.version); err != nil || !c.latest {
			return err
		}
	} else {
		c.now = scan.now
		c.store.rotations.learn(c.now, time.Since(sent)-scan.elapsed())
	}
	c.jobs = append(c.jobs, kept...)
	c.room -= len(chosen)
	for _, job := range chosen {
		if most, bounded := c.most[job.Kind]; bounded {
			c.most[job.Kind] = most - 1
		}
		for _, q := range c.queues {
			if q.name == job.Queue {
				q.room--
			}
		}
	}
	c.taken(t, jobs)
	c.dropClosed()
	slow := isSlow(scan.elapsed(), len(jobs), n*len(c.kinds))
	for _, q := range c.queues {
		q.slow = q.slow || q.head && slow
	}
	return nil
}

// claim runs a statement that claims, within an admission if there is one.
func (c *turnClaim) claim(ctx context.Context, a *admission, build func(kinds int) string, name string, args []any, scan *claimScan) ([]*later.Claimed, error) {
	sql, what := c.store.claimSQL(name, build, len(c.kinds)), fmt.Sprintf("claim %d jobs", args[2])
	if a == nil {
		jobs, err := query(ctx, c.store, statement{name: what, sql: sql, args: args}, scan.row)
		return scan.finish(jobs), err
	}
	rows, err := a.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, c.store.classify(err))
	}
	jobs, err := pgx.CollectRows(rows, scan.row)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, c.store.classify(err))
	}
	return scan.finish(jobs), nil
}

// taken notes what a statement has taken of lanes.
func (c *turnClaim) taken(t *taking, jobs []*later.Claimed) {
	type key struct {
		queue string
		lane
	}
	type taken struct {
		jobs int
		last position
	}
	total, took := t.total, map[key]taken{}
	for _, job := range jobs {
		k := key{job.Queue, lane{int32(job.Priority), job.Tenant}}
		had := took[k]
		had.jobs++
		if p := (position{job.RunAt, job.ID}); had.last.before(p) {
			had.last = p
		}
		took[k] = had
	}
	for _, l := range t.lanes {
		q := l.queue
		asked := min(l.asked, t.rooms[q.name], total) // what the bounds left for it
		if asked == 0 {
			continue
		}
		had := took[key{q.name, l.lane}]
		q.room -= had.jobs
		c.room -= had.jobs
		c.budget -= had.jobs
		total -= had.jobs
		t.rooms[q.name] -= had.jobs
		if l.had += had.jobs; had.jobs > 0 {
			l.from, q.barren = had.last, 0
		}
		l.rounds, l.drained, l.seenAt = l.rounds+1, had.jobs < asked, c.now
		l.visited = true
		if l.ends {
			c.turned(l, had.jobs)
		}
	}
	for _, q := range c.queues {
		q.lanes = slices.DeleteFunc(q.lanes, func(l *turnLane) bool { return l.drained })
		slices.SortStableFunc(q.lanes, func(a, b *turnLane) int {
			// Who has had a further turn already comes after those who have not.
			return cmp.Or(q.level(a, b), cmp.Compare(a.had/c.weightOf(a), b.had/c.weightOf(b)), cmp.Compare(a.rounds, b.rounds))
		})
	}
}

// giveBack gives the jobs back whose payloads were too much, and returns the others. Within the
// admission they were never let in.
func (c *turnClaim) giveBack(ctx context.Context, a *admission, jobs []*later.Claimed) ([]*later.Claimed, error) {
	if len(c.bytes.over) == 0 {
		return jobs, nil
	}
	back, kept := released(c.bytes.over), jobs[:0]
	for _, job := range jobs {
		if !slices.Contains(c.bytes.over, job.Lease) {
			kept = append(kept, job)
		}
	}
	c.bytes.over = nil
	st, err := c.store.settleStatement(back)
	if err != nil {
		return nil, err
	}
	if _, err := a.conn.Exec(ctx, c.store.sql(st.sql), st.args...); err != nil {
		return nil, fmt.Errorf("%s: %w", st.name, c.store.classify(err))
	}
	c.store.rotations.forget()
	return kept, nil
}

// released are settlements that give leases back.
func released(leases []later.Lease) []later.Settlement {
	ends := make([]later.Settlement, len(leases))
	for i, lease := range leases {
		ends[i] = later.Settlement{Lease: lease, Outcome: later.OutcomeReleased}
	}
	return ends
}

package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

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
	rows, err := c.store.nextLanes(ctx, c.req, queues, c.excluded(queues))
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
		q.lanes = slices.DeleteFunc(q.lanes, func(l *turnLane) bool { return l.drained || c.gated && c.isClosed(l) })
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

// nextLanes looks for lanes of queues, behind their cursors, but for those of paused tenants:
// those in which something can be claimed, and for a queue that is to be looked through as a
// whole also the others, unless there are so many that they would stand in the way of these.
func (s *Store) nextLanes(ctx context.Context, req later.ClaimRequest, queues []*turnQueue, held []string) ([]lookedLane, error) {
	whole := slices.ContainsFunc(queues, func(q *turnQueue) bool { return q.whole })
	rows, err := s.readNextLanes(ctx, req, queues, held, whole)
	if err != nil || !whole {
		return rows, err
	}
	found := map[int32]int{}
	for _, row := range rows {
		if found[row.Nr]++; found[row.Nr] == maxLanes {
			return s.readNextLanes(ctx, req, queues, held, false)
		}
	}
	return rows, nil
}

func (s *Store) readNextLanes(ctx context.Context, req later.ClaimRequest, queues []*turnQueue, held []string, whole bool) ([]lookedLane, error) {
	names, wanted, all := make([]string, len(queues)), make([]int32, len(queues)), 0
	nrs, priorities, tenants := []int32{}, []int32{}, []string{}
	for i, q := range queues {
		names[i], wanted[i] = q.name, int32(q.wanted())
		all += q.wanted()
		for priority, tenant := range q.cursors {
			nrs, priorities, tenants = append(nrs, int32(i+1)), append(priorities, priority), append(tenants, tenant)
		}
	}
	args := []any{
		names, wanted, int32(all), sortedKinds(req), int32(later.SuspectCrashes), append([]int64{}, req.Unanswered...),
		nrs, priorities, tenants, whole, append([]string{}, held...),
	}
	if req.Tenants != nil {
		args = append(args, slices.Compact(slices.Sorted(slices.Values(req.Tenants))))
	}
	rows, err := query(ctx, s, statement{
		name: "look for the next lanes", sql: nextLanesSQL(req.FromLowest, req.Tenants != nil), args: args,
	}, pgx.RowToStructByPos[lookedLane])
	for i := range rows {
		rows[i].Nr = queues[rows[i].Nr-1].nr
	}
	return rows, err
}

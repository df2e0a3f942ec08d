package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// freshLanes are the lanes that have got jobs lately: by an insert, which gives an id above
// all that were there, or because the time of a job has come that was put off. It costs by what
// is new and not by what is there. A lane's run_at is that of its first such job.
//
// Parameters: $1 queues, $2 kinds, $3 the id above which jobs are new (null: there is none
// yet), $4 the time after which a run_at is, $5 SuspectCrashes, $6 unanswered tokens, $7 how
// many of each are looked at at most, $8 an id that was there before, for when there is no $3.
//
// Each row, of which there is at least one, also tells the time and the next $3.
const freshLanes = `
with first as materialized (
  select coalesce($3::bigint, greatest($8::bigint, coalesce(
    case
      when has_sequence_privilege(pg_get_serial_sequence('{schema}.job', 'id'), 'usage, select')
      then pg_sequence_last_value(pg_get_serial_sequence('{schema}.job', 'id')::regclass)
    end,
    -- Slower where many jobs were finished lately that cannot be vacuumed.
    (select j.id from {schema}.job j order by j.id desc limit 1)))) as id
),
fresh as materialized (
  select new.*
  from first
  cross join lateral (
    select j.id, j.run_at, j.priority, j.queue::text as queue, j.kind::text as kind, j.tenant::text as tenant,
           ` + claimable + ` as claimable
    from {schema}.job j
    where j.id > first.id
    order by j.id
    limit $7
  ) new
),
due as materialized (
  select f.run_at, f.priority, f.queue, f.tenant
  from fresh f
  where f.claimable and f.run_at <= now() and f.queue = any($1::text[]) and f.kind = any($2::text[])
  union all
  select j.run_at, j.priority, q.queue, j.tenant
  from unnest($1::text[]) as q (queue)
  cross join unnest($2::text[]) as k (kind)
  cross join lateral (
    select j.run_at, j.priority, j.tenant::text as tenant, ` + claimable + ` as claimable
    from {schema}.job j
    where j.queue = q.queue and j.kind = k.kind and j.run_at > j.created_at
      and j.run_at > $4::timestamptz and j.run_at <= now()
    order by j.run_at
    limit $7
  ) j
  where j.claimable
)
select now(), coalesce((select max(f.id) from fresh f), (select first.id from first)),
       lanes.queue, lanes.priority::int, lanes.tenant, lanes.run_at
from (values (true)) as one
left join (
  select d.queue, d.priority, d.tenant, min(d.run_at) as run_at
  from due d
  group by d.queue, d.priority, d.tenant
) lanes on true`

const (
	// maxFresh bounds one look for what is new. Chosen: it takes some milliseconds; what is
	// beyond is for the next one, and for the look from the heads.
	maxFresh = 5000
	// freshPause is for how long claims that get what they want do not ask for what is new.
	// Chosen: what a new tenant waits beside lanes that never end.
	freshPause = 50 * time.Millisecond
)

// fresh is from where a rotation's next look for what is new begins. It stays behind by
// unsettledTime, because ids and times are given before the commit.
type fresh struct {
	id, nextID *int64 // nil: not known yet
	at, nextAt time.Time
	asked      time.Time // by the process's clock
}

// freshAnswer is what a claim has learnt about where the next look for what is new begins.
type freshAnswer struct {
	told bool
	now  time.Time
	last int64
}

type freshLane struct {
	Now      time.Time
	LastID   int64
	Queue    *string // nil: nothing is new
	Priority *int32
	Tenant   *string
	RunAt    *time.Time
}

// moveOn notes where a look has ended.
func (f *fresh) moveOn(now time.Time, last int64) {
	if f.id == nil {
		f.id, f.at = &last, now.Add(-unsettledTime)
		f.nextID, f.nextAt = &last, now
		return
	}
	if since := now.Sub(f.nextAt); 0 <= since && since < unsettledTime {
		return
	}
	f.id, f.at = f.nextID, f.nextAt
	f.nextID, f.nextAt = &last, now
}

// news looks for lanes that are new to the claim's queues with marks, which are known by
// their marks only.
func (c *turnClaim) news(ctx context.Context) error {
	c.asked = true
	var queues []string
	for _, q := range c.queues {
		if !q.head || q.whole {
			queues = append(queues, q.name)
		}
	}
	if len(queues) == 0 {
		return nil
	}
	id, after, highest := c.store.rotations.freshFrom(c.req, queues)
	began := c.store.rotations.clock()
	rows, err := query(ctx, c.store, statement{
		name: "look for new lanes", sql: freshLanes,
		args: []any{queues, c.kinds, id, after, int32(later.SuspectCrashes), append([]int64{}, c.req.Unanswered...), maxFresh, highest},
	}, pgx.RowToStructByPos[freshLane])
	if err != nil {
		c.failed(err, began)
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("look for new lanes: got no row, want one")
	}
	c.now = rows[0].Now
	c.fresh = freshAnswer{told: true, now: c.now, last: rows[0].LastID}
	for _, q := range c.queues {
		if !q.head {
			q.addFresh(rows)
			c.leaveOut(q)
		}
	}
	return nil
}

// addFresh has the lanes that have got something begin there, if they would begin later or are
// not known.
func (q *turnQueue) addFresh(rows []freshLane) {
	var known map[lane]*turnLane
	for _, row := range rows {
		if row.Queue == nil || *row.Queue != q.name {
			continue
		}
		if known == nil {
			known = make(map[lane]*turnLane, len(q.seen))
			for _, l := range q.seen {
				known[l.lane] = l
			}
		}
		at, from := lane{*row.Priority, *row.Tenant}, position{row.RunAt.UTC(), math.MinInt64}
		switch l := known[at]; {
		case l == nil:
			q.add(&turnLane{lane: at, from: from, fresh: true})
		case l.drained:
			l.drained, l.from, l.fresh = false, from, true
			q.lanes = append(q.lanes, l)
		case from.before(l.from):
			l.from, l.fresh = from, true
		}
	}
	q.sort()
}

// toAskForNews reports whether it is time to look for what is new, whatever else there is.
func (m *rotations) toAskForNews(req later.ClaimRequest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	return slices.ContainsFunc(req.Queues, func(q later.QueueLimit) bool {
		r := m.all[rotationKey{kindsKey(req), q.Queue}]
		return r != nil && r.marks != nil && now.Sub(r.fresh.asked) >= freshPause
	})
}

func (m *rotations) freshFrom(req later.ClaimRequest, queues []string) (id *int64, after time.Time, highest int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	after = m.server
	for _, queue := range queues {
		r := m.all[rotationKey{kindsKey(req), queue}]
		if r == nil {
			continue
		}
		if r.fresh.asked = m.clock(); r.fresh.id == nil {
			continue
		}
		if id == nil || *r.fresh.id < *id {
			id = r.fresh.id
		}
		if r.fresh.at.Before(after) {
			after = r.fresh.at
		}
	}
	return id, after, m.highest
}

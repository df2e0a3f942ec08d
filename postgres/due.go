package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// nextDue looks, in each lane of each queue, for the first job that is not due yet. It
// goes through the index job_ready: one probe finds a queue's next level, one each
// lane's first future job. What is due, running, or finished and not vacuumed yet lies
// in front of that and is never read by the second; the first may have to pass what is
// left of a level that was finished, which can be much, so the levels can also be given.
//
// Parameters: $1 queues, $2 kinds, $3 whether to look for the levels, or else $4 and $5,
// the queue and the priority of each.
const nextDue = `
with recursive level (queue, priority) as (
  select q.queue, -32769
  from unnest($1::text[]) as q (queue)
  where $3
  union all
  select l.queue, next.priority
  from level l
  cross join lateral (
    select j.priority::int
    from {schema}.job j
    where j.queue = l.queue and j.priority > l.priority
    order by j.priority
    limit 1
  ) next
),
known as materialized (
  select l.queue, l.priority
  from level l
  where l.priority > -32769
  union all
  select m.queue, m.priority
  from unnest($4::text[], $5::int[]) as m (queue, priority)
  where not $3
)
select extract(epoch from (
    select min(due.run_at)
    from known l
    cross join unnest($2::text[]) as k (kind)
    cross join lateral (
      select j.run_at
      from {schema}.job j
      where j.queue = l.queue and j.priority = l.priority and j.kind = k.kind and j.run_at > now()
      order by j.run_at, j.id + 0
      limit 1
    ) due
  ) - now())::float8,
  coalesce((select array_agg(l.queue) from known l), '{}'), coalesce((select array_agg(l.priority) from known l), '{}'),
  extract(epoch from clock_timestamp() - statement_timestamp())::float8`

// dueLevels remembers, for sets of queues where looking for their levels took long,
// which there are, for as long as marks would be kept ([marks]): a job of a priority that a queue
// did not have may then be named that much later.
type dueLevels struct {
	mu    sync.Mutex
	known map[string]levels
}

type levels struct {
	queues     []string
	priorities []int32
	until      time.Time
}

func (d *dueLevels) of(queues []string) (l levels, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, known = d.known[strings.Join(queues, " ")] // no queue has a space
	return l, known && time.Now().Before(l.until)
}

func (d *dueLevels) learn(queues []string, l levels, elapsed time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := strings.Join(queues, " ")
	if elapsed <= slowLook {
		delete(d.known, key)
		return
	}
	if d.known == nil || len(d.known) > maxLanes {
		d.known = map[string]levels{}
	}
	l.until = time.Now().Add(pauseAfter(elapsed))
	d.known[key] = l
}

// NextDue implements [later.Runner].
func (s *Store) NextDue(ctx context.Context, queues, kinds []string) (in time.Duration, ok bool, err error) {
	l, known := s.due.of(queues)
	if !known {
		l.queues, l.priorities = []string{}, []int32{}
	}
	type row struct {
		Seconds    *float64
		Queues     []string
		Priorities []int32
		Elapsed    float64
	}
	rows, err := query(ctx, s, statement{
		name: "next due", sql: nextDue, args: []any{queues, kinds, !known, l.queues, l.priorities},
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, false, err
	}
	if len(rows) != 1 {
		return 0, false, fmt.Errorf("next due: got %d rows, want 1", len(rows))
	}
	r := rows[0]
	if !known {
		s.due.learn(queues, levels{queues: r.Queues, priorities: r.Priorities}, time.Duration(r.Elapsed*float64(time.Second)))
	}
	if r.Seconds == nil {
		return 0, false, nil
	}
	const longest = 100 * 365 * 24 * 3600 // seconds; what is farther off does not fit into a Duration
	return time.Duration(min(*r.Seconds, longest) * float64(time.Second)), true, nil
}

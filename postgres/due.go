package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// nextDue looks, in each lane of each queue, for the first job that is not due yet. It
// goes through the index job_ready: one probe finds a queue's next level, one each
// lane's first future job. What is due, running, or finished and not vacuumed yet lies
// in front of that and is never read by the second; the first may have to pass what is
// left of a level that was finished, which can be much, so for queues with marks ([marks])
// the levels are given.
//
// Parameters: $1 queues whose levels are to be looked for, $2 kinds, $3 and $4 the queue
// and the priority of each level of the others.
const nextDue = `
with recursive level (queue, priority) as (
  select q.queue, -32769
  from unnest($1::text[]) as q (queue)
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
  from unnest($3::text[], $4::int[]) as m (queue, priority)
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
  ) - now())::float8`

// NextDue implements [later.Runner].
func (s *Store) NextDue(ctx context.Context, queues, kinds []string) (in time.Duration, ok bool, err error) {
	unknown, of, priorities := []string{}, []string{}, []int32{}
	for _, queue := range queues {
		levels, _, _ := s.marks.of(kinds, queue)
		if len(levels) == 0 {
			unknown = append(unknown, queue)
		}
		for _, priority := range levels {
			of, priorities = append(of, queue), append(priorities, priority)
		}
	}
	rows, err := query(ctx, s, statement{
		name: "next due", sql: nextDue, args: []any{unknown, kinds, of, priorities},
	}, pgx.RowTo[*float64])
	if err != nil {
		return 0, false, err
	}
	if len(rows) != 1 {
		return 0, false, fmt.Errorf("next due: got %d rows, want 1", len(rows))
	}
	if rows[0] == nil {
		return 0, false, nil
	}
	const longest = 100 * 365 * 24 * 3600 // seconds; what is farther off does not fit into a Duration
	return time.Duration(min(*rows[0], longest) * float64(time.Second)), true, nil
}

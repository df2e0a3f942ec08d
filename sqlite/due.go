package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// selectNextDue is a loose scan over the lanes of all queues, with one look for
// the first future job of each: it relies on later_job_ready.
//
// Parameters: queues and kinds as JSON, now.
const selectNextDue = `
with recursive lane (queue, kind, priority) as (
  select q.value, k.value, (
    select j.priority
    from later_job j indexed by later_job_ready
    where j.queue = q.value and j.kind = k.value
    order by j.priority
    limit 1)
  from json_each(?1) q, json_each(?2) k
  union
  select lane.queue, lane.kind, (
    select j.priority
    from later_job j indexed by later_job_ready
    where j.queue = lane.queue and j.kind = lane.kind and j.priority > lane.priority
    order by j.priority
    limit 1)
  from lane
  where lane.priority is not null
)
select min((
  select j.run_at
  from later_job j indexed by later_job_ready
  where j.queue = lane.queue and j.kind = lane.kind and j.priority = lane.priority and j.run_at > ?3
  order by j.run_at
  limit 1))
from lane
where lane.priority is not null`

// NextDue implements [later.Runner].
func (s *Store) NextDue(ctx context.Context, queues, kinds []string) (in time.Duration, ok bool, err error) {
	q, err1 := json.Marshal(queues)
	k, err2 := json.Marshal(kinds)
	if err1 != nil || err2 != nil {
		return 0, false, fmt.Errorf("next due: queues %q, kinds %q", queues, kinds)
	}
	r := s.reader(ctx)
	now, err := now(r)
	if err != nil {
		return 0, false, fmt.Errorf("next due: %w", explain(err))
	}
	var at sql.NullInt64
	if err := r.queryRow(selectNextDue, string(q), string(k), now).Scan(&at); err != nil {
		return 0, false, fmt.Errorf("next due: %w", explain(err))
	}
	const longest = 100 * 365 * 24 * 3600 * 1000 // milliseconds; what is farther off does not fit into a Duration
	return time.Duration(min(at.Int64-now, longest)) * time.Millisecond, at.Valid, nil
}

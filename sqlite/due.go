package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// selectNextDue is a loose scan over the lanes of all queues, with one look for
// the first future job of each: it relies on later_job_ready.
//
// Parameters: queues and kinds as JSON.
const selectNextDue = `
with recursive clock (now) as materialized (
  select cast(round((julianday('now') - 2440587.5) * 86400000) as integer)
),
lane (queue, kind, priority) as (
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
  where j.queue = lane.queue and j.kind = lane.kind and j.priority = lane.priority and j.run_at > clock.now
  order by j.run_at
  limit 1)) - clock.now
from clock
cross join lane
where lane.priority is not null`

// NextDue implements [later.Runner].
func (s *Store) NextDue(ctx context.Context, queues, kinds []string) (in time.Duration, ok bool, err error) {
	q, err1 := json.Marshal(queues)
	k, err2 := json.Marshal(kinds)
	if err1 != nil || err2 != nil {
		return 0, false, fmt.Errorf("next due: queues %q, kinds %q", queues, kinds)
	}
	stmt, err := s.nextDue.prepare(ctx, s.pools.read)
	if err != nil {
		return 0, false, fmt.Errorf("next due: %w", explain(err))
	}
	var ms sql.NullInt64
	if err := stmt.QueryRowContext(ctx, string(q), string(k)).Scan(&ms); err != nil {
		return 0, false, fmt.Errorf("next due: %w", explain(err))
	}
	const longest = 100 * 365 * 24 * 3600 * 1000 // milliseconds; what is farther off does not fit into a Duration
	return time.Duration(min(ms.Int64, longest)) * time.Millisecond, ms.Valid, nil
}

// nextDueStatement is kept prepared, because a worker asks before each wait:
// SQLite takes longer to compile it than to run it.
type nextDueStatement struct {
	mu   sync.Mutex
	stmt *sql.Stmt // nil until the tables were there; it ends with its pool
}

func (n *nextDueStatement) prepare(ctx context.Context, db *sql.DB) (*sql.Stmt, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stmt != nil {
		return n.stmt, nil
	}
	stmt, err := db.PrepareContext(ctx, selectNextDue)
	if err == nil {
		n.stmt = stmt
	}
	return stmt, err
}

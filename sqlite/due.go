package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// selectNextDue is one look for each kind of each queue, for its first job that is
// not due yet: it relies on later_job_scheduled. That has no job with run_at at or
// before created_at; such a job is not due yet only if the clock was set back after
// its insert, or if it was inserted with a created_at to come. A worker's poll finds
// it ([later.WakeAhead]).
//
// Parameters: queues and kinds as JSON.
const selectNextDue = `
with clock (now) as materialized (
  select cast(round((julianday('now') - 2440587.5) * 86400000) as integer)
)
select min((
  select j.run_at
  from later_job j indexed by later_job_scheduled
  where j.queue = q.value and j.kind = k.value and j.run_at > j.created_at and j.run_at > clock.now
  order by j.run_at
  limit 1)) - clock.now
from clock
cross join json_each(?1) q
cross join json_each(?2) k`

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
	in, ok = time.Duration(min(ms.Int64, longest))*time.Millisecond, ms.Valid
	if wait, held := s.held.next(queues, kinds); held && (!ok || wait < in) {
		in, ok = wait, true
	}
	return in, ok, nil
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

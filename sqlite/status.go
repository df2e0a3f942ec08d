package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/later-queue/later"
)

// jobState is the state of a row of later_job; ?1 is now. The view later_status
// says the same.
const jobState = `
  case
    when lease_until >= ?1 then 'running'
    when lease_until is not null then 'lost'
    when run_at <= ?1 then 'ready'
    when attempt > 0 then 'retry'
    else 'scheduled'
  end`

const selectStatus = `
with job (queue, state, run_at) as (
  select queue, ` + jobState + `, run_at
  from later_job
  union all
  select queue, 'dead', null
  from later_dead_job
)
select queue, state, count(*), case when state in ('ready', 'lost') then min(run_at) end
from job
group by queue, state
order by queue, state`

// Status implements [later.Operator].
func (s *Store) Status(ctx context.Context) ([]later.StatusRow, error) {
	var list []later.StatusRow
	err := s.snapshot(ctx, func(r reader) error {
		now, err := now(r)
		if err != nil {
			return err
		}
		rows, err := r.query(selectStatus, now)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var row later.StatusRow
			var oldest sql.NullInt64
			if err := rows.Scan(&row.Queue, &row.State, &row.Count, &oldest); err != nil {
				return err
			}
			row.Oldest = toOptionalTime(oldest)
			list = append(list, row)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("status: %w", explain(err))
	}
	return list, nil
}

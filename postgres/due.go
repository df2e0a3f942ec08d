package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// nextDue looks for the first job of each kind in each queue that was put off and is not due
// yet, with one probe for each in the index job_put_off. What is due, running, or finished and
// not vacuumed yet lies in front of that and is never read; nor does it matter how many
// tenants and priorities there are. (A job that is inserted with a created_at that lies
// still farther in the future than its run_at is not in the index; no program of ours does that,
// and such a job is found by the next look for work after it has become due.)
//
// Parameters: $1 queues, $2 kinds.
const nextDue = `
select extract(epoch from (
    select min(due.run_at)
    from unnest($1::text[]) as q (queue)
    cross join unnest($2::text[]) as k (kind)
    cross join lateral (
      select j.run_at
      from {schema}.job j
      where j.queue = q.queue and j.kind = k.kind and j.run_at > j.created_at and j.run_at > now()
      order by j.run_at
      limit 1
    ) due
  ) - now())::float8`

// NextDue implements [later.Runner].
func (s *Store) NextDue(ctx context.Context, queues, kinds []string) (in time.Duration, ok bool, err error) {
	rows, err := query(ctx, s, statement{
		name: "next due", sql: nextDue, args: []any{queues, kinds},
	}, pgx.RowTo[*float64])
	if err != nil {
		return 0, false, err
	}
	if len(rows) != 1 {
		return 0, false, fmt.Errorf("next due: got %d rows, want 1", len(rows))
	}
	in, ok = s.holding.untilNext(kindsKey(later.ClaimRequest{Kinds: slices.Compact(slices.Sorted(slices.Values(kinds)))}), queues)
	if rows[0] == nil {
		return in, ok, nil
	}
	const longest = 100 * 365 * 24 * 3600 // seconds; what is farther off does not fit into a Duration
	if due := time.Duration(min(*rows[0], longest) * float64(time.Second)); !ok || due < in {
		in = due
	}
	return in, true, nil
}

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

// claimJobs walks from one (queue, priority) to the next, in the order of the
// queues that were asked for, and takes from each what may still be taken: two
// probes of the index job_ready (which has id + 0) for a level, and then exactly the rows that it
// takes. A level's future jobs lie behind its due ones, so none is read.
//
// remaining is what all queues together may still give, room what this queue
// may. A level starts behind its mark, if it has one ([marks]), and then counts as
// there without being looked for; for a blind queue no others are looked for. picked are the
// rows that were taken of it, locked. The update goes by ctid; no row of
// picked can change under it, because it is locked, and a version newer than
// the statement's snapshot is not found and waits for the next claim.
const claimJobs = `
with recursive level (nr, priority, room, remaining, asked, picked, began) as (
  select 1, -32769, ($2::int[])[1], $3::int, 0, '{}'::tid[], clock_timestamp()
  union all
  select n.nr, n.priority, n.room, n.remaining, n.asked,
    array(
      select j.ctid
      from {schema}.job j
      where j.queue = ($1::text[])[n.nr]
        and j.priority = n.priority
        and j.run_at <= now()
        and (j.run_at, j.id + 0) > (coalesce(mark.run_at, '-infinity'), coalesce(mark.id, 0))
        and j.kind = any($4::text[])
        and j.cancel_at is null
        and (j.expires_at is null or j.expires_at > now())
        and (j.lease_until is null or j.lease_until < now())
        and j.crashes + (j.lease_until is not null)::int < $5
      order by j.run_at, j.id + 0
      limit n.asked
      for update skip locked),
    l.began
  from level l
  cross join lateral (
    select l.room - cardinality(l.picked) as room,
           l.remaining - cardinality(l.picked) as remaining
  ) rest
  cross join lateral (
    select min(m.priority) as priority
    from unnest($10::int[], $11::int[]) as m (nr, priority)
    where m.nr = l.nr and m.priority > l.priority
  ) marked
  cross join lateral (
    select coalesce(
      (
        select j.priority::int
        from {schema}.job j
        where j.queue = ($1::text[])[l.nr]
          and j.priority > l.priority
          and j.priority < coalesce(marked.priority, 32768)
          and rest.room > 0
          and not ($14::bool[])[l.nr]
        order by j.priority
        limit 1
      ),
      case when rest.room > 0 then marked.priority end
    ) as priority
    offset 0 -- so that it is looked up once
  ) next
  cross join lateral (
    select l.nr, next.priority, rest.room, rest.remaining,
           least(rest.room, rest.remaining) as asked
    where next.priority is not null
    union all
    select l.nr + 1, -32769, ($2::int[])[l.nr + 1], rest.remaining, 0
    where next.priority is null
  ) n
  left join lateral (
    select m.run_at, m.id
    from unnest($10::int[], $11::int[], $12::timestamptz[], $13::bigint[]) as m (nr, priority, run_at, id)
    where m.nr = n.nr and m.priority = n.priority
  ) mark on true
  where rest.remaining > 0 and n.nr <= cardinality($1::text[])
),
old as materialized (
  select j.ctid, j.attempt, j.lease_until, j.lease_holder, j.claimed_at,
         j.max_attempts = 1 and (j.crashes > 0 or j.lease_until is not null) as doomed
  from {schema}.job j
  where j.ctid = any(array(select unnest(l.picked) from level l))
),
claimed as (
  update {schema}.job j
  set lease_until  = now() + $8::bigint * interval '1 microsecond',
      lease_token  = $7,
      lease_holder = $6,
      claimed_at   = case when not old.doomed then now() end,
      crashes      = least(j.crashes, 999999) + (old.lease_until is not null)::int,
      attempt      = case when old.doomed then j.attempt else least(j.attempt, 2147483646) + 1 end
  from old
  where j.ctid = old.ctid
  returning ` + recordColumns + `, old.doomed,
    old.lease_until as old_until, old.lease_holder as old_holder, old.claimed_at as old_claimed_at,
    old.attempt as old_attempt
),
lost as (
  insert into {schema}.job_log
    (job_id, started_at, finished_at, attempt, queue, kind, tenant, outcome, worker, error)
  select id, old_claimed_at, old_until, old_attempt, queue, kind, tenant, 'lost', old_holder, ''
  from claimed
  where $9 and old_until is not null
)
select ` + recordColumns + `, case when j.doomed then 'lost' else '' end, j.old_until, j.old_holder,
  seen.*
from (
  select array_agg(l.nr), array_agg(l.priority), array_agg(l.asked), array_agg(cardinality(l.picked)),
         now(), extract(epoch from clock_timestamp() - min(l.began))::float8
  from level l
) seen
left join claimed j on true`

// Claim implements [later.Worker].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	queues, limits := make([]string, len(req.Queues)), make([]int32, len(req.Queues))
	order := make(map[string]int, len(req.Queues))
	for i, q := range req.Queues {
		queues[i], limits[i] = q.Queue, int32(min(q.Limit, maxClaim))
		order[q.Queue] = i
	}
	marks, head := s.marks.before(req)
	rows, err := query(ctx, s, statement{
		name: fmt.Sprintf("claim %d jobs", req.Limit),
		sql:  claimJobs,
		args: []any{
			queues, limits, int32(min(req.Limit, maxClaim)), req.Kinds, int32(later.SuspectCrashes),
			req.Worker, req.Token, micros(req.Lease), !s.config.NoLog,
			marks.nrs, marks.priorities, marks.runAts, marks.ids, marks.blind,
		},
	}, s.scanClaim(req.Token))
	if err != nil {
		return nil, err
	}
	var jobs []*later.Claimed
	for _, row := range rows {
		if row.job != nil {
			jobs = append(jobs, row.job)
		}
	}
	slices.SortFunc(jobs, func(a, b *later.Claimed) int {
		return cmp.Or(cmp.Compare(order[a.Queue], order[b.Queue]), compareReady(a, b))
	})
	s.marks.after(req, head, rows[0].seen, jobs)
	return jobs, nil
}

// maxClaim bounds one claim; more could not be run within any lease.
const maxClaim = 100_000

// compareReady is the order in which jobs of one queue are run.
func compareReady(a, b *later.Claimed) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
}

// claimRow is a row of claimJobs: a job, if there is one, and what was seen on
// the way, the same in every row.
type claimRow struct {
	job  *later.Claimed
	seen seen
}

func (s *Store) scanClaim(token int64) pgx.RowToFunc[claimRow] {
	return func(row pgx.CollectableRow) (claimRow, error) {
		var r claimRow
		var c claimedRow
		var elapsed float64
		dest := append(c.dest(), &r.seen.nrs, &r.seen.priorities, &r.seen.asked, &r.seen.picked, &r.seen.now, &elapsed)
		if row.RawValues()[0] == nil { // no job
			for i := range len(c.dest()) {
				dest[i] = nil
			}
		}
		if err := row.Scan(dest...); err != nil {
			return claimRow{}, err
		}
		r.seen.elapsed = time.Duration(elapsed * float64(time.Second))
		if dest[0] != nil {
			r.job = c.claimed(s, token)
			r.job.Now = r.seen.now.UTC()
		}
		return r, nil
	}
}

// claimedRow is recordColumns, the doom, and the end and the holder of the lease
// that was lost.
type claimedRow struct {
	record     recordRow
	doom       string
	lostAt     *time.Time
	lostWorker *string
}

func (r *claimedRow) dest() []any {
	return append(r.record.dest(), &r.doom, &r.lostAt, &r.lostWorker)
}

func (r *claimedRow) claimed(s *Store, token int64) *later.Claimed {
	c := &later.Claimed{Record: r.record.record(s), Doom: later.Doom(r.doom), LostAt: timeOrZero(r.lostAt)}
	c.Lease = later.Lease{ID: c.ID, Token: token}
	if r.lostWorker != nil {
		c.LostWorker = *r.lostWorker
	}
	return c
}

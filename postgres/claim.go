package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// unanswered tells a row that an earlier claim of the same worker has leased, whose
// answer was lost: nobody has seen the job.
const unanswered = `coalesce(j.lease_token = any($15::bigint[]), false)`

// lost tells a row whose worker was lost, and doomed one for which that was the only
// attempt.
const (
	lost   = `(j.lease_until is not null and not ` + unanswered + `)`
	doomed = `(j.max_attempts = 1 and (j.crashes > 0 or ` + lost + `))`
)

// claimable is what a claim takes of the rows that are due: jobs that nobody has, and
// those whose worker was lost but that are no suspects yet.
const claimable = `j.cancel_at is null
  and (j.expires_at is null or j.expires_at > now())
  and (j.lease_until is null or j.lease_until < now() or ` + unanswered + `)
  and j.crashes + ` + lost + `::int < $5`

// A claim walks from one (queue, priority) to the next, in the order of the queues
// that were asked for, and takes from each what may still be taken. It goes through
// the index job_ready (which has id + 0): a probe finds the next level, and within it
// each kind is a lane of its own, so that the rows of kinds that the worker does not
// know are never read. A lane's future jobs lie behind its due ones, so none of them
// is read either.
//
// remaining is what all queues together may still give, room what this queue
// may. A level starts behind its mark, if it has one ([marks]), and then counts as
// there without being looked for; for a blind queue no others are looked for. picked
// are the rows that were taken of it, locked, and lost those of them that had a lease:
// only these few are read once more, for what is told about the lost worker. The update
// goes by ctid; no row of picked can change under it, because it is locked, and a
// version newer than the statement's snapshot is not found and waits for the next
// claim.
//
// The statement has three parts, and the middle one is [claimOne] or [claimMerged].
const claimTop = `
with recursive level (nr, priority, room, remaining, asked, picked, lost, began) as (
  select 1, -32769, ($2::int[])[1], $3::int, 0, '{}'::tid[], '{}'::tid[], clock_timestamp()
  union all
  select n.nr, n.priority, n.room, n.remaining, n.asked, coalesce(taken.picked, '{}'), coalesce(taken.lost, '{}'),
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
`

// claimOne takes jobs of a level for a worker with one kind: the level is one lane.
const claimOne = `
  left join lateral (
    select array_agg(t.ctid) as picked, array_agg(t.ctid) filter (where t.lost) as lost
    from (
      select j.ctid, j.lease_until is not null as lost
      from {schema}.job j
      where j.queue = ($1::text[])[n.nr]
        and j.priority = n.priority
        and j.kind = ($4::text[])[1]
        and j.run_at <= now()
        and (j.run_at, j.id + 0) > (coalesce(mark.run_at, '-infinity'), coalesce(mark.id, 0))
        and ` + claimable + `
      order by j.run_at, j.id + 0
      limit n.asked
      for update skip locked
    ) t
    offset 0 -- so that it is done once
  ) taken on true`

// claimMerged takes jobs of a level for a worker with several kinds. Their lanes are
// merged in rounds. A round reads the same number of rows from each lane that may still
// have some; up to the first place where a lane was read to that number and may go on,
// the order of all of them is known, and of that part rows are locked, one after the
// other, until there are as many as are wanted; no others are. What others have locked
// is passed over and made up for by the next round, which starts where this one ended
// and reads twice as much. About twice what is wanted is read, which mostly is enough
// for all.
const claimMerged = `
  left join lateral (
    with recursive round (nr, kinds, run_at, id, wanted, picked, lost) as (
      select 0, $4::text[], coalesce(mark.run_at, '-infinity'), coalesce(mark.id, 0), n.asked, '{}'::tid[], '{}'::tid[]
      where n.asked > 0
      union all
      select r.nr + 1, part.kinds, part.run_at, part.id, r.wanted - cardinality(locked.picked), locked.picked, locked.lost
      from round r
      cross join lateral (
        select span, case
          when cardinality(r.kinds) = 1 then span
          else least(span, 2 * span / cardinality(r.kinds) + 2)
        end as rows
        from (select n.asked::bigint << least(r.nr, 6) as span) s
      ) depth
      cross join lateral (
        with found as materialized (
          select k.kind, lane.*
          from unnest(r.kinds) as k (kind)
          cross join lateral (
            select due.*, row_number() over (order by due.run_at, due.id) = depth.rows as last
            from (
              select j.ctid, j.run_at, j.id + 0 as id
              from {schema}.job j
              where j.queue = ($1::text[])[n.nr]
                and j.priority = n.priority
                and j.kind = k.kind
                and j.run_at <= now()
                and (j.run_at, j.id + 0) > (r.run_at, r.id)
                and ` + claimable + `
              order by j.run_at, j.id + 0
              limit depth.rows
            ) due
          ) lane
        ),
        known as materialized (
          select f.ctid, f.run_at, f.id
          from found f
          left join (
            select run_at, id from found where last order by run_at, id limit 1
          ) bound on true
          where bound.id is null or (f.run_at, f.id) <= (bound.run_at, bound.id)
          order by f.run_at, f.id
          limit depth.span
        )
        select array(select ctid from known) as picked, till.run_at, till.id,
          array(
            select distinct f.kind
            from found f
            where f.last or (f.run_at, f.id) > (till.run_at, till.id)
          ) as kinds
        from (
          select run_at, id from known order by run_at desc, id desc limit 1
        ) till
        offset 0 -- so that it is read once
      ) part
      cross join lateral (
        select coalesce(array_agg(t.ctid), '{}') as picked, coalesce(array_agg(t.ctid) filter (where t.lost), '{}') as lost
        from (
          select taken.*
          from unnest(part.picked) as p (ctid) -- in order
          cross join lateral (
            select j.ctid, j.lease_until is not null as lost
            from {schema}.job j
            where j.ctid = p.ctid
              and ` + claimable + `
            for update skip locked
          ) taken
          limit r.wanted
        ) t
        offset 0 -- so that it is locked once
      ) locked
      where r.wanted > 0 and cardinality(r.kinds) > 0
    )
    select array(select unnest(r.picked) from round r) as picked, array(select unnest(r.lost) from round r) as lost
    offset 0 -- so that it is done once
  ) taken on true`

const claimBottom = `
  where rest.remaining > 0 and n.nr <= cardinality($1::text[])
),
old as materialized (
  select j.id, j.lease_until, j.lease_holder, j.claimed_at, j.attempt
  from {schema}.job j
  where j.ctid = any(array(select unnest(l.lost) from level l))
    and not ` + unanswered + `
),
claimed as (
  update {schema}.job j
  set lease_until  = now() + $8::bigint * interval '1 microsecond',
      lease_token  = $7,
      lease_holder = $6,
      claimed_at   = case when not ` + doomed + ` then now() end,
      crashes      = least(j.crashes, 999999) + ` + lost + `::int,
      attempt      = case when ` + doomed + ` or ` + unanswered + ` then j.attempt else least(j.attempt, 2147483646) + 1 end
  where j.ctid = any(array(select unnest(l.picked) from level l))
  returning ` + recordColumns + `
),
lost as (
  insert into {schema}.job_log
    (job_id, started_at, finished_at, attempt, queue, kind, tenant, outcome, worker, error)
  select j.id, old.claimed_at, now(), old.attempt, j.queue, j.kind, j.tenant, 'lost', old.lease_holder, ''
  from claimed j
  join old on old.id = j.id
  where $9
)
select ` + recordColumns + `, case when j.max_attempts = 1 and j.crashes > 0 then 'lost' else '' end,
  old.lease_until, old.lease_holder, seen.*
from (
  select array_agg(l.nr), array_agg(l.priority), array_agg(l.asked), array_agg(cardinality(l.picked)),
         now(), extract(epoch from clock_timestamp() - min(l.began))::float8
  from level l
) seen
left join claimed j on true
left join old on old.id = j.id`

const (
	claimOfOneKind = claimTop + claimOne + claimBottom
	claimOfKinds   = claimTop + claimMerged + claimBottom
)

// claimFor is the statement for a worker with these kinds. Most have few, and many
// one; measured, merging costs the server half as much again for each job.
func claimFor(kinds []string) string {
	if len(kinds) == 1 {
		return claimOfOneKind
	}
	return claimOfKinds
}

// Claim implements [later.Runner].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	queues, limits := make([]string, len(req.Queues)), make([]int32, len(req.Queues))
	order := make(map[string]int, len(req.Queues))
	for i, q := range req.Queues {
		queues[i], limits[i] = q.Queue, int32(min(q.Limit, maxClaim))
		order[q.Queue] = i
	}
	marks, head := s.marks.before(req)
	began := s.marks.clock()
	rows, err := query(ctx, s, statement{
		name: fmt.Sprintf("claim %d jobs", req.Limit),
		sql:  claimFor(req.Kinds),
		args: []any{
			queues, limits, int32(min(req.Limit, maxClaim)), req.Kinds, int32(later.SuspectCrashes),
			req.Worker, req.Token, micros(req.Lease), !s.config.NoLog,
			marks.nrs, marks.priorities, marks.runAts, marks.ids, marks.blind,
			append([]int64{}, req.Unanswered...), // not null, which would be neither true nor false
		},
	}, s.scanClaim(req.Token))
	if err != nil {
		if outlasted(err) {
			s.marks.gaveUp(req, head, s.marks.clock().Sub(began))
		}
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

// outlasted reports whether a statement was given up because it took too long, by
// the caller or by the server's statement_timeout.
func outlasted(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || hasCode(err, "57014")
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

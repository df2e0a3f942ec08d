package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// behindMarks looks in a queue for jobs that claims would take, from the head of each
// level up to its mark, and returns the first of each level, if there is one. It is
// read-only, takes as long as it takes, and goes through the index job_ready, as claims
// do.
//
// Parameters: $1 queue, $2 kinds, $3 SuspectCrashes, and the marks: $4 priorities, $5
// run_at, $6 id. A level without a mark is looked through whole.
const behindMarks = `
with recursive level (priority) as (
  select (select j.priority::int from {schema}.job j where j.queue = $1 order by j.priority limit 1)
  union all
  select (select j.priority::int from {schema}.job j where j.queue = $1 and j.priority > l.priority order by j.priority limit 1)
  from level l
  where l.priority is not null
)
select l.priority, first.run_at, first.id, now(),
       extract(epoch from clock_timestamp() - statement_timestamp())::float8
from level l
left join lateral (
  select m.run_at, m.id
  from unnest($4::int[], $5::timestamptz[], $6::bigint[]) as m (priority, run_at, id)
  where m.priority = l.priority
) mark on true
left join lateral (
  select lane.run_at, lane.id
  from unnest($2::text[]) as k (kind)
  cross join lateral (
    select j.run_at, j.id + 0 as id
    from {schema}.job j
    where j.queue = $1
      and j.priority = l.priority
      and j.kind = k.kind
      and j.run_at <= now()
      and (j.run_at, j.id + 0) <= (coalesce(mark.run_at, 'infinity'), coalesce(mark.id, 0))
      and j.cancel_at is null
      and (j.expires_at is null or j.expires_at > now())
      and (j.lease_until is null or j.lease_until < now())
      and j.crashes + (j.lease_until is not null)::int < $3
    order by j.run_at, j.id + 0
    limit 1
  ) lane
  order by lane.run_at, lane.id
  limit 1
) first on true
where l.priority is not null`

// lookBound is the longest that such a look may take. Chosen: nobody waits for it, and
// it has a connection to itself meanwhile.
const lookBound = time.Minute

// looks are those that are under way.
type looks struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	ctx    context.Context // nil before the first
	closed bool
	wait   sync.WaitGroup
}

// start runs look until it ends or the store closes.
func (l *looks) start(look func(ctx context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(context.Background())
	}
	ctx := l.ctx
	l.wait.Go(func() { look(ctx) })
}

func (l *looks) close() {
	l.mu.Lock()
	l.closed = true
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
	l.wait.Wait()
}

// lookBehind starts, for the queues of a claim where it is time to look from the head and
// that would take long, looks beside the claims.
func (s *Store) lookBehind(req later.ClaimRequest) {
	for _, queue := range s.marks.toLook(req) {
		s.looks.start(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, lookBound)
			defer cancel()
			began := s.marks.clock()
			priorities, runAts, ids := s.marks.of(req.Kinds, queue)
			levels, err := query(ctx, s, statement{
				name: fmt.Sprintf("look through queue %q", queue), sql: behindMarks,
				args: []any{queue, req.Kinds, int32(later.SuspectCrashes), priorities, runAts, ids},
			}, pgx.RowToStructByPos[lookedLevel])
			s.marks.looked(req.Kinds, queue, levels, err, s.marks.clock().Sub(began))
		})
	}
}

// lookedLevel is what a look has found of a level.
type lookedLevel struct {
	Priority int32
	RunAt    *time.Time // of the first job behind the mark, nil if there is none
	ID       *int64
	Now      time.Time
	Elapsed  float64 // seconds since the look began
}

// toLook are the queues of a claim that are to be looked through, which is then
// thought to be under way.
func (m *marks) toLook(req later.ClaimRequest) (queues []string) {
	if req.Thorough { // it looks from the head itself
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, kinds := m.clock(), kindsKey(req.Kinds)
	for _, q := range req.Queues {
		l := m.lanes[laneKey{kinds, q.Queue}]
		if l != nil && l.levels != nil && l.took > longLook && !l.looking && !now.Before(l.headAfter) {
			l.looking = true
			queues = append(queues, q.Queue)
		}
	}
	return queues
}

// of are the marks of a queue.
func (m *marks) of(kinds []string, queue string) (priorities []int32, runAts []time.Time, ids []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	priorities, runAts, ids = []int32{}, []time.Time{}, []int64{}
	if l := m.lanes[laneKey{kindsKey(kinds), queue}]; l != nil {
		for priority, p := range l.levels {
			priorities, runAts, ids = append(priorities, priority), append(runAts, p.runAt), append(ids, p.id)
		}
	}
	return priorities, runAts, ids
}

// looked takes the result of a look: the next claim begins in front of what was found,
// new levels get a mark, and where it was quick no marks are needed any more.
func (m *marks) looked(kinds []string, queue string, levels []lookedLevel, err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := laneKey{kindsKey(kinds), queue}
	l := m.lanes[key]
	if l == nil || l.levels == nil { // forgotten, or begun anew, meanwhile
		return
	}
	l.looking = false
	l.headAfter = m.clock().Add(pauseAfter(took))
	if err != nil {
		return
	}
	var elapsed time.Duration // by the server's clock
	if len(levels) == 0 {
		elapsed = took // it has not told
	}
	for _, found := range levels {
		elapsed = max(elapsed, time.Duration(found.Elapsed*float64(time.Second)))
		if l.behind == nil {
			l.behind = map[int32]position{}
		}
		if found.RunAt != nil {
			l.behind[found.Priority] = position{found.RunAt.UTC(), *found.ID - 1}
		} else if _, known := l.levels[found.Priority]; !known {
			l.behind[found.Priority] = seenUntil(found.Now)
		}
	}
	if l.took = elapsed; !isSlow(elapsed, 0, len(levels)*len(kinds)) {
		delete(m.lanes, key)
	}
}

// before reports whether p comes first.
func (p position) before(q position) bool {
	return p.runAt.Before(q.runAt) || p.runAt.Equal(q.runAt) && p.id < q.id
}

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
)

// spy counts the statements of a store, and may delay them.
type spy struct {
	statements atomic.Int64
	before     atomic.Pointer[func(sql string)]
}

func (s *spy) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.statements.Add(1)
	if before := s.before.Load(); before != nil {
		(*before)(d.SQL)
	}
	return ctx
}

func (s *spy) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// spied is planStore with a spy.
func spied(t *testing.T) (*Store, *pgx.Conn, *spy) {
	t.Helper()
	url, tracer := testdb.Postgres(t), &spy{}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := New(pool, Config{Schema: testdb.Schema(t, url)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, connect(t, s), tracer
}

// markLanes has a store keep marks of a queue as after slow looks, of which the last one
// took so long; it stands in front of what is there.
func markLanes(t *testing.T, s *Store, queue string, took time.Duration) {
	t.Helper()
	q := &turnQueue{name: queue, nr: 1, head: true, whole: true}
	rows, err := s.nextLanes(t.Context(), later.ClaimRequest{Kinds: []string{"work"}}, []*turnQueue{q}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.rotations.mu.Lock()
	defer s.rotations.mu.Unlock()
	r := s.rotations.of(rotationKey{"work", queue})
	r.slow, r.tenants, r.took, r.lookAfter = true, time.Now(), took, time.Now().Add(5*time.Second)
	r.marks = map[lane]position{}
	for _, row := range rows {
		r.marks[row.lane()] = row.from()
	}
}

// lookSoon has the next claim find that it is time to look, or that it is not for an hour.
func lookSoon(s *Store, soon bool) {
	s.rotations.mu.Lock()
	defer s.rotations.mu.Unlock()
	for _, r := range s.rotations.all {
		r.lookAfter = time.Now().Add(time.Hour)
		if soon {
			r.lookAfter = time.Time{}
		}
	}
}

// Case 149: also behind a mark a claim whose answer was lost is taken back, uncharged.
func TestUnansweredBehindAMark(t *testing.T) {
	s, conn, _ := spied(t)
	execute(t, s, conn, `insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i % 2 from generate_series(1, 20) i`)
	markLanes(t, s, "default", time.Second)
	lost := claimRequest(4)
	if jobs, err := s.Claim(t.Context(), lost); len(jobs) != 4 || err != nil {
		t.Fatal(len(jobs), err)
	}
	claimSome(t, s, 100) // moves the marks on
	var found []*later.Claimed
	for deadline := time.Now().Add(4 * time.Second); len(found) < 4 && time.Now().Before(deadline); {
		req := claimRequest(30)
		req.Unanswered = []int64{lost.Token}
		jobs, err := s.Claim(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, jobs...)
	}
	if len(found) != 4 {
		t.Fatalf("got %d jobs of the claim whose answer was lost, want 4", len(found))
	}
	for _, job := range found {
		if job.Attempt != 1 || job.Crashes != 0 {
			t.Errorf("got attempt %d and %d crashes, want 1 and 0", job.Attempt, job.Crashes)
		}
	}
}

func TestManyLanesBehindMarksAreFewStatements(t *testing.T) {
	s, conn, tracer := spied(t)
	execute(t, s, conn, `insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i from generate_series(1, 5000) i`)
	markLanes(t, s, "default", time.Second)
	claimSome(t, s, 1)
	execute(t, s, conn, "delete from {schema}.job; insert into {schema}.job (kind, tenant) values ('work', 'zzz')")
	found := 0
	for range 3 {
		tracer.statements.Store(0)
		found += len(claimSome(t, s, 1))
		if got := tracer.statements.Load(); got > 10 {
			t.Errorf("a claim of one job beside 5,000 lanes with nothing: got %d statements, want at most 10", got)
		}
	}
	if found != 1 {
		t.Errorf("got %d jobs, want the one that there is", found)
	}
}

func TestLanesInWhichEverythingRunsHideNoOther(t *testing.T) {
	s, conn, _ := spied(t)
	execute(t, s, conn, `
		insert into {schema}.job (kind, tenant, lease_until, lease_token, lease_holder, claimed_at)
		select 'work', 'tenant_' || i, now() + interval '1 hour', 1, 'x', now() from generate_series(1, 10001) i;
		insert into {schema}.job (kind, tenant, priority) select 'work', 'free', 1 from generate_series(1, 2)`)
	req := claimRequest(1)
	req.Thorough = true
	if jobs, err := s.Claim(t.Context(), req); len(jobs) != 1 || err != nil {
		t.Errorf("a thorough claim: got %d jobs, %v, want one", len(jobs), err)
	}
	markLanes(t, s, "default", time.Second)
	s.rotations.mu.Lock()
	r := s.rotations.all[rotationKey{"work", "default"}]
	delete(r.marks, lane{1, "free"})
	s.rotations.mu.Unlock()
	lookSoon(s, true)
	found := 0
	for deadline := time.Now().Add(20 * time.Second); found == 0 && time.Now().Before(deadline); {
		found += len(claimSome(t, s, 5))
	}
	if found != 1 {
		t.Errorf("behind marks: got %d jobs, want the free one", found)
	}
}

// Several processes that meet at the same lanes do not take the queue for empty.
func TestProcessesThatMeetFindWork(t *testing.T) {
	first, conn := planStore(t)
	execute(t, first, conn, "insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i from generate_series(1, 6000) i")
	var left, claims, empty atomic.Int64
	left.Store(6000)
	var all sync.WaitGroup
	for range 4 {
		s, err := New(first.pool, first.config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		all.Go(func() {
			for left.Load() > 1000 {
				jobs, err := s.Claim(context.Background(), claimRequest(10))
				if err != nil {
					t.Error(err)
					return
				}
				claims.Add(1)
				if len(jobs) == 0 {
					empty.Add(1)
				}
				left.Add(-int64(len(jobs)))
			}
		})
	}
	all.Wait()
	// Before there was a second look, one of six was.
	if claims.Load() < 20*empty.Load() {
		t.Errorf("%d of %d claims got nothing beside 1,000 jobs, want at most one of twenty", empty.Load(), claims.Load())
	}
}

func TestNewTenantHasItsTurnAmongManyBehindMarks(t *testing.T) {
	s, conn, _ := spied(t)
	execute(t, s, conn, `insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i % 1000 from generate_series(1, 20000) i`)
	markLanes(t, s, "default", time.Second)
	claimSome(t, s, 1)
	lookSoon(s, false)
	execute(t, s, conn, `insert into {schema}.job (kind, tenant) values ('work', 'tenant_5x')`)
	began := time.Now()
	for n := 0; n < 150 || time.Since(began) < 2*unsettledTime; n++ {
		for _, job := range claimSome(t, s, 10) {
			if job.Tenant == "tenant_5x" {
				return
			}
		}
	}
	t.Error("the new tenant had no turn in a round and a half")
}

// A look is not to keep the connections from those who renew leases.
func TestLooksBesideClaimsLeaveConnections(t *testing.T) {
	s, conn, tracer := spied(t)
	req := claimRequest(60)
	req.Queues = nil
	for i := range 12 {
		queue := fmt.Sprintf("q%d", i)
		req.Queues = append(req.Queues, later.QueueLimit{Queue: queue, Limit: 5})
		execute(t, s, conn, fmt.Sprintf(`insert into {schema}.job (kind, queue, tenant) select 'work', '%s', 'tenant_' || i %% 2 from generate_series(1, 20) i`, queue))
		markLanes(t, s, queue, time.Second)
	}
	jobs, err := s.Claim(t.Context(), req)
	if err != nil || len(jobs) == 0 {
		t.Fatal(len(jobs), err)
	}
	lookSoon(s, true)
	var looks, most atomic.Int64
	began, release := make(chan struct{}, 12), make(chan struct{})
	before := func(sql string) {
		if strings.Contains(sql, "recursive turn") {
			most.Store(max(most.Load(), looks.Add(1)))
			began <- struct{}{}
			<-release
			looks.Add(-1)
		}
	}
	tracer.before.Store(&before)
	req.Token = later.NewToken()
	if _, err := s.Claim(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	<-began
	if _, err := s.Renew(t.Context(), []later.Lease{jobs[0].Lease}, time.Minute); err != nil {
		t.Error(err)
	}
	close(release)
	if got := most.Load(); got != 1 {
		t.Errorf("got %d looks at once, want 1", got)
	}
}

// What is new is told by ids above those that were there, also when nothing is there any more.
func TestNewsOfAnEmptyTableReadsNothingOld(t *testing.T) {
	s, conn := planStore(t)
	execute(t, s, conn, `insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i % 30 from generate_series(1, 50000) i`)
	execute(t, s, connect(t, s), "begin isolation level repeatable read; select count(*) from {schema}.job")
	execute(t, s, conn, "delete from {schema}.job")
	var none *int64
	rows, err := query(t.Context(), s, statement{name: "news", sql: freshLanes, args: []any{
		[]string{"default"}, []string{"work"}, none, time.Now(), int32(later.SuspectCrashes), []int64{}, maxFresh, int64(0),
	}}, pgx.RowToStructByPos[freshLane])
	if err != nil {
		t.Fatal(err)
	}
	if got := rows[0].LastID; got != 50000 {
		t.Errorf("got %d as the id above which jobs are new, want 50000", got)
	}
	p := explain(t, s, conn, "fresh_lanes", freshLanes, freshTypes, []string{"default"}, []string{"work"}, 50000, time.Now(), later.SuspectCrashes, []int64{}, maxFresh, 0)
	if p.buffers > 50 {
		t.Errorf("got %d buffers, want at most 50", p.buffers)
	}
	if !slices.ContainsFunc(rows, func(r freshLane) bool { return r.Queue == nil }) {
		t.Errorf("got %d lanes, want none", len(rows))
	}
}

// A queue that has given what is wanted of it does not keep a claim from the next one.
func TestQueueThatIsFullKeepsNoOtherWaiting(t *testing.T) {
	s, conn := planStore(t)
	execute(t, s, conn, `
		insert into {schema}.job (kind, queue, tenant, priority)
		select 'work', q, 'tenant_' || i % 4, i from unnest(array['default', 'other']) q, generate_series(1, 40) i`)
	req := claimRequest(7)
	req.Queues = []later.QueueLimit{{Queue: "default", Limit: 1}, {Queue: "other", Limit: 3}}
	for range 3 {
		req.Token = later.NewToken()
		jobs, err := s.Claim(t.Context(), req)
		if err != nil || len(jobs) != 4 {
			t.Errorf("got %d jobs, %v, want one of the first queue and three of the other", len(jobs), err)
		}
	}
}

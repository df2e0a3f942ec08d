package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
)

// planned is one statement as the server ran it.
type planned struct {
	nodes   []planNode
	buffers int
	ms      float64 // only to look at
}

type planNode struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Hit      int    `json:"Shared Hit Blocks"`
	Read     int    `json:"Shared Read Blocks"`
	Plans    []planNode
}

func (n planNode) walk(visit func(planNode)) {
	visit(n)
	for _, child := range n.Plans {
		child.walk(visit)
	}
}

// explain runs a statement of workers as they do, with a plan that was made for
// no values in particular, rolls it back, and returns the plan. types are the
// parameters'.
func explain(t *testing.T, s *Store, conn *pgx.Conn, name, statement, types string, args ...any) planned {
	t.Helper()
	ctx := t.Context()
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", firstLine(sql), err)
		}
	}
	exec(begin)
	defer exec("rollback")
	exec(plan)
	exec("set local plan_cache_mode = force_generic_plan")
	var there bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_prepared_statements where name = $1)", name).Scan(&there); err != nil {
		t.Fatal(err)
	}
	if !there {
		exec(fmt.Sprintf("prepare %s (%s) as %s", name, types, s.sql(statement)))
	}
	literals := make([]string, len(args))
	for i, arg := range args {
		literals[i] = literal(arg)
	}
	var text string
	err := conn.QueryRow(ctx, fmt.Sprintf("explain (analyze, buffers, format json) execute %s (%s)", name, strings.Join(literals, ", "))).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan planNode
		Time float64 `json:"Execution Time"`
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	p := planned{buffers: plans[0].Plan.Hit + plans[0].Plan.Read, ms: plans[0].Time}
	plans[0].Plan.walk(func(n planNode) { p.nodes = append(p.nodes, n) })
	for _, n := range p.nodes {
		if n.Type == "Seq Scan" && n.Relation == "job" {
			t.Errorf("%s scans the whole table:\n%s", name, text)
		}
	}
	return p
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// literal writes a parameter into SQL text.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case []string:
		quoted := make([]string, len(v))
		for i := range v {
			quoted[i] = literal(v[i])
		}
		return "array[" + strings.Join(quoted, ",") + "]::text[]"
	case time.Time:
		return literal(v.Format(time.RFC3339Nano))
	case []time.Time:
		quoted := make([]string, len(v))
		for i := range v {
			quoted[i] = literal(v[i])
		}
		return "array[" + strings.Join(quoted, ",") + "]::timestamptz[]"
	case []bool:
		return literal("{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") + "}")
	case []int32, []int64:
		return "'" + strings.NewReplacer("[", "{", "]", "}", " ", ",").Replace(fmt.Sprint(v)) + "'"
	case []*string:
		return "array[" + strings.TrimSuffix(strings.Repeat("null,", len(v)), ",") + "]::text[]"
	default:
		return fmt.Sprint(v)
	}
}

const (
	quickTypes = "text[], int[], int, text[], int, bigint[], bigint, bigint, bool, text, bigint"
	laneTypes  = quickTypes + ", int[], int[], text[], int[], timestamptz[], bigint[]"
	lookTypes  = "text[], int[], int, text[], int, bigint[], int[], int[], text[], bool, text[]"
	freshTypes = "text[], text[], bigint, timestamptz, int, bigint[], int, bigint"
	dueTypes   = "text[], text[]"
)

// claimArgs are the parameters of a claim of the first queues, and of each of these lanes of
// the first queue.
func claimArgs(limit int, kinds []string, lanes map[lane]position, queues ...string) []any {
	limits := make([]int32, len(queues))
	for i := range limits {
		limits[i] = int32(limit)
	}
	nrs, priorities, tenants, rooms, runAts, ids := []int32{}, []int32{}, []string{}, []int32{}, []time.Time{}, []int64{}
	for l, p := range lanes {
		nrs, priorities, tenants, rooms = append(nrs, 1), append(priorities, l.priority), append(tenants, l.tenant), append(rooms, int32(limit))
		runAts, ids = append(runAts, p.runAt), append(ids, p.id)
	}
	return []any{
		queues, limits, limit, kinds, later.SuspectCrashes, []int64{}, 1, int64(60e6), true, "w", 1,
		nrs, priorities, tenants, rooms, runAts, ids,
	}
}

// lookArgs are the parameters of a look for some lanes of a queue, behind a tenant.
func lookArgs(lanes int, kinds []string, queue, cursor string) []any {
	return []any{
		[]string{queue}, []int32{int32(lanes)}, lanes, kinds, later.SuspectCrashes, []int64{},
		[]int32{1}, []int32{0}, []string{cursor}, true, []string{"paused", "too"},
	}
}

func planStore(t *testing.T) (*Store, *pgx.Conn) {
	t.Helper()
	// A database of its own, because whoever holds a snapshot in it, as some tests do, keeps old
	// versions of rows on their pages.
	owner, _, _ := testdb.Database(t, testdb.Postgres(t))
	s, err := Open(t.Context(), owner, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, connect(t, s)
}

// connect connects to the database of a store.
func connect(t *testing.T, s *Store) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, s *Store, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), s.sql(sql)); err != nil {
		t.Fatalf("%s: %v", firstLine(sql), err)
	}
}

// A claim of 50 jobs writes 50 row versions; everything else it reads is to be
// about the same whatever is in the table. Measured: 309 to 346.
const claimBuffers = 400

func TestPlans(t *testing.T) {
	// The tables are never analysed, but where it says so: a plan must not need it.
	for _, test := range []struct {
		name  string
		load  string
		marks bool // what is in the way is passed by means of marks
	}{
		{"an empty table", "", false},
		{"200,000 ready jobs", `
			insert into {schema}.job (kind) select 'work' from generate_series(1, 200000)`, false},
		{"200,000 future jobs of better priority", `
			insert into {schema}.job (kind, priority, run_at)
			select 'work', -5, now() + interval '1 day' from generate_series(1, 200000);
			insert into {schema}.job (kind) select 'work' from generate_series(1, 1000)`, false},
		{"200,000 ready jobs, analysed", `
			insert into {schema}.job (kind) select 'work' from generate_series(1, 200000);
			analyze {schema}.job`, false},
		{"a table that was filled", `
			insert into {schema}.job (kind) select 'work' from generate_series(1, 100000)`, false},
		{"50,000 running jobs in front", `
			insert into {schema}.job (kind, lease_until, lease_token, lease_holder, claimed_at)
			select 'work', now() + interval '1 hour', 1, 'x', now() from generate_series(1, 50000);
			insert into {schema}.job (kind) select 'work' from generate_series(1, 1000)`, true},
		{"200,000 jobs of an unknown kind in front", `
			insert into {schema}.job (kind) select 'other' from generate_series(1, 200000);
			insert into {schema}.job (kind) select 'work' from generate_series(1, 1000)`, false},
		{"200,000 jobs of an unknown kind and no other", `
			insert into {schema}.job (kind) select 'other' from generate_series(1, 200000)`, false},
		{"200,000 ready jobs of 20,000 tenants", `
			insert into {schema}.job (kind, tenant) select 'work', 'tenant_' || i % 20000 from generate_series(1, 200000) i`, false},
		{"200,000 ready jobs of one tenant in front of another's", `
			insert into {schema}.job (kind, tenant) select 'work', 'acme' from generate_series(1, 200000);
			insert into {schema}.job (kind, tenant) values ('work', 'zeta')`, false},
		{"200,000 jobs of tenants of an unknown kind", `
			insert into {schema}.job (kind, tenant) select 'other', 'tenant_' || i from generate_series(1, 200000) i;
			insert into {schema}.job (kind, tenant) select 'work', 'zeta' from generate_series(1, 1000)`, false},
		{"100,000 cancelled jobs", `
			insert into {schema}.job (kind, cancel_at) select 'work', now() from generate_series(1, 100000)`, true},
		{"100,000 suspects in front", `
			insert into {schema}.job (kind, crashes, attempt) select 'work', 2, 2 from generate_series(1, 100000);
			insert into {schema}.job (kind) select 'work' from generate_series(1, 1000)`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, conn := planStore(t)
			// A page that is being vacuumed cannot be cleaned by others: a row that is
			// changed then goes elsewhere, and reads and writes more.
			execute(t, s, conn, "alter table {schema}.job set (autovacuum_enabled = off)")
			// Plans that are made while the table is empty, and kept: by never
			// analysed tables, and by one that was vacuumed to nothing.
			explainAll(t, s, conn, nil)
			vacuumed := connect(t, s)
			for _, sql := range []string{
				"insert into {schema}.job (kind) select 'work' from generate_series(1, 5000)", "delete from {schema}.job", "vacuum analyze {schema}.job",
			} {
				execute(t, s, vacuumed, sql)
			}
			explainAll(t, s, vacuumed, nil)
			execute(t, s, conn, test.load)
			var marks map[lane]position
			if test.marks {
				marks = marksAfter(t, s, 3)
			}
			explainAll(t, s, conn, marks)
			explainAll(t, s, vacuumed, marks)
			explainAll(t, s, connect(t, s), marks) // planned anew
		})
	}
}

// Finished jobs leave entries in the index that stay as long as any transaction
// might see them.
func TestPlansWithHeldSnapshot(t *testing.T) {
	s, conn := planStore(t)
	execute(t, s, conn, "insert into {schema}.job (kind) select 'work' from generate_series(1, 60000)")
	execute(t, s, connect(t, s), "begin isolation level repeatable read; select count(*) from {schema}.job")
	for range 50 {
		jobs, err := s.Claim(t.Context(), claimRequest(1000))
		if err != nil {
			t.Fatal(err)
		}
		ends := make([]later.Settlement, len(jobs))
		for i, c := range jobs {
			ends[i] = later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDone}
		}
		if refused, err := s.Settle(t.Context(), ends); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	explainAll(t, s, conn, marksAfter(t, s, 3))
}

// marksAfter claims until the store keeps marks, and returns them.
func marksAfter(t *testing.T, s *Store, claims int) map[lane]position {
	t.Helper()
	now := time.Now()
	s.rotations.now = func() time.Time { return now } // so that they hold
	for range claims {
		if _, err := s.Claim(t.Context(), claimRequest(10)); err != nil {
			t.Fatal(err)
		}
	}
	marks := map[lane]position{}
	for _, l := range s.rotations.begin(claimRequest(10))[0].lanes {
		marks[l.lane] = l.from
	}
	if len(marks) == 0 {
		t.Fatal("no marks are kept, although looking from the head takes long")
	}
	return marks
}

func claimRequest(limit int) later.ClaimRequest {
	return later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: "default", Limit: limit}}, Limit: limit, Kinds: []string{"work"},
		Worker: "w", Token: later.NewToken(), Lease: time.Hour,
	}
}

// explainAll holds every statement of workers against what it may read.
func explainAll(t *testing.T, s *Store, conn *pgx.Conn, marks map[lane]position) {
	t.Helper()
	// A hundred run, if there are as many.
	rows, err := connect(t, s).Query(t.Context(), s.sql(`
		update {schema}.job
		set lease_until = now() + interval '1 hour', lease_token = 1, lease_holder = 'w', claimed_at = now()
		where id = any(array(select id from {schema}.job order by id limit 100))
		returning id`))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	for len(ids) < 100 {
		ids = append(ids, int64(len(ids)+1))
	}
	slices.Sort(ids)
	tokens, delays, errors := make([]int64, 100), make([]int64, 100), make([]*string, 100)
	texts := slices.Repeat([]string{"retry", "done", "dead", "snoozed", "released"}, 20)
	for i := range tokens {
		tokens[i] = 1
	}
	type statement struct {
		name, sql, types string
		buffers          int
		args             []any
	}
	one, three := []string{"work"}, []string{"a", "b", "work"}
	queues := []string{"default", "a", "b", "c", "d", "e", "f", "g", "h", "i"}
	lanes := marks
	if lanes == nil {
		lanes = map[lane]position{{0, ""}: {}, {0, "acme"}: {}, {-5, "zeta"}: {}}
	}
	statements := []statement{
		{"lane_claim", laneClaimSQL(1), laneTypes, claimBuffers, claimArgs(50, one, lanes, "default")},
		{"lane_claim_of_3_kinds", laneClaimSQL(3), laneTypes, claimBuffers + 50, claimArgs(50, three, lanes, "default")},
		{"fresh_lanes", freshLanes, freshTypes, 300, []any{queues, three, ids[0] + 150_000, time.Now().Add(-time.Second), later.SuspectCrashes, []int64{}, 50, 0}},
		{"next_due", nextDue, dueTypes, 60, []any{queues[:2], three}},
		// With nothing to sweep 7 to 16; five for each of the fifty that it writes.
		{"sweep", sweepJobs, sweepTypes, 400, sweepArgs(50)},
		// A hundred look-ups by the primary key, three or four blocks each, and a
		// row to be changed for each.
		{"settle_done", settleDone, "bigint[], bigint[], bool", 1000, []any{ids, tokens, true}},
		{"settle_mixed", settleJobs, "bigint[], bigint[], text[], bigint[], text[], text[], text[], bool", 2500,
			[]any{ids, tokens, texts, delays, texts, texts, errors, true}},
		{"renew", renewLeases, "bigint[], bigint[], bigint", 2000, []any{ids, tokens, int64(60e6)}},
		{"cancel_requests", cancelRequests, "bigint[], bigint[]", 600, []any{ids, tokens}},
		{"done_tx", settleOne, "bigint, bigint, bool", 20, []any{1, 1, true}},
		{"checkpoint", saveCheckpoint, "bigint, bigint, text", 20, []any{1, 1, "{}"}},
	}
	if marks == nil { // no other looks from the heads. Five lanes of three kinds: 107 to 109.
		statements = append(statements,
			statement{"claim", quickClaimSQL(1), quickTypes, claimBuffers, claimArgs(50, one, nil, "default")[:11]},
			statement{"claim_of_3_kinds", quickClaimSQL(3), quickTypes, claimBuffers + 50, claimArgs(50, three, nil, "default")[:11]},
			statement{"claim_of_10_queues", quickClaimSQL(1), quickTypes, claimBuffers, claimArgs(5, one, nil, queues...)[:11]},
			statement{"claim_that_asks_for_tenants", tenantClaimSQL(3), quickTypes, claimBuffers + 60, claimArgs(50, three, nil, "default")[:11]},
			statement{"next_lanes", nextLanesSQL(false, false), lookTypes, 140, lookArgs(5, three, "default", "")},
			statement{"next_lanes_behind_a_cursor", nextLanesSQL(false, false), lookTypes, 140, lookArgs(5, three, "default", "tenant_5")},
			statement{"next_lanes_of_some_tenants_from_the_lowest", nextLanesSQL(true, true), lookTypes + ", text[]", 140,
				append(lookArgs(5, three, "default", "tenant_5"), []string{"tenant_5", "tenant_9"})})
	}
	for _, test := range statements {
		p := explain(t, s, conn, test.name, test.sql, test.types, test.args...)
		if p.buffers > test.buffers {
			t.Errorf("%s: got %d buffers, want at most %d: %v", test.name, p.buffers, test.buffers, p.nodes)
		}
		t.Logf("%s: %d buffers", test.name, p.buffers)
	}
}

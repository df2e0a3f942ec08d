package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
)

// Migration 2 moves columns under jobs that run: their workers go on with them.
func TestLeaseLast(t *testing.T) {
	url := testdb.Postgres(t)
	s, err := Open(t.Context(), url, Config{Schema: testdb.Schema(t, url)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	conn := connect(t, s)
	execute(t, s, conn, "create schema {schema}")
	migration := func(name string) {
		t.Helper()
		sql, err := migrationFiles.ReadFile("migrations/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), s.sql(string(sql)), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	migration("0001_jobs.sql")
	execute(t, s, conn, `
		insert into {schema}.job (kind) values ('work');
		insert into {schema}.job (kind, attempt, failures) values ('work', 3, 3);
		insert into {schema}.job (kind, attempt, claimed_at, lease_until, lease_token, lease_holder)
		values ('work', 2, '2026-01-02 03:04:05+00', now() + interval '1 hour', 77, 'w')`)
	role := strings.Trim(s.schema, `"`) + "_reader"
	execute(t, s, conn, "create role "+role+"; grant usage on schema {schema} to "+role+"; grant select on {schema}.status to "+role)
	defer func() { // before the test's context ends
		execute(t, s, connect(t, s), "drop owned by "+role+"; drop role "+role)
	}()

	migration("0002_lease_last.sql")

	rows, err := conn.Query(t.Context(), s.sql(`
		select attempt, claimed_at, lease_until > now() + interval '50 minutes', lease_token, lease_holder
		from {schema}.job order by id`))
	if err != nil {
		t.Fatal(err)
	}
	type job struct {
		Attempt   int
		ClaimedAt *time.Time
		Leased    *bool
		Token     *int64
		Holder    *string
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[job])
	if err != nil || len(jobs) != 3 {
		t.Fatal(jobs, err)
	}
	if got := jobs[0]; got.Attempt != 0 || got.ClaimedAt != nil || got.Token != nil {
		t.Errorf("waiting: got %+v", got)
	}
	if got := jobs[1]; got.Attempt != 3 || got.Token != nil {
		t.Errorf("tried: got %+v", got)
	}
	if got := jobs[2]; got.Attempt != 2 || got.ClaimedAt.UTC() != time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) ||
		!*got.Leased || *got.Token != 77 || *got.Holder != "w" {
		t.Errorf("running: got %+v", got)
	}
	refused, err := s.Settle(t.Context(), []later.Settlement{{Lease: later.Lease{ID: 3, Token: 77}, Outcome: later.OutcomeDone}})
	if err != nil || len(refused) > 0 {
		t.Errorf("settle of the running job: got %v, %v, want it accepted", refused, err)
	}
	if _, err := conn.Exec(t.Context(), s.sql("insert into {schema}.job (kind, lease_token) values ('work', 1)")); err == nil {
		t.Error("half a lease is accepted: the constraint is gone")
	}
	execute(t, s, conn, "set role "+role)
	execute(t, s, conn, "select * from {schema}.status")
	execute(t, s, conn, "reset role")
}

package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// Case 172: names that need quotes, and two that differ in case only.
func TestChannelOfOddSchemas(t *testing.T) {
	url := testdb.Postgres(t)
	base := testdb.Schema(t, url)
	long := base + strings.Repeat("x", 63-len(base))
	var stores []*db
	for _, name := range []string{base, strings.ToUpper(base), long} {
		d := openAt(t, url, postgres.Config{Schema: name})
		t.Cleanup(func() { runAfter(t, url, "drop schema if exists "+pgx.Identifier{name}.Sanitize()+" cascade") })
		stores = append(stores, d)
	}
	for i, d := range stores {
		spies := make([]*spy, len(stores))
		for j := range stores {
			spies[j] = stores[j].spy()
		}
		w := d.waits("default")
		for _, other := range stores {
			other.enqueue(1)
		}
		for j := range stores {
			want := ""
			if i == j {
				want = "default"
			}
			if got := spies[j].heard(); got != want {
				t.Errorf("schema %s waits: %s got notifications for %q, want %q", d.schema, stores[j].schema, got, want)
			}
		}
		w.Close()
	}
}

// runAfter runs one statement on a connection of its own, at a time when the test's
// context has ended.
func runAfter(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), statement); err != nil {
		t.Error(err)
	}
}

// docs/sql.md says that this is all that it takes to enqueue.
func TestWakeNeedsNoRights(t *testing.T) {
	d := open(t, postgres.Config{})
	name, url := d.role()
	evil := testdb.Schema(t, d.url)
	for _, statement := range []string{
		"alter role " + name + " nosuperuser",
		fmt.Sprintf("revoke execute on all functions in schema %s from public", d.schema),
		fmt.Sprintf("grant usage on schema %s to %s", d.schema, name),
		fmt.Sprintf("grant insert on %s to %s", d.table("job"), name),
		// What the function uses, in front of it in the path.
		"create schema " + evil,
		fmt.Sprintf("grant usage on schema %s to public", evil),
		fmt.Sprintf("create function %s.hashtext(text) returns integer language sql as 'select 1/0'", evil),
		fmt.Sprintf("create function %s.pg_notify(text, text) returns void language sql as 'select 1/0'", evil),
	} {
		d.do(statement)
	}
	t.Cleanup(func() {
		runAfter(t, d.url, fmt.Sprintf("drop owned by %s", name))
	})
	spy := d.spy()
	w := d.waits("default")
	clerk := connect(t, url)
	for _, statement := range []string{
		fmt.Sprintf("set search_path = %s, pg_catalog", evil),
		fmt.Sprintf("insert into %s (kind) values ('work')", d.table("job")),
	} {
		if _, err := clerk.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	woken(t, w)
	if got := spy.heard(); got != "default" {
		t.Errorf("got notifications for %q", got)
	}
}

// Case 173: a worker looks this often, and the trigger must know it.
func TestTriggerLooksAsFarAheadAsTheLibrary(t *testing.T) {
	d := connectAt(t, testdb.Postgres(t), postgres.Config{})
	want := fmt.Sprintf("interval '%d seconds'; -- WakeAhead", int(later.WakeAhead.Seconds()))
	if got := d.MigrationSQL(false); !strings.Contains(got, want) {
		t.Errorf("the migrations have no %q", want)
	}
}

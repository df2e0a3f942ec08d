package postgres_test

import (
	"strings"
	"testing"

	"github.com/later-queue/later/postgres"
)

// columnRights describes who has which rights to single columns.
func (d *db) columnRights() string {
	d.t.Helper()
	return strings.Join(ask[[]string](d, `
		select array(
			select c.relname || '.' || a.attname || ': ' || x.privilege_type || ' for ' || x.grantee::regrole::text || ', may grant ' || x.is_grantable::text
			from pg_class c
			join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
			cross join lateral aclexplode(a.attacl) x
			where c.relnamespace = $1::text::regnamespace
			order by 1)`, d.schema), "\n")
}

// Migration 2 makes columns anew. Case 227.
func TestMigrationKeepsColumnRights(t *testing.T) {
	d := open(t, postgres.Config{})
	if err := d.MigrateDown(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	role, _ := d.role()
	defer d.do("drop owned by " + role)
	d.do("grant select (id, attempt, lease_until), insert (kind) on " + d.table("job") + " to " + role)
	d.do("grant update (lease_until) on " + d.table("job") + " to " + role + " with grant option")
	d.do("grant select (claimed_at) on " + d.table("job") + " to public")
	d.do("grant select (worker) on " + d.table("running") + " to " + role)
	want := d.columnRights()
	if strings.Count(want, "\n") != 6 {
		t.Fatalf("got rights %s, want 7 of them", want)
	}
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.columnRights(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A view of somebody's on a column that migration 2 makes anew.
func TestMigrationNamesWhatIsInItsWay(t *testing.T) {
	d := open(t, postgres.Config{})
	if err := d.MigrateDown(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	d.do("create view " + d.table("tried_often") + " as select id, attempt from " + d.table("job") + " where attempt > 3")
	want := d.dump()
	err := d.Migrate(t.Context())
	if err == nil {
		t.Fatal("got no error")
	}
	for _, text := range []string{"version 2 (lease_last)", "tried_often", "old_attempt", "create it again"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %q, want %q in it", err, text)
		}
	}
	if strings.Contains(err.Error(), "CASCADE") {
		t.Errorf("got %q, want no advice to drop more", err)
	}
	if got := d.dump(); got != want {
		t.Errorf("afterwards: got %s\nwant %s", got, want)
	}
	d.do("drop view " + d.table("tried_often"))
	if err := d.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

package postgres_test

import (
	"fmt"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

// A role with the rights that docs/sql.md names for those who only enqueue can do that,
// the look at the schema included, which the command has first.
func TestRoleThatOnlyEnqueues(t *testing.T) {
	d := open(t, postgres.Config{})
	role, url := d.role()
	d.do("alter role " + role + " nosuperuser")
	d.do("grant usage on schema " + d.schema + " to " + role)
	d.do("grant insert, select (id) on " + d.table("job") + " to " + role)
	defer d.do("drop owned by " + role)
	store, err := postgres.Open(t.Context(), url, postgres.Config{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.CheckSchema(t.Context()); err != nil {
		t.Errorf("CheckSchema: %v", err)
	}
	done, err := store.Enqueue(t.Context(), work(`{}`), later.Options{})
	if err != nil || done.ID == 0 {
		t.Errorf("Enqueue: got %v, %v", done, err)
	}
}

// The same for those who enqueue jobs with keys.
func TestRoleThatOnlyEnqueuesWithKeys(t *testing.T) {
	d := open(t, postgres.Config{})
	role, url := d.role()
	d.do("alter role " + role + " nosuperuser")
	d.do("grant usage on schema " + d.schema + " to " + role)
	d.do("grant select, insert, update on " + d.table("job") + ", " + d.table("key_window") + " to " + role)
	d.do("grant select on " + d.table("dead_job") + " to " + role)
	defer d.do("drop owned by " + role)
	store, err := postgres.Open(t.Context(), url, postgres.Config{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, u := range everyUnique {
		for _, want := range []later.EnqueueOutcome{later.Inserted, later.Replaced} {
			u.OnConflict = later.Replace
			done, err := store.Enqueue(t.Context(), work(`{}`), later.Options{Unique: &u, Tenant: fmt.Sprint(u.Until, u.Sliding)})
			if err != nil || done.Outcome != want {
				t.Errorf("%s: got %+v, %v, want it %s", u.Until, done, err, want)
			}
		}
	}
	d.settle(later.OutcomeDead, d.claimJust(4)...)
	for _, u := range everyUnique {
		if _, err := store.Enqueue(t.Context(), work(`{}`), later.Options{Unique: &u, Tenant: fmt.Sprint(u.Until, u.Sliding)}); err != nil {
			t.Errorf("%s, of a dead job: %v", u.Until, err)
		}
	}
}

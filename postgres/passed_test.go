package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

// Cases 70 and 77: who is told that a lease was renewed relies on it.
func TestRenewBesideALock(t *testing.T) {
	d := open(t, postgres.Config{})
	d.enqueue(2)
	jobs := d.claimJust(2)
	locked, free := jobs[0], jobs[1]
	before := d.find(locked.ID).LeaseUntil

	tx, err := d.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from "+d.table("job")+" where id = $1 for update", locked.ID); err != nil {
		t.Fatal(err)
	}
	got, err := d.Renew(t.Context(), []later.Lease{locked.Lease, free.Lease}, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []later.Lease{locked.Lease}; !slices.Equal(got.Passed, want) || len(got.Lost) != 0 {
		t.Errorf("got %+v, want the lease of the locked row passed over and none lost", got)
	}
	if after := d.find(locked.ID).LeaseUntil; !after.Equal(before) {
		t.Errorf("the lease of the locked row ends at %v, want %v as before", after, before)
	}
	if after := d.find(free.ID).LeaseUntil; !after.After(before) {
		t.Errorf("the other lease ends at %v, want later than %v", after, before)
	}
	if got, err := d.Renew(t.Context(), []later.Lease{locked.Lease}, 2*time.Hour); err != nil || len(got.Passed)+len(got.Lost) != 0 {
		t.Errorf("after the lock: got %+v, %v, want it renewed", got, err)
	}
}

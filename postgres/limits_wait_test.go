package postgres

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

// A limit counts what a claim leases that was under way when it was set: also one that has found no
// row yet, and so is no writer.
func TestLimitWaitsForReaders(t *testing.T) {
	s, conn := planStore(t)
	execute(t, s, conn, `insert into {schema}.job (kind) values ('work')`)
	began, slept := make(chan struct{}), make(chan time.Time, 1)
	go func() {
		close(began)
		// A claim's statement that is slow to find a row.
		_, err := conn.Exec(t.Context(), s.sql(`
			with slow as materialized (select pg_sleep(0.7))
			update {schema}.job j set lease_until = now() + interval '1 hour', lease_token = 1, lease_holder = 'w', claimed_at = now()
			from slow where j.kind = 'work'`))
		if err != nil {
			t.Error(err)
		}
		slept <- time.Now()
	}()
	<-began
	deadline := time.Now().Add(10 * time.Second)
	for sleeping := false; !sleeping; pause(t.Context(), time.Millisecond) {
		err := s.pool.QueryRow(t.Context(), `select exists (select from pg_stat_activity where query like '%pg_sleep(0.7)%' and wait_event = 'PgSleep')`).Scan(&sleeping)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the slow statement does not sleep: %v", err)
		}
	}
	scope := later.Scope{Of: later.ScopeKind, Name: "work"}
	if err := s.SetLimit(t.Context(), scope, later.Limit{MaxRunning: new(1)}, "test"); err != nil {
		t.Fatal(err)
	}
	returned := time.Now()
	if slept := <-slept; slept.After(returned) {
		t.Fatalf("SetLimit returned %v before a claim that was under way", slept.Sub(returned))
	}
	standing, err := s.Standing(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	if len(standing.Running) != 1 {
		t.Errorf("got %v counted, want the job that was claimed meanwhile", standing.Running)
	}
}

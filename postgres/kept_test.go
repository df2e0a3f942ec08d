package postgres

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

// A row that somebody has locked keeps its place, and holds up nobody else.
func TestLockedRowKeepsItsPlace(t *testing.T) {
	for _, limit := range []later.Limit{{MaxRunning: new(1)}, {Ordered: true}} {
		s, conn := planStore(t)
		execute(t, s, conn, `
			insert into {schema}.job (kind, tenant)
			values ('work', 'a'), ('work', 'a'), ('work', 'b')`)
		if err := s.SetLimit(t.Context(), later.Scope{Of: later.ScopeTenant, Name: "a"}, limit, "test"); err != nil {
			t.Fatal(err)
		}
		req := claimRequest(1)
		req.Tenants = []string{"a"}
		first, err := s.Claim(t.Context(), req)
		if err != nil || len(first) != 1 {
			t.Fatalf("first claim: got %d jobs, %v", len(first), err)
		}
		execute(t, s, conn, `update {schema}.job set lease_until = now() - interval '1 second' where lease_until is not null`)
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), s.sql(`select from {schema}.job where lease_until is not null for update`)); err != nil {
			t.Fatal(err)
		}
		s.holding.reset() // else it is remembered that the limit is full
		began := time.Now()
		got, err := s.Claim(t.Context(), claimRequest(10))
		if err != nil || len(got) != 1 || got[0].Tenant != "b" {
			t.Errorf("%+v: got %d jobs, %v after %v, want the one of b", limit, len(got), err, time.Since(began))
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.holding.reset()
		if got, err = s.Claim(t.Context(), claimRequest(10)); err != nil || len(got) != 1 || got[0].Tenant != "a" {
			t.Errorf("%+v: got %d jobs, %v when it is free again, want one of a", limit, len(got), err)
		}
	}
}

// What a sweep has looked up of limits and pauses must still hold when it takes a suspect.
func TestSweepByOldGates(t *testing.T) {
	s, conn := planStore(t)
	execute(t, s, conn, `insert into {schema}.job (kind, crashes) values ('work', 2)`)
	req := later.SweepRequest{
		Limit: 1, Suspect: true, Queues: []string{"default"}, Kinds: []string{"work"}, Worker: "w", Token: 1, Lease: time.Minute,
	}
	old, err := s.readGates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetLimit(t.Context(), later.Scope{Of: later.ScopeQueue, Name: "default"}, later.Limit{MaxRunning: new(0)}, "test"); err != nil {
		t.Fatal(err)
	}
	jobs, err := query(t.Context(), s, statement{name: "sweep", sql: sweepJobs, args: s.sweepArgs(old, req)}, s.sweptRow(req))
	if err != nil || len(jobs) != 0 {
		t.Errorf("by old gates: got %d jobs, %v, want none", len(jobs), err)
	}
	if err := s.RemoveLimit(t.Context(), later.Scope{Of: later.ScopeQueue, Name: "default"}); err != nil {
		t.Fatal(err)
	}
	if jobs, err := s.Sweep(t.Context(), req); err != nil || len(jobs) != 1 {
		t.Errorf("by those of now: got %d jobs, %v, want the suspect", len(jobs), err)
	}
}

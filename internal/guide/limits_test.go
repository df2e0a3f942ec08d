package guide

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

// selects are the statements of blocks that read from a table.
func selects(blocks []string, table string) []string {
	var found []string
	for _, block := range blocks {
		for _, s := range statements(block) {
			if strings.Contains(s, "select") && strings.Contains(s, table) {
				found = append(found, s)
			}
		}
	}
	return found
}

func TestLimitsInSQL(t *testing.T) {
	mail := later.Scope{Of: later.ScopeQueue, Name: "mail"}
	limit := later.Limit{MaxRunning: new(3), Rate: later.Rate{N: 100, Period: time.Minute, Burst: 20}}
	request := later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: "mail", Limit: 1}}, Limit: 1, Kinds: []string{"x"}, Worker: "w", Token: later.NewToken(), Lease: time.Minute}
	// start limits a queue and lets a job of it run.
	start := func(t *testing.T, store interface {
		later.Store
		later.Limiter
	}) int64 {
		t.Helper()
		if err := store.SetLimit(t.Context(), mail, limit, "ann"); err != nil {
			t.Fatal(err)
		}
		done, err := later.NewClient(store).Enqueue(t.Context(), later.RawArgs{JobKind: "x", Payload: []byte(`{}`)}, later.Options{Queue: "mail"})
		if err != nil {
			t.Fatal(err)
		}
		if jobs, err := store.Claim(t.Context(), request); err != nil || len(jobs) != 1 {
			t.Fatalf("Claim: got %d jobs, %v, want one", len(jobs), err)
		}
		return done.ID
	}
	// kept fails when the limit has changed.
	kept := func(t *testing.T, store later.Limiter) {
		t.Helper()
		list, err := store.Limits(t.Context())
		if err != nil || len(list) != 1 || list[0].Scope != mail || *list[0].Limit.MaxRunning != 3 || list[0].Limit.Rate != limit.Rate {
			t.Errorf("got %+v, %v, want the limit as it was", list, err)
		}
	}

	t.Run("on Postgres the page tells who was let in, and a pause keeps the limit", func(t *testing.T) {
		p := newPlace(t)
		id := start(t, p.store)
		page := selects(blocks(t, "sql", "Limits"), "later.gate_state")
		if len(page) != 1 {
			t.Fatalf("got %d statements, want one", len(page))
		}
		var scope, name, holder string
		var got int64
		var claimedAt, tat time.Time
		if err := p.db.QueryRowContext(t.Context(), p.inSchema(page[0])).Scan(&scope, &name, &got, &holder, &claimedAt, &tat); err != nil {
			t.Fatal(err)
		}
		if got != id || scope != "queue" || name != "mail" || holder != "w" {
			t.Errorf("got %s %s, job %d on %s, want job %d", scope, name, got, holder, id)
		}
		for _, block := range blocks(t, "sql", "Pause") {
			p.exec(t, block)
		}
		kept(t, p.store)
		if list, err := p.store.Pauses(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("Pauses: got %v, %v, want none", list, err)
		}
	})

	t.Run("on SQLite the page tells who was let in, and a pause keeps the limit", func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "later.db"), sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		id := start(t, store)
		page := selects(blocks(t, "sqlite", "SQLite"), "later_gate_state")
		if len(page) != 1 {
			t.Fatalf("got %d statements, want one", len(page))
		}
		var scope, name, holder string
		var got int64
		if err := store.DB().QueryRowContext(t.Context(), page[0]).Scan(&scope, &name, &got, &holder); err != nil {
			t.Fatal(err)
		}
		if got != id || scope != "queue" || name != "mail" || holder != "w" {
			t.Errorf("got %s %s, job %d on %s, want job %d", scope, name, got, holder, id)
		}
		for _, block := range blocks(t, "sqlite", "SQLite") {
			for _, s := range slices.DeleteFunc(statements(block), func(s string) bool { return !strings.Contains(s, "paused_at =") }) {
				if _, err := store.DB().ExecContext(t.Context(), s); err != nil {
					t.Fatalf("%v in\n%s", err, s)
				}
			}
		}
		kept(t, store)
		if list, err := store.Pauses(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("Pauses: got %v, %v, want none", list, err)
		}
	})
}

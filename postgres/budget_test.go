package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/pgserver"
	"github.com/later-queue/later/postgres"
)

// What a job writes in its life: bytes of WAL, and index entries. The server is the
// test's own, so that nobody else's are counted.
func TestWhatAJobWrites(t *testing.T) {
	server, err := pgserver.Start(t.Context(), pgserver.Config{Settings: map[string]string{
		"autovacuum": "off", "full_page_writes": "off", // they come when they come, and not per job
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })

	const jobs = 10_000
	for _, test := range []struct {
		name   string
		config postgres.Config
		most   float64 // bytes of WAL per job
	}{
		// The budgets of a job from its enqueue to its end. Names come on top of that:
		// these have "default", "work", and a worker of 2 bytes. The worker's is
		// written once, and once more with a log.
		{"without the log", postgres.Config{NoLog: true, Schema: "without"}, 650},
		{"with the log", postgres.Config{Schema: "with"}, 900},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := postgres.Open(t.Context(), server.URL(), test.config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			requests := make([]later.Request, jobs)
			for i := range requests {
				payload := fmt.Sprintf(`{"order_id": %d, "text": "%076d"}`, 10_000_000+i, i)
				if len(payload) != 110 { // as in the measurements of docs/decisions
					t.Fatalf("the payload has %d bytes", len(payload))
				}
				requests[i].Args = work(payload)
			}

			// Growing a table and its indexes writes whole pages now and then.
			if _, err := s.EnqueueMany(t.Context(), requests); err != nil {
				t.Fatal(err)
			}
			drainBy(t, s, 1000)
			start := walPosition(t, conn)
			if _, err := s.EnqueueMany(t.Context(), requests); err != nil {
				t.Fatal(err)
			}
			enqueued := walPosition(t, conn)
			drainBy(t, s, 1000)
			end := walPosition(t, conn)

			t.Logf("%.0f bytes to enqueue, %.0f to claim and settle", (enqueued-start)/jobs, (end-enqueued)/jobs)
			if got := (end - start) / jobs; got > test.most {
				t.Errorf("got %.0f bytes of WAL per job, want at most %.0f", got, test.most)
			}
		})
	}

	t.Run("two index entries", func(t *testing.T) {
		// One record for the row, one for each index entry; a page that splits has
		// some more.
		var text string
		var records int
		rows, err := conn.Query(t.Context(), `explain (analyze, wal, costs off, summary off, timing off)
			insert into without.job (kind) select 'work' from generate_series(1, 10000)`)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscanf(text, "  WAL: records=%d", &records); err == nil && records > 0 {
				break
			}
		}
		rows.Close()
		if perJob := float64(records) / 10_000; perJob < 3 || perJob > 3.2 {
			t.Errorf("got %.2f records per job, want 3 and a little", perJob)
		}
	})
}

// drainBy claims and settles all jobs, so many at a time.
func drainBy(t *testing.T, s *postgres.Store, batch int) {
	t.Helper()
	for {
		claimed, err := s.Claim(t.Context(), later.ClaimRequest{
			Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: batch}}, Limit: batch, Kinds: []string{"work"},
			Worker: "w1", Token: later.NewToken(), Lease: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed) == 0 {
			return
		}
		ends := make([]later.Settlement, len(claimed))
		for i, c := range claimed {
			ends[i] = later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDone}
		}
		if refused, err := s.Settle(t.Context(), ends); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
}

func walPosition(t *testing.T, conn *pgx.Conn) (bytes float64) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), `select (pg_current_wal_insert_lsn() - '0/0')::float8`).Scan(&bytes); err != nil {
		t.Fatal(err)
	}
	return bytes
}

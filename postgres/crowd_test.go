package postgres_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// Case 145: more workers start at once than the server has connections for. Those
// that are turned away try again, and no job fails by it.
func TestMoreWorkersThanConnections(t *testing.T) {
	server := testdb.Own(t, map[string]string{"max_connections": "10"})
	d := openAt(t, server.URL(), postgres.Config{})
	const jobs, workers = 300, 20
	d.enqueue(jobs)

	var settled, turnedAway atomic.Int64
	var crowd sync.WaitGroup
	for range workers {
		crowd.Go(func() {
			// turned records a refusal, and gives the others a moment.
			turned := func(err error) {
				var refusal *pgconn.PgError
				if errors.As(err, &refusal) && refusal.Code == "53300" { // too_many_connections
					turnedAway.Add(1)
				}
				timer := time.NewTimer(5 * time.Millisecond)
				defer timer.Stop()
				<-timer.C
			}
			store, err := postgres.Open(t.Context(), server.URL(), postgres.Config{Schema: d.schema})
			for later.IsTransient(err) && settled.Load() < jobs {
				turned(err)
				store, err = postgres.Open(t.Context(), server.URL(), postgres.Config{Schema: d.schema})
			}
			if err != nil {
				if !later.IsTransient(err) {
					t.Error(err)
				}
				return
			}
			defer store.Close()
			work := func() error {
				claimed, err := store.Claim(t.Context(), claimOf(5))
				if err != nil || len(claimed) == 0 {
					return err
				}
				for {
					refused, err := store.Settle(t.Context(), settlements(later.OutcomeDone, claimed...))
					if later.IsTransient(err) {
						turned(err)
						continue
					}
					settled.Add(int64(len(claimed) - len(refused)))
					return err
				}
			}
			for settled.Load() < jobs {
				err := work()
				if err != nil && !later.IsTransient(err) {
					t.Errorf("got %v, want an error that says to try again", err)
					return
				}
				if err != nil {
					turned(err)
				}
			}
		})
	}
	crowd.Wait()
	if got := settled.Load(); got != jobs {
		t.Errorf("got %d jobs settled, want %d", got, jobs)
	}
	if turnedAway.Load() == 0 {
		t.Error("nobody was turned away: the test shows nothing")
	}
	if got := ask[int](d, "select count(*) from "+d.table("job_log")+" where outcome = 'done'"); got != jobs {
		t.Errorf("got %d done in the log, want %d", got, jobs)
	}
}

package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/demo/mailapi"
)

// newTestShop is a shop on a file of its own, with a mail service that answers
// well and counts the calls by their keys.
func newTestShop(t *testing.T) (*shop, map[string]int) {
	t.Helper()
	s, err := openShop(t.Context(), place{DB: "sqlite:" + filepath.Join(t.TempDir(), "shop.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls[r.Header.Get("Idempotency-Key")]++ // the tests call one after the other
		fmt.Fprint(w, `{"id":"mail-1"}`)
	}))
	t.Cleanup(service.Close)
	s.name, s.mail = "test", mailapi.NewClient(service.URL, "test")
	return s, calls
}

// claim leases the one job that there is.
func claim(t *testing.T, s *shop, lease time.Duration) *later.Job[OrderConfirmation] {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		jobs, err := s.store.Claim(t.Context(), later.ClaimRequest{
			Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: 1}}, Limit: 1,
			Kinds: []string{OrderConfirmation{}.Kind()}, Worker: "test", Token: later.NewToken(), Lease: lease,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 1 {
			var job *later.Job[OrderConfirmation]
			handlers := later.NewHandlers()
			later.Handle(handlers, func(_ context.Context, j *later.Job[OrderConfirmation]) error { job = j; return nil })
			if err := handlers.Lookup(jobs[0].Kind).Run(t.Context(), jobs[0]); err != nil {
				t.Fatal(err)
			}
			return job
		}
	}
	t.Fatal("got no job to claim within 10s")
	return nil
}

func books(t *testing.T, s *shop) (orders, confirmations, jobs int) {
	t.Helper()
	ids, err1 := s.orders(t.Context())
	counts, err2 := s.confirmations(t.Context())
	jobs, err3 := s.jobsLeft(t.Context())
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, n := range counts {
		confirmations += n
	}
	return len(ids), confirmations, jobs
}

func wantBooks(t *testing.T, s *shop, orders, confirmations, jobs int) {
	t.Helper()
	gotOrders, gotConfirmations, gotJobs := books(t, s)
	if gotOrders != orders || gotConfirmations != confirmations || gotJobs != jobs {
		t.Errorf("got %d orders, %d confirmations, %d jobs; want %d, %d, %d", gotOrders, gotConfirmations, gotJobs, orders, confirmations, jobs)
	}
}

// Case 206: the job comes and goes with the order.
func TestTakeOrder(t *testing.T) {
	t.Run("stores the order and its job", func(t *testing.T) {
		s, _ := newTestShop(t)
		if err := s.takeOrder(t.Context(), order{id: 1, email: "ada@example.com"}); err != nil {
			t.Fatal(err)
		}
		wantBooks(t, s, 1, 0, 1)
	})
	t.Run("stores neither when the card is declined", func(t *testing.T) {
		s, _ := newTestShop(t)
		if err := s.takeOrder(t.Context(), order{id: 1, declined: true}); !errors.Is(err, errDeclined) {
			t.Fatalf("got %v, want %v", err, errDeclined)
		}
		wantBooks(t, s, 0, 0, 0)
	})
}

func TestConfirm(t *testing.T) {
	taken := func(t *testing.T) (*shop, map[string]int) {
		s, calls := newTestShop(t)
		if err := s.takeOrder(t.Context(), order{id: 7, email: "ada@example.com", cents: 1250}); err != nil {
			t.Fatal(err)
		}
		return s, calls
	}
	t.Run("ends the job together with its effect", func(t *testing.T) {
		s, _ := taken(t)
		if err := s.confirm(t.Context(), claim(t, s, time.Minute)); err != nil {
			t.Fatal(err)
		}
		wantBooks(t, s, 1, 1, 0)
	})
	t.Run("has no second effect when the job is run again", func(t *testing.T) {
		s, calls := taken(t)
		job := claim(t, s, time.Minute)
		if err := s.confirm(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if err := s.confirm(t.Context(), job); !errors.Is(err, later.ErrLeaseLost) {
			t.Errorf("got %v, want %v", err, later.ErrLeaseLost)
		}
		wantBooks(t, s, 1, 1, 0)
		if len(calls) != 1 {
			t.Errorf("got calls with the keys %v, want one key", calls)
		}
	})
	t.Run("has no effect when another worker has the job", func(t *testing.T) {
		s, calls := taken(t)
		late := claim(t, s, time.Millisecond)
		next := claim(t, s, time.Minute)
		if err := s.confirm(t.Context(), late); !errors.Is(err, later.ErrLeaseLost) {
			t.Errorf("got %v, want %v", err, later.ErrLeaseLost)
		}
		wantBooks(t, s, 1, 0, 1)
		if err := s.confirm(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		wantBooks(t, s, 1, 1, 0)
		if len(calls) != 1 {
			t.Errorf("got calls with the keys %v, want the same key from both workers", calls)
		}
	})
	t.Run("gives up on an order that does not exist", func(t *testing.T) {
		s, calls := taken(t)
		job := claim(t, s, time.Minute)
		job.Payload.OrderID = 404
		if err := s.confirm(t.Context(), job); !later.IsPermanent(err) || errors.Is(err, sql.ErrNoRows) {
			t.Errorf("got %v, want a permanent error that says it in words", err)
		}
		if len(calls) != 0 {
			t.Errorf("got %v, want no mail", calls)
		}
	})
}

func TestOutcome(t *testing.T) {
	t.Run("waits as long as the service asks", func(t *testing.T) {
		err := outcome(fmt.Errorf("send: %w", &mailapi.Refusal{Status: 429, RetryAfter: 3 * time.Second}))
		if d, ok := later.IsRetryAfter(err); !ok || d != 3*time.Second {
			t.Errorf("got %v %v, want 3s", d, ok)
		}
	})
	t.Run("gives up on what the service never accepts", func(t *testing.T) {
		if err := outcome(&mailapi.Refusal{Status: 422}); !later.IsPermanent(err) {
			t.Errorf("got %v, want a permanent error", err)
		}
	})
	for name, err := range map[string]error{
		"a 500":                     &mailapi.Refusal{Status: 500},
		"a 429 without a time":      &mailapi.Refusal{Status: 429},
		"a connection that is gone": errors.New("connection reset"),
	} {
		t.Run("tries again after "+name, func(t *testing.T) {
			if got := outcome(err); got != err {
				t.Errorf("got %v, want %v as it is", got, err)
			}
		})
	}
}

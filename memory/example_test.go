package memory_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
	"github.com/later-queue/later/worker"
)

// Reminder is what a user's program has.
type Reminder struct {
	Email string `json:"email"`
}

func (Reminder) Kind() string { return "reminder" }

// handlersOf registers the program's handlers; send stands for its mailer.
func handlersOf(send func(email string) error) *later.Handlers {
	handlers := later.NewHandlers()
	later.Handle(handlers, func(_ context.Context, job *later.Job[Reminder]) error {
		return send(job.Payload.Email)
	})
	return handlers
}

// A handler is tested with the real worker: Drain runs all that is due.
func Example() {
	store := memory.New()
	handlers := handlersOf(func(email string) error {
		fmt.Println("sent to", email)
		return nil
	})
	ctx := context.Background()
	w, err := worker.New(store, handlers, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := store.Enqueue(ctx, Reminder{Email: "ann@example.com"}, later.Options{}); err != nil {
		fmt.Println(err)
		return
	}
	summary, err := w.Drain(ctx)
	fmt.Println(summary.Outcomes[later.OutcomeDone], "done, error:", err)
	// Output:
	// sent to ann@example.com
	// 1 done, error: <nil>
}

// In a bubble of testing/synctest a day takes no time.
func TestReminderIsRetriedAndComesTomorrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []time.Time
		store := memory.New()
		w, err := worker.New(store, handlersOf(func(string) error {
			sent = append(sent, time.Now())
			if len(sent) == 1 {
				return fmt.Errorf("the mail server is down")
			}
			return nil
		}), worker.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		job, err := store.Enqueue(t.Context(), Reminder{Email: "ann@example.com"}, later.Options{Delay: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		drain := func() {
			t.Helper()
			if _, err := w.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}

		drain() // nothing is due
		time.Sleep(24 * time.Hour)
		drain() // the first attempt fails
		time.Sleep(time.Minute)
		drain() // the second one does not

		if got, want := len(sent), 2; got != want {
			t.Fatalf("got %d attempts, want %d", got, want)
		}
		if got, want := sent[0].Sub(start), 24*time.Hour; got < want {
			t.Errorf("the first attempt came after %v, want %v", got, want)
		}
		info, err := store.Find(t.Context(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := info.State, later.StateEnded; got != want {
			t.Errorf("got state %q, want %q", got, want)
		}
	})
}

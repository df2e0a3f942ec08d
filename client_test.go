package later_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// shelf is an Inserter that keeps what it is given.
type shelf struct {
	calls [][]later.NewJob
	err   error
	mute  bool // answers with no ids
}

func (s *shelf) Insert(_ context.Context, jobs []later.NewJob) ([]later.Enqueued, error) {
	s.calls = append(s.calls, jobs)
	if s.err != nil || s.mute {
		return nil, s.err
	}
	done := make([]later.Enqueued, len(jobs))
	for i := range done {
		done[i].ID = int64(100*len(s.calls) + i)
	}
	return done, nil
}

// Case 208: a client needs no handlers and no worker.
func TestClientEnqueue(t *testing.T) {
	store := &shelf{}
	client := later.NewClient(store)
	opts := later.Options{Queue: "bulk", Priority: 3, Tenant: "acme", MaxAttempts: 2}
	got, err := client.Enqueue(t.Context(), mail{To: "a"}, opts)
	if err != nil || got.ID != 100 {
		t.Fatalf("got %+v, %v, want id 100", got, err)
	}
	// Case 209: one or many, the same job arrives.
	want, err := later.Build(mail{To: "a"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.EnqueueMany(t.Context(), []later.Request{{Args: mail{To: "a"}, Options: opts}}); err != nil {
		t.Fatal(err)
	}
	for i, call := range store.calls {
		if !reflect.DeepEqual(call, []later.NewJob{want}) {
			t.Errorf("call %d got %+v, want %+v", i, call, want)
		}
	}
}

func TestClientEnqueueMany(t *testing.T) {
	t.Run("stores all in one call, in order, and returns their ids", func(t *testing.T) {
		store := &shelf{}
		got, err := later.NewClient(store).EnqueueMany(t.Context(), []later.Request{{Args: mail{To: "a"}}, {Args: order{ID: 1}}, {Args: mail{To: "c"}}})
		if err != nil {
			t.Fatal(err)
		}
		if want := []later.Enqueued{{ID: 100}, {ID: 101}, {ID: 102}}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if len(store.calls) != 1 || store.calls[0][0].Kind != "mail.send" || store.calls[0][1].Kind != "order.confirm" {
			t.Errorf("got the calls %+v, want one in the order given", store.calls)
		}
	})
	t.Run("stores none when one is wrong, and says which", func(t *testing.T) {
		store := &shelf{}
		_, err := later.NewClient(store).EnqueueMany(t.Context(), []later.Request{{Args: mail{}}, {Args: mail{}, Options: later.Options{Queue: "a b"}}, {Args: mail{}}})
		if !errors.Is(err, later.ErrInvalid) || !strings.Contains(err.Error(), "job 2 of 3: queue") {
			t.Errorf("got %v, want it to name job 2 of 3 and its queue", err)
		}
		if len(store.calls) != 0 {
			t.Errorf("got %d calls of the store, want none", len(store.calls))
		}
	})
	// Case 221: nothing, and nil, and an answer that is too short.
	t.Run("without requests does nothing", func(t *testing.T) {
		store := &shelf{}
		for _, requests := range [][]later.Request{nil, {}} {
			if got, err := later.NewClient(store).EnqueueMany(t.Context(), requests); len(got) != 0 || err != nil {
				t.Errorf("got %v, %v, want nothing", got, err)
			}
		}
		if len(store.calls) != 0 {
			t.Errorf("got %d calls of the store, want none", len(store.calls))
		}
	})
	t.Run("nil args are an error, not a panic", func(t *testing.T) {
		store := &shelf{}
		for _, args := range []later.Args{nil, (*mail)(nil)} {
			if _, err := later.NewClient(store).Enqueue(t.Context(), args, later.Options{}); !errors.Is(err, later.ErrInvalid) {
				t.Errorf("%T: got %v, want a FieldError", args, err)
			}
		}
	})
	t.Run("a store that answers with too few ids is an error, not a panic", func(t *testing.T) {
		if _, err := later.NewClient(&shelf{mute: true}).Enqueue(t.Context(), mail{}, later.Options{}); err == nil {
			t.Error("got nil, want an error")
		}
	})
	t.Run("keeps the store's error in the chain", func(t *testing.T) {
		_, err := later.NewClient(&shelf{err: later.ErrUnavailable}).Enqueue(t.Context(), mail{}, later.Options{})
		if !errors.Is(err, later.ErrUnavailable) || !strings.HasPrefix(err.Error(), "enqueue: ") {
			t.Errorf("got %v, want ErrUnavailable after enqueue:", err)
		}
	})
}

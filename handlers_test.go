package later_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

type order struct {
	ID   int64  `json:"id"`
	Note string `json:"note"`
}

func (order) Kind() string { return "order.confirm" }

// counts is a payload that is no struct.
type counts map[string]int

func (counts) Kind() string { return "counts" }

type pointerArgs struct{}

func (*pointerArgs) Kind() string { return "pointer" }

type emptyKind struct{}

func (emptyKind) Kind() string { return "" }

func claimed(payload string) *later.Claimed {
	return &later.Claimed{Record: later.Record{ID: 42, Payload: json.RawMessage(payload)}}
}

func TestHandle(t *testing.T) {
	handlers := later.NewHandlers()
	var got order
	var answer error
	later.Handle(handlers, func(_ context.Context, job *later.Job[order]) error {
		got = job.Payload
		if job.ID != 42 {
			t.Errorf("got job %d, want 42", job.ID)
		}
		return answer
	})
	handler := handlers.Lookup("order.confirm")
	if handler == nil {
		t.Fatal("got no handler for order.confirm")
	}

	t.Run("decodes the payload, all digits kept", func(t *testing.T) {
		// Case 5.
		if err := handler.Run(t.Context(), claimed(`{"id":9223372036854775807,"note":"é"}`)); err != nil {
			t.Fatal(err)
		}
		if want := (order{9223372036854775807, "é"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("a pair of surrogates is one character", func(t *testing.T) {
		// Case 4.
		if err := handler.Run(t.Context(), claimed(`{"note":"\ud83d\ude00"}`)); err != nil || got.Note != "😀" {
			t.Errorf("got %q, %v, want 😀", got.Note, err)
		}
	})
	t.Run("tolerates missing and added fields", func(t *testing.T) {
		if err := handler.Run(t.Context(), claimed(`{"note":"x","new":[1]}`)); err != nil || got != (order{Note: "x"}) {
			t.Errorf("got %+v, %v, want the one field", got, err)
		}
	})
	t.Run("returns the handler's answer", func(t *testing.T) {
		answer = errCard
		defer func() { answer = nil }()
		if err := handler.Run(t.Context(), claimed(`{}`)); err != errCard {
			t.Errorf("got %v, want %v", err, errCard)
		}
	})
	t.Run("a payload that does not decode is ErrPayload, and the handler is not called", func(t *testing.T) {
		for _, payload := range []string{`{"a":`, `{"id":"x"}`, `{"id":1.5}`, `[]`, ``} {
			got = order{Note: "not called"}
			if err := handler.Run(t.Context(), claimed(payload)); !errors.Is(err, later.ErrPayload) {
				t.Errorf("%s: got %v, want ErrPayload", payload, err)
			}
			if got.Note != "not called" {
				t.Errorf("%s: the handler was called", payload)
			}
		}
	})
}

func TestHandleRaw(t *testing.T) {
	handlers := later.NewHandlers()
	var got string
	later.HandleRaw(handlers, "anything", later.HandlerConfig{}, func(_ context.Context, job *later.Job[json.RawMessage]) error {
		got = string(job.Payload)
		return nil
	})
	// Cases 5 and 8: the bytes, not what a decoder makes of them.
	want := `{"id":9223372036854775808, "c":1.10,"c":2}`
	if err := handlers.Lookup("anything").Run(t.Context(), claimed(want)); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestHandlers(t *testing.T) {
	t.Run("list their kinds, sorted", func(t *testing.T) {
		handlers := later.NewHandlers()
		for _, kind := range []string{"c", "a", "b"} {
			later.HandleRaw(handlers, kind, later.HandlerConfig{}, ignore)
		}
		if got, want := handlers.Kinds(), []string{"a", "b", "c"}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("know nothing of other kinds", func(t *testing.T) {
		if got := later.NewHandlers().Lookup("nobody"); got != nil {
			t.Errorf("got %v, want nil", got)
		}
	})
	t.Run("keep a kind's settings", func(t *testing.T) {
		handlers := later.NewHandlers()
		want := later.HandlerConfig{Backoff: later.Backoff{Base: time.Second}}
		later.HandleWith(handlers, want, func(context.Context, *later.Job[counts]) error { return nil })
		if got := handlers.Lookup("counts").Config(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func ignore(context.Context, *later.Job[json.RawMessage]) error { return nil }

func TestHandlePanics(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		register  func(*later.Handlers)
		words     string
	}{
		{"on a kind that has a handler already", func(h *later.Handlers) {
			later.HandleRaw(h, "a", later.HandlerConfig{}, ignore)
			later.HandleRaw(h, "a", later.HandlerConfig{}, ignore)
		}, "a has a handler already"},
		{"on a kind that is no name", func(h *later.Handlers) { later.HandleRaw(h, "a b", later.HandlerConfig{}, ignore) }, "kind"},
		{"on a type whose kind is empty", func(h *later.Handlers) {
			later.Handle(h, func(context.Context, *later.Job[emptyKind]) error { return nil })
		}, "kind is empty"},
		{"on a pointer", func(h *later.Handlers) {
			later.Handle(h, func(context.Context, *later.Job[*pointerArgs]) error { return nil })
		}, "*later_test.pointerArgs is a pointer"},
		{"on an interface", func(h *later.Handlers) {
			later.Handle(h, func(context.Context, *later.Job[later.Args]) error { return nil })
		}, "later.Args is an interface"},
		{"on settings out of range", func(h *later.Handlers) {
			later.HandleRaw(h, "a", later.HandlerConfig{Backoff: later.Backoff{Base: -1}}, ignore)
		}, "backoff"},
		// Case 221.
		{"on no function", func(h *later.Handlers) { later.HandleRaw(h, "a", later.HandlerConfig{}, nil) }, "a: the function is nil"},
		{"on no typed function", func(h *later.Handlers) { later.Handle[order](h, nil) }, "order.confirm: the function is nil"},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "later: Handle") || !strings.Contains(got, c.words) {
					t.Errorf("got the panic %q, want one with %q", got, c.words)
				}
			}()
			c.register(later.NewHandlers())
		})
	}
}

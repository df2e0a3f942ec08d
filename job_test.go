package later_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// notebook is a store of which only Checkpoint is there.
type notebook struct {
	later.Store
	lease later.Lease
	data  string
	err   error
}

func (n *notebook) Checkpoint(_ context.Context, lease later.Lease, data json.RawMessage) error {
	n.lease, n.data = lease, string(data)
	return n.err
}

func TestSaveCheckpoint(t *testing.T) {
	held := func(n *notebook) *later.Claimed {
		c := &later.Claimed{Lease: later.Lease{ID: 42, Token: 7}}
		c.Bind(n)
		return c
	}
	t.Run("stores JSON under the job's lease", func(t *testing.T) {
		n := &notebook{}
		if err := held(n).SaveCheckpoint(t.Context(), map[string]int{"page": 3}); err != nil {
			t.Fatal(err)
		}
		if n.data != `{"page":3}` || n.lease != (later.Lease{ID: 42, Token: 7}) {
			t.Errorf("got %s under %+v", n.data, n.lease)
		}
	})
	t.Run("reports a lost lease", func(t *testing.T) {
		if err := held(&notebook{err: later.ErrLeaseLost}).SaveCheckpoint(t.Context(), 1); !errors.Is(err, later.ErrLeaseLost) {
			t.Errorf("got %v, want ErrLeaseLost", err)
		}
	})
	t.Run("of a job that nobody runs has no lease", func(t *testing.T) {
		if err := new(later.Claimed).SaveCheckpoint(t.Context(), 1); !errors.Is(err, later.ErrLeaseLost) {
			t.Errorf("got %v, want ErrLeaseLost", err)
		}
	})
	// Cases 1 and 13, for what a handler saves.
	t.Run("refuses what cannot be stored, before the store sees it", func(t *testing.T) {
		for _, v := range []any{"a\x00b", json.RawMessage(`"\ud800"`), math.NaN(), make(chan int), strings.Repeat("x", later.MaxCheckpointBytes)} {
			n := &notebook{}
			if err := held(n).SaveCheckpoint(t.Context(), v); err == nil {
				t.Errorf("%T: got nil, want an error", v)
			}
			if n.data != "" {
				t.Errorf("%T: the store got %.20s", v, n.data)
			}
		}
	})
	t.Run("names the field and the place", func(t *testing.T) {
		err := held(&notebook{}).SaveCheckpoint(t.Context(), []string{"a\x00b"})
		var field *later.FieldError
		if !errors.As(err, &field) || field.Field != "checkpoint" || field.Path != "$[0]" {
			t.Errorf("got %v, want a FieldError for checkpoint at $[0]", err)
		}
	})
}

func TestMarkSettled(t *testing.T) {
	c := &later.Claimed{}
	c.MarkSettled()
	if c.SettledInTx() {
		t.Error("a job that nobody runs was settled")
	}
	c.Bind(&notebook{})
	if c.SettledInTx() {
		t.Error("got settled before DoneTx")
	}
	c.MarkSettled()
	if !c.SettledInTx() || c.SettledMarks() != 1 {
		t.Error("got not settled after DoneTx")
	}
	asked := c.SettledMarks()
	c.MarkSettled() // the first one was rolled back, this is the second
	c.ClearSettled(asked)
	if !c.SettledInTx() {
		t.Error("got the second DoneTx cleared with the first")
	}
	c.ClearSettled(c.SettledMarks())
	c.ClearSettled(asked) // an answer that came late
	if c.SettledInTx() || c.SettledMarks() != 2 {
		t.Errorf("got settled %t after %d calls, want both cleared", c.SettledInTx(), c.SettledMarks())
	}
}

func TestNewToken(t *testing.T) {
	seen := map[int64]bool{}
	for range 10_000 {
		token := later.NewToken()
		if token <= 0 {
			t.Fatalf("got %d, want a positive number", token)
		}
		seen[token] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("got %d distinct tokens of 10,000", len(seen))
	}
}

func TestIdempotencyKey(t *testing.T) {
	// Case 100: equal across attempts, different between jobs, also of two
	// databases that have counted their ids alike.
	at := time.Date(2026, 11, 30, 12, 0, 0, 1000, time.UTC)
	first := later.Record{ID: 42, CreatedAt: at, Attempt: 1}
	second := later.Record{ID: 42, CreatedAt: at.In(time.FixedZone("east", 3600)), Attempt: 2, Crashes: 1}
	if first.IdempotencyKey() != second.IdempotencyKey() {
		t.Error("two attempts of one job differ")
	}
	for _, other := range []later.Record{
		{ID: 43, CreatedAt: at}, {ID: 42, CreatedAt: at, Generation: 1}, {ID: 42, CreatedAt: at.Add(time.Microsecond)},
	} {
		if first.IdempotencyKey() == other.IdempotencyKey() {
			t.Errorf("%+v has the same key as %+v", other, first)
		}
	}
}

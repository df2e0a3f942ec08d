package later_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/later-queue/later"
)

var errCard = errors.New("card declined")

func TestPermanent(t *testing.T) {
	err := fmt.Errorf("charge: %w", later.Permanent(errCard))
	if !later.IsPermanent(err) {
		t.Error("got false through a wrapper, want true")
	}
	if !errors.Is(err, errCard) {
		t.Error("the cause is not in the chain")
	}
	if got, want := err.Error(), "charge: card declined"; got != want {
		t.Errorf("got %q, want %q: the mark adds no words", got, want)
	}
	if later.IsPermanent(errCard) || later.IsPermanent(nil) {
		t.Error("got true for an ordinary error or nil, want false")
	}
	// Case 221.
	t.Run("of nil is a failure all the same", func(t *testing.T) {
		err := later.Permanent(nil)
		if !later.IsPermanent(err) || err.Error() == "" {
			t.Errorf("got %v, want a permanent failure with a text", err)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	err := fmt.Errorf("charge: %w", later.RetryAfter(errCard, time.Minute))
	if got, ok := later.IsRetryAfter(err); !ok || got != time.Minute {
		t.Errorf("got %v, %v, want 1m", got, ok)
	}
	if !errors.Is(err, errCard) || err.Error() != "charge: card declined" {
		t.Errorf("got %q, want the cause in the chain and no more words", err)
	}
	t.Run("a negative delay is none", func(t *testing.T) {
		if got, ok := later.IsRetryAfter(later.RetryAfter(errCard, -time.Minute)); !ok || got != 0 {
			t.Errorf("got %v, %v, want 0", got, ok)
		}
	})
	// Case 221.
	t.Run("of nil is a failure all the same", func(t *testing.T) {
		if err := later.RetryAfter(nil, 0); err.Error() == "" {
			t.Error("got no text, want one")
		}
	})
	t.Run("other errors are not", func(t *testing.T) {
		for _, err := range []error{nil, errCard, later.Snooze(1), later.Permanent(errCard)} {
			if _, ok := later.IsRetryAfter(err); ok {
				t.Errorf("%v: got true, want false", err)
			}
		}
	})
}

func TestSnooze(t *testing.T) {
	if got, ok := later.IsSnooze(fmt.Errorf("wait: %w", later.Snooze(time.Hour))); !ok || got != time.Hour {
		t.Errorf("got %v, %v, want 1h", got, ok)
	}
	if got, ok := later.IsSnooze(later.Snooze(-1)); !ok || got != 0 {
		t.Errorf("a negative one: got %v, %v, want 0", got, ok)
	}
	for _, err := range []error{nil, errCard, later.RetryAfter(errCard, 1)} {
		if _, ok := later.IsSnooze(err); ok {
			t.Errorf("%v: got true, want false", err)
		}
	}
}

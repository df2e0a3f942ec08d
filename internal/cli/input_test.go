package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestUntil(t *testing.T) {
	t.Run("passes everything on", func(t *testing.T) {
		want := strings.Repeat("abcdefghij", 20_000)
		if err := iotest.TestReader(until(t.Context(), iotest.HalfReader(strings.NewReader(want))), []byte(want)); err != nil {
			t.Error(err)
		}
	})
	t.Run("ends with its context, also within a read", func(t *testing.T) {
		stuck, end := io.Pipe()
		defer end.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		go cancel(cause)
		if _, err := io.ReadAll(until(ctx, stuck)); !errors.Is(err, cause) {
			t.Errorf("got %v, want the context's cause", err)
		}
	})
}

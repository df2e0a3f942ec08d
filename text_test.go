package later_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// Case 2: error texts that a database refuses.
func TestCleanText(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		text      string
		limit     int
		want      string
	}{
		{"keeps clean text", "card declined: 4111 é€😀", 100, "card declined: 4111 é€😀"},
		{"shows a NUL", "boom\x00tail", 100, "boom␀tail"},
		{"replaces bytes that are no UTF-8", "caf\xe9", 100, "caf\uFFFD"},
		{"replaces half a rune", "é€"[:4], 100, "é\uFFFD"},
		{"replaces an encoded surrogate", "a\xed\xa0\x80b", 100, "a\uFFFDb"},
		{"keeps line breaks and control characters", "a\n\tb\x1b[0m", 100, "a\n\tb\x1b[0m"},
		{"cuts long text with a sign", "abcdefgh", 6, "abc…"},
		{"keeps text of exactly the limit", "abcdef", 6, "abcdef"},
		{"cuts on a rune's boundary", "ééé", 5, "é…"},
		{"cuts between runes of four bytes", "😀😀", 7, "😀…"},
		{"cuts what grows past the limit by being cleaned", "\x00\x00\x00", 8, "␀…"},
		{"leaves the sign alone at the least limit", "abcd", 3, "…"},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			if got := later.CleanText(c.text, c.limit); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("bounds a text of 5 MB", func(t *testing.T) {
		got := later.CleanText(strings.Repeat("x\x00\xff", 5<<20/3), later.MaxErrorBytes)
		if len(got) > later.MaxErrorBytes || len(got) < later.MaxErrorBytes/2 || !strings.HasSuffix(got, "…") {
			t.Errorf("got %d bytes, want about %d that end in …", len(got), later.MaxErrorBytes)
		}
	})
}

// checkCleaned holds whatever the text: it can be stored everywhere, is bounded, and
// is untouched when it was good.
func checkCleaned(t interface{ Errorf(string, ...any) }, text string, limit int) {
	got := later.CleanText(text, limit)
	if !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
		t.Errorf("CleanText(%q, %d) = %q, which cannot be stored", text, limit, got)
	}
	if len(got) > limit {
		t.Errorf("CleanText(%q, %d) has %d bytes", text, limit, len(got))
	}
	good := utf8.ValidString(text) && !strings.ContainsRune(text, 0) && len(text) <= limit
	if good && got != text {
		t.Errorf("CleanText(%q, %d) = %q, want it unchanged", text, limit, got)
	}
	if len(text) > limit && !strings.HasSuffix(got, "…") {
		t.Errorf("CleanText(%q, %d) = %q, want it to end in …", text, limit, got)
	}
	if again := later.CleanText(got, limit); again != got {
		t.Errorf("cleaning %q again gives %q", got, again)
	}
}

func TestCleanTextIsAlwaysStorable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.OneOf(
			rapid.String(),
			rapid.StringN(0, 3, 3),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }),
			rapid.SampledFrom([]string{"\x00", "é", "€", "😀", "\xff", "…", "\xf0\x9f\x98"}),
		)).Draw(t, "parts")
		checkCleaned(t, strings.Join(parts, ""), rapid.IntRange(3, 64).Draw(t, "limit"))
	})
}

func FuzzCleanText(f *testing.F) {
	for _, text := range []string{"", "boom\x00tail", "caf\xe9", "é€"[:4], "😀😀😀", "\xf0\x9f\x98", strings.Repeat("\x80", 40)} {
		f.Add(text, 7)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 3 || limit > 1<<20 {
			limit = 3 + (limit&0xffff+0x10000)%100 // the documented range
		}
		checkCleaned(t, text, limit)
	})
}

func TestClipText(t *testing.T) {
	t.Run("keeps short text", func(t *testing.T) {
		if got := later.ClipText("abc", 3); got != "abc" {
			t.Errorf("got %q, want abc", got)
		}
	})
	t.Run("cuts on a rune's boundary", func(t *testing.T) {
		if got, want := later.ClipText("aé😀b", 7), "aé…"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Case 103: 10,000 failures with 64 KiB errors.
func TestAppendError(t *testing.T) {
	var history []later.AttemptError
	for attempt := 1; attempt <= 10_000; attempt++ {
		history = later.AppendError(history, later.AttemptError{Attempt: attempt, Error: strings.Repeat("x", 64<<10)})
	}
	t.Run("keeps the first and the newest", func(t *testing.T) {
		var got []int
		for _, e := range history {
			got = append(got, e.Attempt)
		}
		want := []int{1, 9994, 9995, 9996, 9997, 9998, 9999, 10000}
		if len(got) != len(want) {
			t.Fatalf("got attempts %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("got attempts %v, want %v", got, want)
			}
		}
	})
	t.Run("bounds the text", func(t *testing.T) {
		for _, e := range history {
			if len(e.Error) > later.MaxErrorBytes {
				t.Errorf("attempt %d has %d bytes of error, want at most %d", e.Attempt, len(e.Error), later.MaxErrorBytes)
			}
		}
	})
	t.Run("cleans the text", func(t *testing.T) {
		// Case 2.
		got := later.AppendError(nil, later.AttemptError{Attempt: 1, Error: "boom\x00caf\xe9"})
		if want := "boom␀caf\uFFFD"; got[0].Error != want {
			t.Errorf("got %q, want %q", got[0].Error, want)
		}
	})
	t.Run("keeps every failure of a default job", func(t *testing.T) {
		var got []later.AttemptError
		for attempt := 1; attempt <= later.DefaultMaxAttempts; attempt++ {
			got = later.AppendError(got, later.AttemptError{Attempt: attempt})
		}
		if len(got) != later.DefaultMaxAttempts {
			t.Errorf("got %d, want %d", len(got), later.DefaultMaxAttempts)
		}
	})
	t.Run("does not change the slice that it is given", func(t *testing.T) {
		before := make([]later.AttemptError, later.MaxAttemptErrors, 2*later.MaxAttemptErrors)
		for i := range before {
			before[i].Attempt = i + 1
		}
		later.AppendError(before, later.AttemptError{Attempt: 99})
		for i := range before {
			if before[i].Attempt != i+1 {
				t.Fatalf("entry %d became attempt %d", i, before[i].Attempt)
			}
		}
	})
	t.Run("bounds a longer history from elsewhere", func(t *testing.T) {
		if got := later.AppendError(make([]later.AttemptError, 500), later.AttemptError{}); len(got) != later.MaxAttemptErrors {
			t.Errorf("got %d entries, want %d", len(got), later.MaxAttemptErrors)
		}
	})
}

func TestErrors(t *testing.T) {
	t.Run("an unavailable and a full database pass", func(t *testing.T) {
		for _, err := range []error{later.ErrUnavailable, later.ErrFull} {
			if !later.IsTransient(errors.Join(errors.New("claim"), err)) {
				t.Errorf("%v: got false, want true", err)
			}
		}
	})
	t.Run("other errors stay", func(t *testing.T) {
		for _, err := range []error{nil, later.ErrSchema, later.ErrClosed, later.ErrLeaseLost, later.ErrInvalid} {
			if later.IsTransient(err) {
				t.Errorf("%v: got true, want false", err)
			}
		}
	})
	t.Run("a fault of the payload matches ErrPayload too, another does not", func(t *testing.T) {
		if !errors.Is(&later.FieldError{Field: "payload"}, later.ErrPayload) {
			t.Error("payload: got false, want true")
		}
		if errors.Is(&later.FieldError{Field: "queue"}, later.ErrPayload) {
			t.Error("queue: got true, want false")
		}
	})
}

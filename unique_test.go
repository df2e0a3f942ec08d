package later_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func buildUnique(u later.Unique) (*later.Unique, error) {
	job, err := later.Build(later.RawArgs{JobKind: "k", Payload: []byte(`{}`)}, later.Options{Unique: &u})
	return job.Unique, err
}

func TestBuildUnique(t *testing.T) {
	t.Run("keeps what was asked for, in whole milliseconds, and shares no memory", func(t *testing.T) {
		given := later.Unique{
			Key: "k", Until: later.ForWindow, Window: time.Second + 999*time.Microsecond, Sliding: true,
			OnConflict: later.ReplaceAndPostpone, Latest: time.Minute + 1,
		}
		job, err := later.Build(later.RawArgs{JobKind: "k", Payload: []byte(`{}`)}, later.Options{Unique: &given})
		if err != nil {
			t.Fatal(err)
		}
		want := given
		want.Window, want.Latest = time.Second, time.Minute
		if *job.Unique != want {
			t.Errorf("got %+v, want %+v", *job.Unique, want)
		}
		if given.Key = "other"; job.Unique.Key != "k" {
			t.Error("the job shares memory with its options")
		}
	})

	for _, c := range []struct {
		behaviour, field string
		unique           later.Unique
	}{
		{"no key", "unique_key", later.Unique{}},
		{"a long key", "unique_key", later.Unique{Key: strings.Repeat("k", later.MaxKeyBytes+1)}},
		{"a key that is no text", "unique_key", later.Unique{Key: "a\xff"}},
		{"a key with a NUL", "unique_key", later.Unique{Key: "a\x00"}},
		{"a key with a newline", "unique_key", later.Unique{Key: "a\n"}},
		{"a key with a control character of two bytes", "unique_key", later.Unique{Key: "a\u0085"}},
		{"an unknown until", "unique_until", later.Unique{Key: "k", Until: 3}},
		{"a window without a length", "unique_window", later.Unique{Key: "k", Until: later.ForWindow}},
		{"a window of nothing", "unique_window", later.Unique{Key: "k", Until: later.ForWindow, Window: time.Millisecond - 1}},
		{"a window of a negative length", "unique_window", later.Unique{Key: "k", Until: later.ForWindow, Window: -time.Hour}},
		{"a window of more than a year", "unique_window", later.Unique{Key: "k", Until: later.ForWindow, Window: later.MaxWindow + time.Millisecond}},
		{"a length without a window", "unique_window", later.Unique{Key: "k", Window: time.Hour}},
		{"a length until started", "unique_window", later.Unique{Key: "k", Until: later.UntilStarted, Window: 1}},
		{"a window that slides but is none", "sliding", later.Unique{Key: "k", Sliding: true}},
		{"an unknown conflict", "on_conflict", later.Unique{Key: "k", OnConflict: 4}},
		{"postponing without an end", "latest", later.Unique{Key: "k", OnConflict: later.Postpone}},
		{"postponing with too early an end", "latest", later.Unique{Key: "k", OnConflict: later.ReplaceAndPostpone, Latest: 1}},
		{"an end without postponing", "latest", later.Unique{Key: "k", OnConflict: later.Replace, Latest: time.Hour}},
	} {
		t.Run("refuses "+c.behaviour, func(t *testing.T) {
			_, err := buildUnique(c.unique)
			var fault *later.FieldError
			if !errors.As(err, &fault) || fault.Field != c.field || !errors.Is(err, later.ErrInvalid) {
				t.Errorf("got %v, want a fault of %s", err, c.field)
			}
		})
	}

	for _, u := range []later.Unique{
		{Key: " "}, {Key: strings.Repeat("k", later.MaxKeyBytes)}, {Key: "\u00a0\u202e\U0010ffff"}, {Key: "k", Until: later.UntilStarted},
		{Key: "k", Until: later.ForWindow, Window: time.Millisecond}, {Key: "k", Until: later.ForWindow, Window: later.MaxWindow},
		{Key: "k", OnConflict: later.Postpone, Latest: time.Millisecond}, {Key: "k", OnConflict: later.Replace},
	} {
		if _, err := buildUnique(u); err != nil {
			t.Errorf("%+v: got %v, want it accepted", u, err)
		}
	}
}

// Case 116. Windows are cut in UTC, whatever the zone of the time, also in zones that
// are a half or three quarters of an hour off.
func TestWindowEnd(t *testing.T) {
	at := func(text string) time.Time {
		t.Helper()
		parsed, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		width     time.Duration
		sliding   bool
		now, want string
	}{
		{time.Hour, false, "2026-11-30T10:59:59Z", "2026-11-30T11:00:00Z"},
		{time.Hour, false, "2026-11-30T11:00:01Z", "2026-11-30T12:00:00Z"},
		{time.Hour, false, "2026-11-30T10:00:01Z", "2026-11-30T11:00:00Z"},
		{time.Hour, false, "2026-11-30T11:00:00Z", "2026-11-30T12:00:00Z"},
		{time.Hour, false, "2026-11-30T10:59:59.9999Z", "2026-11-30T11:00:00Z"},
		{time.Hour, false, "2026-11-30T16:29:59+05:30", "2026-11-30T11:00:00Z"},
		{time.Hour, false, "2026-11-30T16:44:59+05:45", "2026-11-30T11:00:00Z"},
		{day, false, "2026-11-30T23:30:00-02:00", "2026-12-02T00:00:00Z"},
		{7 * day, false, "2026-11-30T10:00:00Z", "2026-12-03T00:00:00Z"}, // a Thursday
		{time.Millisecond, false, "2026-11-30T10:00:00.0015Z", "2026-11-30T10:00:00.002Z"},
		{time.Hour, true, "2026-11-30T10:59:59.5Z", "2026-11-30T11:59:59.5Z"},
		{day, true, "2026-11-30T16:44:59+05:45", "2026-12-01T10:59:59Z"},
	} {
		u := later.Unique{Window: c.width, Sliding: c.sliding}
		if got := u.WindowEnd(at(c.now)); !got.Equal(at(c.want)) {
			t.Errorf("%v, sliding %v, at %s: got %v, want %s", c.width, c.sliding, c.now, got, c.want)
		}
	}
}

func TestUniqueWords(t *testing.T) {
	for got, want := range map[string]string{
		later.UntilDone.String(): "done", later.UntilStarted.String(): "started", later.ForWindow.String(): "window", later.Until(9).String(): "unknown (9)",
		later.Skip.String(): "skip", later.Replace.String(): "replace", later.Postpone.String(): "postpone", later.ReplaceAndPostpone.String(): "both",
		later.Inserted.String(): "inserted", later.Skipped.String(): "skipped", later.Replaced.String(): "replaced",
		later.Postponed.String(): "postponed", later.ReplacedAndPostponed.String(): "replaced and postponed",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	err := error(&later.KeyHeldError{Job: 5, Key: "a\nb", Holder: 9, Count: 3})
	if want := `3 jobs stay dead, because others hold their keys; the first: job 5 stays dead, because job 9 holds its key "a\nb"`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

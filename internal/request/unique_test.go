package request

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func TestParseLineWithKey(t *testing.T) {
	// Case 209: no option is dropped on the way through a bulk line.
	for line, want := range map[string]later.Unique{
		`{"kind":"k","unique_key":"a b"}`:                                    {Key: "a b"},
		`{"kind":"k","unique_key":"a","unique_until":"started"}`:             {Key: "a", Until: later.UntilStarted},
		`{"kind":"k","unique_key":"a","unique_until":"done"}`:                {Key: "a"},
		`{"kind":"k","sliding":true,"unique_window":"1d","unique_key":"a"}`:  {Key: "a", Until: later.ForWindow, Window: 24 * time.Hour, Sliding: true},
		`{"kind":"k","unique_key":"a","on_conflict":"both","latest":"90s"}`:  {Key: "a", OnConflict: later.ReplaceAndPostpone, Latest: 90 * time.Second},
		`{"kind":"k","unique_key":"a","on_conflict":"skip","sliding":false}`: {Key: "a"},
	} {
		job, err := ParseLine([]byte(line), Job{})
		if err != nil || job.Options.Unique == nil || *job.Options.Unique != want {
			t.Errorf("%s: got %+v, %v, want %+v", line, job.Options.Unique, err, want)
		}
	}

	t.Run("a line changes its own job only", func(t *testing.T) {
		defaults := Job{Kind: "k", Options: later.Options{Unique: &later.Unique{Key: "d", OnConflict: later.Replace}}}
		job, err := ParseLine([]byte(`{"unique_key":"a"}`), defaults)
		if want := (later.Unique{Key: "a", OnConflict: later.Replace}); err != nil || *job.Options.Unique != want {
			t.Errorf("got %+v, %v, want %+v", job.Options.Unique, err, want)
		}
		if got := defaults.Options.Unique.Key; got != "d" {
			t.Errorf("the defaults have the key %q now", got)
		}
	})

	for _, c := range []struct{ line, field, words string }{
		{`{"kind":"k","unique_key":7}`, "unique_key", "JSON string"},
		{`{"kind":"k","unique_key":""}`, "unique_key", "is empty"},
		{`{"kind":"k","unique_until":"started"}`, "unique_key", "is empty"},
		{`{"kind":"k","unique":"a"}`, "unique", `did you mean "unique_key"?`},
		{`{"kind":"k","unique_key":"a","unique_until":"window"}`, "unique_until", "there are done, started"},
		{`{"kind":"k","unique_key":"a","unique_until":"done","unique_window":"1h"}`, "unique_until", "both set"},
		{`{"kind":"k","unique_key":"a","unique_window":"0s"}`, "unique_window", "more than nothing"},
		{`{"kind":"k","unique_key":"a","sliding":"yes"}`, "sliding", "true or false"},
		{`{"kind":"k","unique_key":"a","on_conflict":"replce"}`, "on_conflict", `did you mean "replace"?`},
		{`{"kind":"k","unique_key":"a","latest":"-1s"}`, "latest", "more than nothing"},
	} {
		_, err := ParseLine([]byte(c.line), Job{})
		var field *later.FieldError
		if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want %q of field %q", c.line, err, c.words, c.field)
		}
	}
}

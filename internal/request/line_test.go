package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func TestParseLine(t *testing.T) {
	t.Run("takes every field", func(t *testing.T) {
		// Case 209: no option is dropped on the way through a bulk line.
		line := `{"kind":"mail","payload":{"n":9223372036854775807, "f" : 1.10},"queue":"q","priority":-3,"tenant":"acme",
			"delay":"1d30s","max_attempts":"unlimited","timeout":"90s","expires_in":"2d","headers":{"trace":"abc"}}`
		got, err := ParseLine([]byte(line), Job{})
		if err != nil {
			t.Fatal(err)
		}
		want := Job{Kind: "mail", Payload: json.RawMessage(`{"n":9223372036854775807, "f" : 1.10}`), Options: later.Options{
			Queue: "q", Priority: -3, Tenant: "acme", Delay: 24*time.Hour + 30*time.Second, MaxAttempts: later.UnlimitedAttempts,
			Timeout: 90 * time.Second, ExpiresIn: 48 * time.Hour, Headers: map[string]string{"trace": "abc"}}}
		if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
			t.Errorf("got  %s\nwant %s", g, w)
		}
	})
	t.Run("keeps the payload's bytes", func(t *testing.T) {
		got, err := ParseLine([]byte(`{"kind":"k","payload": [ 12345678901234567890123 ,1.0 ] }`), Job{})
		if want := `[ 12345678901234567890123 ,1.0 ]`; err != nil || string(got.Payload) != want {
			t.Errorf("got %s, %v, want %s", got.Payload, err, want)
		}
	})
	t.Run("prefers the line to the defaults, also in the other notation", func(t *testing.T) {
		defaults := Job{Kind: "d", Options: later.Options{Queue: "q", Delay: time.Hour, ExpiresAt: time.Now()}}
		got, err := ParseLine([]byte(`{"run_at":"2030-01-31T08:00:00Z","expires_in":"1h"}`), defaults)
		if err != nil {
			t.Fatal(err)
		}
		o := got.Options
		if got.Kind != "d" || o.Queue != "q" || o.Delay != 0 || o.RunAt.Year() != 2030 || o.ExpiresIn != time.Hour || !o.ExpiresAt.IsZero() {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("takes null for a field that is left out", func(t *testing.T) {
		defaults := Job{Kind: "d", Options: later.Options{Delay: time.Hour}}
		got, err := ParseLine([]byte(`{"kind":null,"run_at":null,"payload":null}`), defaults)
		if err != nil || got.Kind != "d" || got.Options.Delay != time.Hour || string(got.Payload) != "null" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestParseLineRefuses(t *testing.T) {
	for _, c := range []struct{ line, field, words string }{
		{`{"kind":"k","prioritty":1}`, "prioritty", `did you mean "priority"?`},
		{`{"kind":"k","in":"1h"}`, "in", `did you mean "delay"?`},
		{`{"kind":"k","queue":"a","queue":"b"}`, "queue", "twice"},
		{`{"kind":"k","priority":"high"}`, "priority", "-32768"},
		{`{"kind":"k","priority":1.5}`, "priority", "-32768"},
		{`{"kind":"k","priority":99999}`, "priority", "-32768"},
		{`{"kind":"k","max_attempts":0}`, "max_attempts", "from 1"},
		{`{"kind":"k","max_attempts":"many"}`, "max_attempts", "unlimited"},
		{`{"kind":"k","timeout":30}`, "timeout", `"30s"`},
		{`{"kind":"k","timeout":"30d"}`, "timeout", "is 30d; it goes from 1ms to 24d20h"},
		{`{"kind":"k","delay":"3d","expires_in":"60h"}`, "expires_in", "is 2d12h, but the job is due only after 3d"},
		{`{"kind":"k","run_at":"2030-01-31T08:00:00Z","expires_at":"2030-01-31T08:00:00Z"}`, "expires_at", "due only at 2030-01-31T08:00:00Z"},
		{`{"kind":"k","timeout":"0s"}`, "timeout", "more than nothing"},
		{`{"kind":"k","delay":"-1s"}`, "delay", "negative"},
		{`{"kind":"k","run_at":"tomorrow"}`, "run_at", "2030-01-31T08:00:00Z"},
		{`{"kind":"k","run_at":"2030-01-31T08:00:00Z","delay":"1h"}`, "run_at", "both"},
		{`{"kind":"k y"}`, "kind", "allowed are"},
		{`{"payload":1}`, "kind", "empty"},
		{`{"kind":7}`, "kind", "JSON string"},
		{`{"kind":"k","tenant":"\ud800"}`, "tenant", "surrogate"},
		{`{"kind":"k","payload":"\u0000"}`, "payload", `\u0000`},
		{`{"kind":"k","headers":{"a":1}}`, "headers", "JSON string"},
		{`{"kind":"k","headers":{"a":"1","a":"2"}}`, "headers", "twice"},
		{`{"kind":"k","headers":[]}`, "headers", "object"},
		{`[1]`, "line", "object"},
		{`{"kind":"k"`, "line", "too early"},
		{`{"kind":"k"} {}`, "line", "goes on"},
		{`{"kind" "k"}`, "line", "not valid JSON"},
	} {
		_, err := ParseLine([]byte(c.line), Job{})
		var field *later.FieldError
		if !errors.As(err, &field) {
			t.Errorf("%s: got %v, want a FieldError", c.line, err)
			continue
		}
		if field.Field != c.field || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %q of field %q, want %q of field %q", c.line, err, field.Field, c.words, c.field)
		}
	}
}

func TestReader(t *testing.T) {
	t.Run("names the line that is wrong and goes on behind it", func(t *testing.T) {
		r := NewReader(strings.NewReader("\ufeff{\"kind\":\"a\"}\r\n\n  \n{\"knd\":\"b\"}\n{\"kind\":\"c\"}"), Job{})
		if job, err := r.Next(); err != nil || job.Kind != "a" || r.Line() != 1 {
			t.Fatalf("got %+v, %v at line %d", job, err, r.Line())
		}
		var bad *LineError
		if _, err := r.Next(); !errors.As(err, &bad) || bad.Line != 4 {
			t.Fatalf("got %v, want an error of line 4", err)
		}
		if job, err := r.Next(); err != nil || job.Kind != "c" || r.Line() != 5 {
			t.Fatalf("got %+v, %v at line %d", job, err, r.Line())
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("got %v, want EOF", err)
		}
	})
	t.Run("takes the largest payload and passes over a line that is too long", func(t *testing.T) {
		largest := `{"kind":"k","payload":"` + strings.Repeat("x", later.MaxPayloadBytes-2) + `"}`
		tooLong := strings.Repeat("x", MaxLineBytes+1)
		r := NewReader(strings.NewReader(largest+"\n"+tooLong+"\n{\"kind\":\"c\"}\n"), Job{})
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Fatalf("got %v, want an error of line 2", err)
		}
		if job, err := r.Next(); err != nil || job.Kind != "c" {
			t.Fatalf("got %+v, %v", job, err)
		}
	})
	t.Run("does not hold an endless line in memory", func(t *testing.T) {
		r := NewReader(io.LimitReader(endless{}, 1<<30), Job{})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Fatalf("got %v", err)
		}
		runtime.ReadMemStats(&after)
		if got, want := after.TotalAlloc-before.TotalAlloc, uint64(100<<20); got > want {
			t.Errorf("got %d bytes allocated for a line of 1 GiB, want at most %d", got, want)
		}
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
	}{
		{"90s", 90 * time.Second}, {"3d", 72 * time.Hour}, {"1d12h", 36 * time.Hour}, {"0", 0}, {"-5s", -5 * time.Second},
	} {
		if got, err := Duration("f", c.text); err != nil || got != c.want {
			t.Errorf("Duration(%q) = %v, %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "5", "d", "-1d", "1d-1h", "200000d", "106751d24h", "1 d", "tomorrow", "1dd"} {
		if got, err := Duration("f", text); err == nil {
			t.Errorf("Duration(%q) = %v, want an error", text, got)
		}
	}
}

// FuzzBulkLine: a line is refused with a FieldError, or it makes a job whose
// payload is in the line byte for byte and which Build accepts.
func FuzzBulkLine(f *testing.F) {
	for _, line := range []string{
		`{"kind":"k","payload":{"n":9223372036854775807}}`,
		`{"kind":"k","queue":"q","priority":-1,"tenant":"t","delay":"1d","max_attempts":"unlimited"}`,
		`{"kind":"k","run_at":"2030-01-31T08:00:00Z","timeout":"1s","expires_in":"1h","headers":{"a":"b"}}`,
		`{"kind":"k","payload":"\ud83d\ude00"}`, `{"kind":"\ud800"}`, `[]`, `{}`, "{\"kind\":\"k\xff\"}",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		job, err := ParseLine(line, Job{})
		if err != nil {
			var field *later.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("%q: %v is no FieldError", line, err)
			}
			return
		}
		if job.Payload != nil && !strings.Contains(string(line), string(job.Payload)) {
			t.Errorf("%q: payload %q is not as written", line, job.Payload)
		}
		r := job.Request()
		if _, err := later.Build(r.Args, r.Options); err != nil {
			t.Errorf("%q: accepted, but %v", line, err)
		}
	})
}

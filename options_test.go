package later_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func build(opts later.Options) (later.NewJob, error) {
	return later.Build(mail{To: "a@example.org"}, opts)
}

func TestBuildDefaults(t *testing.T) {
	got, err := build(later.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := later.NewJob{
		Queue: "default", Kind: "mail.send", Payload: []byte(`{"to":"a@example.org"}`),
		MaxAttempts: 5, Timeout: 5 * time.Minute,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Case 209: no option is dropped in silence.
func TestBuildKeepsEveryOption(t *testing.T) {
	runAt := time.Date(2030, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	want := later.NewJob{
		Queue: "bulk", Priority: -7, Tenant: "acme", Kind: "mail.send", Payload: []byte(`{"to":"a@example.org"}`),
		RunAt: runAt, MaxAttempts: 9, Timeout: 90 * time.Second, ExpiresAt: runAt.Add(time.Hour),
		Headers: map[string]string{"traceparent": "00-ab-cd-01"},
	}
	opts := later.Options{
		Queue: "bulk", Priority: -7, Tenant: "acme", RunAt: runAt, MaxAttempts: 9, Timeout: 90 * time.Second,
		ExpiresAt: runAt.Add(time.Hour), Headers: map[string]string{"traceparent": "00-ab-cd-01"},
	}
	got, err := build(opts)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	opts.RunAt, opts.ExpiresAt, opts.Delay, opts.ExpiresIn = time.Time{}, time.Time{}, time.Minute, time.Hour
	want.RunAt, want.ExpiresAt, want.Delay, want.ExpiresIn = time.Time{}, time.Time{}, time.Minute, time.Hour
	if got, err = build(opts); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	t.Run("each field of Options changes the job", func(t *testing.T) {
		// A new option that Build forgets makes this fail.
		plain, err := build(later.Options{})
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{
			"Queue": "bulk", "Priority": int16(1), "Tenant": "acme", "Delay": time.Minute, "RunAt": runAt, "MaxAttempts": 2,
			"Timeout": time.Second, "ExpiresIn": time.Hour, "ExpiresAt": runAt, "Headers": map[string]string{"a": "b"},
			"Unique": &later.Unique{Key: "k"},
		}
		fields := reflect.TypeFor[later.Options]()
		for i := range fields.NumField() {
			name := fields.Field(i).Name
			value, ok := values[name]
			if !ok {
				t.Errorf("this test knows no value for the option %s: add one", name)
				continue
			}
			var opts later.Options
			reflect.ValueOf(&opts).Elem().Field(i).Set(reflect.ValueOf(value))
			got, err := build(opts)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if reflect.DeepEqual(got, plain) {
				t.Errorf("%s is dropped in silence", name)
			}
		}
	})
}

func TestBuildRefuses(t *testing.T) {
	instant := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	many := map[string]string{}
	for i := range later.MaxHeaders + 1 {
		many["h"+strings.Repeat("x", i)] = "v"
	}
	for _, c := range []struct {
		behaviour string
		field     string
		opts      later.Options
	}{
		{"a queue that is no name", "queue", later.Options{Queue: "a b"}},
		{"a tenant with a NUL", "tenant", later.Options{Tenant: "a\x00"}},
		{"a delay and a run_at", "run_at", later.Options{Delay: 1, RunAt: instant}},
		{"a negative delay", "delay", later.Options{Delay: -1}},
		{"two expiries", "expires_at", later.Options{ExpiresIn: 1, ExpiresAt: instant}},
		{"a negative expires_in", "expires_in", later.Options{ExpiresIn: -1}},
		{"a negative number of attempts", "max_attempts", later.Options{MaxAttempts: -1}},
		{"more attempts than an int32 counts", "max_attempts", later.Options{MaxAttempts: math.MaxInt32 + 1}},
		{"a negative timeout", "timeout", later.Options{Timeout: -time.Second}},
		{"a timeout under a millisecond", "timeout", later.Options{Timeout: time.Millisecond - 1}},
		{"a timeout over 24 days", "timeout", later.Options{Timeout: later.MaxTimeout + 1}},
		{"too many headers", "headers", later.Options{Headers: many}},
		{"too large headers", "headers", later.Options{Headers: map[string]string{"a": strings.Repeat("x", later.MaxHeaderBytes)}}},
		{"a header with an odd name", "headers", later.Options{Headers: map[string]string{"a b": "x"}}},
		{"a header with no name", "headers", later.Options{Headers: map[string]string{"": "x"}}},
		{"a header with a NUL", "headers", later.Options{Headers: map[string]string{"a": "x\x00"}}},
		{"a header that is no UTF-8", "headers", later.Options{Headers: map[string]string{"a": "\xff"}}},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			_, err := build(c.opts)
			var field *later.FieldError
			if !errors.As(err, &field) || field.Field != c.field {
				t.Errorf("got %v, want a FieldError for %s", err, c.field)
			}
		})
	}
	t.Run("a kind that is no name", func(t *testing.T) {
		_, err := later.Build(later.RawArgs{JobKind: "a/b", Payload: []byte(`{}`)}, later.Options{})
		var field *later.FieldError
		if !errors.As(err, &field) || field.Field != "kind" {
			t.Errorf("got %v, want a FieldError for kind", err)
		}
	})
	// Case 221.
	t.Run("no args, or a nil pointer to some", func(t *testing.T) {
		for _, args := range []later.Args{nil, (*mail)(nil), (*later.RawArgs)(nil)} {
			if _, err := later.Build(args, later.Options{}); !errors.Is(err, later.ErrInvalid) {
				t.Errorf("%T: got %v, want a FieldError", args, err)
			}
		}
	})
}

// Case 58: far-future run_at.
func TestBuildHorizon(t *testing.T) {
	utc := time.UTC
	inside := []time.Time{
		time.Date(2038, 1, 19, 3, 14, 8, 0, utc),
		time.Date(2262, 4, 12, 0, 0, 0, 0, utc),
		time.Date(4864, 8, 30, 0, 0, 0, 0, utc),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, utc),
		time.Date(10000, 1, 1, 0, 59, 0, 0, time.FixedZone("", 3600)), // 9999 in UTC
		time.Date(1970, 1, 1, 0, 0, 0, 0, utc),
		time.Now().Add(math.MaxInt64),
	}
	outside := []time.Time{
		time.Date(10000, 1, 1, 0, 0, 0, 0, utc),
		time.Date(9999, 12, 31, 23, 59, 0, 0, time.FixedZone("", -3600)), // 10000 in UTC
		time.Date(1_000_000_000, 1, 1, 0, 0, 0, 0, utc),
		time.Unix(math.MaxInt64, 0),
		time.Unix(math.MinInt64/2, 0),
		time.Date(-1, 1, 1, 0, 0, 0, 0, utc),
	}
	for _, at := range inside {
		if job, err := build(later.Options{RunAt: at, ExpiresAt: at}); err != nil || !job.RunAt.Equal(at) || !job.ExpiresAt.Equal(at) {
			t.Errorf("%v: got %v, %v, want it kept", at, job.RunAt, err)
		}
	}
	for _, at := range outside {
		var field *later.FieldError
		if _, err := build(later.Options{RunAt: at}); !errors.As(err, &field) || field.Field != "run_at" {
			t.Errorf("run_at %v: got %v, want a FieldError", at, err)
		}
		if _, err := build(later.Options{ExpiresAt: at}); !errors.As(err, &field) || field.Field != "expires_at" {
			t.Errorf("expires_at %v: got %v, want a FieldError", at, err)
		}
	}
	t.Run("the longest delay stays inside", func(t *testing.T) {
		if _, err := build(later.Options{Delay: math.MaxInt64, ExpiresIn: math.MaxInt64}); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

func TestBuildTimeout(t *testing.T) {
	t.Run("is kept in whole milliseconds", func(t *testing.T) {
		job, err := build(later.Options{Timeout: 1500*time.Microsecond + 1})
		if err != nil || job.Timeout != time.Millisecond {
			t.Errorf("got %v, %v, want 1ms", job.Timeout, err)
		}
	})
	t.Run("goes up to the documented most", func(t *testing.T) {
		if _, err := build(later.Options{Timeout: later.MaxTimeout}); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

// Case 89: unlimited attempts are a number that an int32 column holds.
func TestBuildUnlimitedAttempts(t *testing.T) {
	job, err := build(later.Options{MaxAttempts: later.UnlimitedAttempts})
	if err != nil || job.MaxAttempts != math.MaxInt32 {
		t.Errorf("got %d, %v, want %d", job.MaxAttempts, err, math.MaxInt32)
	}
}

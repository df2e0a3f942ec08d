package later

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"time"
)

const (
	// DefaultMaxAttempts is how often a job is tried when its Options say
	// nothing (mission W5).
	DefaultMaxAttempts = 5

	// UnlimitedAttempts as MaxAttempts lets a job fail for as long as it likes.
	UnlimitedAttempts = math.MaxInt32

	// DefaultTimeout bounds one attempt when its Options say nothing. Chosen,
	// not measured.
	DefaultTimeout = 5 * time.Minute

	// MaxTimeout is the longest timeout that can be stored: 2³¹−1 ms, 24 days.
	MaxTimeout = math.MaxInt32 * time.Millisecond

	// MaxHeaders and MaxHeaderBytes bound a job's headers (all keys and values
	// together). Chosen, not measured: a trace context takes 200 bytes.
	MaxHeaders     = 32
	MaxHeaderBytes = 8 << 10
)

// Horizon is the first instant that is too far away for a run_at or an expiry:
// beyond the year 9999 no JSON and no ISO 8601 text can carry a time.
var Horizon = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// Options say how a job is to be run. The zero value is a job in the default
// queue, due at once, with 5 attempts of at most 5 minutes each.
type Options struct {
	// Queue is the set of workers that shall run it; "" is [DefaultQueue].
	Queue string
	// Priority: lower runs first; 0 is normal.
	Priority int16
	// Tenant is the customer on whose behalf the job runs; "" is none.
	Tenant string

	// Delay and RunAt say when the job becomes due; at most one may be set.
	// Delay is added to the database's clock when the job is inserted (inside a
	// transaction: to the time at which the transaction began, on Postgres).
	// RunAt is an instant; one that has passed by the database's clock is
	// stored as now. Neither may lie beyond [Horizon].
	Delay time.Duration
	RunAt time.Time

	// MaxAttempts is how many attempts may fail before the job is dead; 0 is
	// [DefaultMaxAttempts], [UnlimitedAttempts] is no limit. With 1 the job is
	// started at most once: should its worker crash, the job is dead too.
	MaxAttempts int
	// Timeout bounds one attempt: then the handler's context ends with
	// [ErrTimeout]. 0 is [DefaultTimeout]; from 1 ms to [MaxTimeout], stored in
	// whole milliseconds.
	Timeout time.Duration

	// ExpiresIn and ExpiresAt say from when on the job is not worth running any
	// more; at most one may be set; zero is never. ExpiresIn counts from the
	// insert by the database's clock. A job that is still waiting then ends as
	// expired, without running; one that fails is not retried past it.
	ExpiresIn time.Duration
	ExpiresAt time.Time

	// Headers travel with the job: a trace context and the like. At most
	// [MaxHeaders], [MaxHeaderBytes] in all.
	Headers map[string]string

	// Unique makes the job one of a kind; nil is as many as are enqueued.
	Unique *Unique
}

// Args is a payload that names the kind of its job. The kind is a contract
// with the handlers: it never follows from a Go type's name.
type Args interface {
	Kind() string
}

// RawArgs is a payload that is JSON already, for a kind that is known only at
// run time. The handler receives the very same bytes.
type RawArgs struct {
	JobKind string
	Payload json.RawMessage
}

// Kind returns JobKind.
func (a RawArgs) Kind() string { return a.JobKind }

// Request is one job of an EnqueueMany.
type Request struct {
	Args    Args
	Options Options
}

// NewJob is a job that has been checked and can be inserted; [Build] makes it.
// All of its fields are set, but for the zero values that are named here.
type NewJob struct {
	Queue       string
	Priority    int16
	Tenant      string
	Kind        string
	Payload     json.RawMessage
	Delay       time.Duration     // 0 when RunAt decides or the job is due at once
	RunAt       time.Time         // zero when Delay decides
	MaxAttempts int               // 1 … UnlimitedAttempts
	Timeout     time.Duration     // whole milliseconds
	ExpiresIn   time.Duration     // 0 when ExpiresAt decides or it never expires
	ExpiresAt   time.Time         // zero when ExpiresIn decides or it never expires
	Headers     map[string]string // nil when there are none
	Unique      *Unique           // nil when it has no key
}

// Build checks a request and fills in the defaults. Every error is a
// [FieldError].
func Build(args Args, opts Options) (NewJob, error) {
	if isNil(args) {
		return NewJob{}, &FieldError{Field: "args", Reason: "is nil"}
	}
	job := NewJob{
		Queue: opts.Queue, Priority: opts.Priority, Tenant: opts.Tenant, Kind: args.Kind(),
		Delay: opts.Delay, RunAt: opts.RunAt, MaxAttempts: opts.MaxAttempts, Timeout: opts.Timeout,
		ExpiresIn: opts.ExpiresIn, ExpiresAt: opts.ExpiresAt,
	}
	if job.Queue == "" {
		job.Queue = DefaultQueue
	}
	if job.MaxAttempts == 0 {
		job.MaxAttempts = DefaultMaxAttempts
	}
	if job.Timeout == 0 {
		job.Timeout = DefaultTimeout
	}
	if len(opts.Headers) > 0 {
		job.Headers = opts.Headers
	}
	if err := job.check(); err != nil {
		return NewJob{}, err
	}
	unique, err := opts.Unique.checked()
	if err != nil {
		return NewJob{}, err
	}
	job.Unique = unique
	payload, valid, err := encodePayload(args)
	if err != nil {
		return NewJob{}, err
	}
	if err := checkPayload(payload, valid); err != nil {
		return NewJob{}, err
	}
	job.Payload = payload
	return job, nil
}

// check returns the first fault of all fields besides the payload.
func (j *NewJob) check() error {
	if err := CheckName("kind", j.Kind); err != nil {
		return err
	}
	if err := CheckName("queue", j.Queue); err != nil {
		return err
	}
	if err := CheckTenant(j.Tenant); err != nil {
		return err
	}
	if err := j.checkTimes(); err != nil {
		return err
	}
	if j.MaxAttempts < 1 || j.MaxAttempts > UnlimitedAttempts {
		return &FieldError{Field: "max_attempts", Reason: fmt.Sprintf("is %d; it goes from 1 to %d (unlimited)", j.MaxAttempts, UnlimitedAttempts)}
	}
	if j.Timeout < time.Millisecond || j.Timeout > MaxTimeout {
		return &FieldError{Field: "timeout", Reason: fmt.Sprintf("is %v; it goes from 1ms to %v", j.Timeout, MaxTimeout)}
	}
	j.Timeout = j.Timeout.Truncate(time.Millisecond)
	return checkHeaders(j.Headers)
}

func (j *NewJob) checkTimes() error {
	for _, t := range []struct {
		field    string
		at       time.Time
		relative string
		in       time.Duration
	}{
		{"run_at", j.RunAt, "delay", j.Delay},
		{"expires_at", j.ExpiresAt, "expires_in", j.ExpiresIn},
	} {
		if !t.at.IsZero() && t.in != 0 {
			return &FieldError{Field: t.field, Reason: "and " + t.relative + " are both set; set one"}
		}
		if t.in < 0 {
			return &FieldError{Field: t.relative, Reason: fmt.Sprintf("is %v; it must not be negative", t.in)}
		}
		// By the year and not by Before: the seconds of a time far out overflow,
		// as in time.Unix(math.MaxInt64, 0), which is before every other time.
		if year := t.at.UTC().Year(); !t.at.IsZero() && (year < 1 || year > 9999) {
			return &FieldError{Field: t.field, Reason: "is outside the years 1 to 9999"}
		}
	}
	return nil
}

func checkHeaders(headers map[string]string) error {
	fault := func(format string, args ...any) error {
		return &FieldError{Field: "headers", Reason: fmt.Sprintf(format, args...)}
	}
	if len(headers) > MaxHeaders {
		return fault("has %d entries, at most %d are allowed", len(headers), MaxHeaders)
	}
	names := make([]string, 0, len(headers))
	size := 0
	for name, value := range headers {
		names = append(names, name)
		size += len(name) + len(value)
	}
	if size > MaxHeaderBytes {
		return fault("has %d bytes, at most %d are allowed", size, MaxHeaderBytes)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := CheckName("headers", name); err != nil {
			return err
		}
		if value := headers[name]; CleanText(value, MaxHeaderBytes) != value {
			return fault("%q has a value that is not valid UTF-8 or has a NUL", name)
		}
	}
	return nil
}

package cli

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/request"
)

// jobFlags are the flags that say how a job is to be run.
type jobFlags struct {
	queue, tenant, priority, maxAttempts  string
	in, at, timeout, expiresIn, expiresAt string
	headers                               []string

	uniqueKey, uniqueUntil, uniqueWindow, onConflict, latest string
	sliding                                                  bool
}

func (f *jobFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.queue, "queue", "", "`queue`, the workers that shall run it (default \""+later.DefaultQueue+"\")")
	flags.StringVar(&f.priority, "priority", "", "`number`; lower runs first (default 0)")
	flags.StringVar(&f.tenant, "tenant", "", "`customer` on whose behalf it runs")
	flags.StringVar(&f.in, "in", "", "run it after this `duration`: 30s, 10m, 24h, 3d")
	flags.StringVar(&f.at, "at", "", "run it at this `time`: 2030-01-31T08:00:00Z (RFC 3339)")
	flags.StringVar(&f.maxAttempts, "max-attempts", "", "`number` of attempts before it is dead, or unlimited (default 5)")
	flags.StringVar(&f.timeout, "timeout", "", "`duration` of one attempt (default 5m)")
	flags.StringVar(&f.expiresIn, "expires-in", "", "end it unrun when it still waits after this `duration`")
	flags.StringVar(&f.expiresAt, "expires-at", "", "end it unrun when it still waits at this `time`")
	flags.StringArrayVar(&f.headers, "header", nil, "`key=value` that travels with the job; repeatable")
	flags.StringVar(&f.uniqueKey, "unique", "", "`key` of which the tenant has one job of the kind at a time")
	flags.StringVar(&f.uniqueUntil, "unique-until", "", "`end` of the key: done, or started (default done)")
	flags.StringVar(&f.uniqueWindow, "unique-window", "", "`duration` for which the key is taken, whatever becomes of the job; windows are cut in UTC")
	flags.BoolVar(&f.sliding, "sliding", false, "with --unique-window: the window begins with the job that was stored last")
	flags.StringVar(&f.onConflict, "on-conflict", "", "`what` to do to a waiting job that has the key: skip, replace its payload, postpone it, or both (default skip)")
	flags.StringVar(&f.latest, "latest", "", "with --on-conflict postpone or both: the `duration` after its enqueue beyond which a job is not put off")
}

// options reads the flags; its errors name them.
func (f *jobFlags) options(flags *pflag.FlagSet) (later.Options, error) {
	opts := later.Options{Queue: f.queue, Tenant: f.tenant}
	if flags.Changed("queue") && f.queue == "" {
		return opts, &later.FieldError{Field: "--queue", Reason: "is empty; leave it out for the queue " + later.DefaultQueue}
	}
	for _, pair := range [][2]string{{"in", "at"}, {"expires-in", "expires-at"}} {
		if flags.Changed(pair[0]) && flags.Changed(pair[1]) {
			return opts, usageError("--%s and --%s are both given; give one", pair[0], pair[1])
		}
	}
	var errs []error
	read := func(name string, set func(text string) error) {
		if flags.Changed(name) {
			errs = append(errs, set(flags.Lookup(name).Value.String()))
		}
	}
	read("priority", func(text string) (err error) { opts.Priority, err = request.Priority("--priority", text); return })
	read("in", func(text string) (err error) { opts.Delay, err = request.Duration("--in", text); return })
	read("at", func(text string) (err error) { opts.RunAt, err = request.Time("--at", text); return })
	read("max-attempts", func(text string) (err error) {
		opts.MaxAttempts, err = request.Attempts("--max-attempts", text)
		return
	})
	read("timeout", func(text string) (err error) { opts.Timeout, err = request.Timeout("--timeout", text); return })
	read("expires-in", func(text string) (err error) { opts.ExpiresIn, err = request.Positive("--expires-in", text); return })
	read("expires-at", func(text string) (err error) { opts.ExpiresAt, err = request.Time("--expires-at", text); return })
	for _, header := range f.headers {
		key, value, ok := strings.Cut(header, "=")
		if !ok {
			errs = append(errs, &later.FieldError{Field: "--header", Reason: "has no =; it is written as key=value"})
			break
		}
		if opts.Headers == nil {
			opts.Headers = map[string]string{}
		}
		if _, twice := opts.Headers[key]; twice {
			errs = append(errs, &later.FieldError{Field: "--header", Reason: "names " + key + " twice"})
		}
		opts.Headers[key] = value
	}
	unique, err := f.unique(flags)
	opts.Unique = unique
	errs = append(errs, err)
	for _, err := range errs {
		if err != nil { // one at a time: an error is one line
			return opts, err
		}
	}
	return opts, nil
}

// unique reads the flags of the key; nil without any.
func (f *jobFlags) unique(flags *pflag.FlagSet) (*later.Unique, error) {
	if !flags.Changed("unique") {
		for _, name := range []string{"unique-until", "unique-window", "sliding", "on-conflict", "latest"} {
			if flags.Changed(name) {
				return nil, usageError("--%s is of use with --unique only", name)
			}
		}
		return nil, nil
	}
	if flags.Changed("unique-until") && flags.Changed("unique-window") {
		return nil, usageError("--unique-until and --unique-window are both given; give one")
	}
	u := &later.Unique{Key: f.uniqueKey, Sliding: f.sliding}
	var errs [4]error
	if flags.Changed("unique-until") {
		u.Until, errs[0] = request.Until("--unique-until", f.uniqueUntil)
	}
	if flags.Changed("unique-window") {
		u.Until = later.ForWindow
		u.Window, errs[1] = request.Positive("--unique-window", f.uniqueWindow)
	}
	if flags.Changed("on-conflict") {
		u.OnConflict, errs[2] = request.OnConflict("--on-conflict", f.onConflict)
	}
	if flags.Changed("latest") {
		u.Latest, errs[3] = request.Positive("--latest", f.latest)
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return u, nil
}

// flagNames are the flags for the fields of a job.
var flagNames = map[string]string{
	"kind": "KIND", "payload": "PAYLOAD", "queue": "--queue", "priority": "--priority", "tenant": "--tenant",
	"delay": "--in", "run_at": "--at", "max_attempts": "--max-attempts", "timeout": "--timeout",
	"expires_in": "--expires-in", "expires_at": "--expires-at", "headers": "--header",
	"unique_key": "--unique", "unique_until": "--unique-until", "unique_window": "--unique-window", "sliding": "--sliding",
	"on_conflict": "--on-conflict", "latest": "--latest",
}

// inFlags returns err with the name of a flag in the place of the field's.
func inFlags(err error) error {
	var field *later.FieldError
	if !errors.As(err, &field) || flagNames[field.Field] == "" {
		return err
	}
	named := *field
	named.Field = flagNames[field.Field]
	return &flagFault{named: &named, field: field}
}

// flagFault is a fault of a field as a person typed it. As a [later.FieldError]
// it is the original one, so that programs read the field's own name.
type flagFault struct{ named, field *later.FieldError }

func (e *flagFault) Error() string { return e.named.Error() }
func (e *flagFault) Unwrap() error { return e.field }

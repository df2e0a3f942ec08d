package later

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxKeyBytes is the longest key of a [Unique]. Chosen, not measured: a kind's
	// worth of words and two UUIDs fit, and [KeyOf] makes a hash of what is longer.
	MaxKeyBytes = 200

	// MaxWindow is the longest [Unique] window: a year. Chosen, not measured.
	MaxWindow = 365 * 24 * time.Hour
)

// Unique says that of jobs with one key there is to be one at a time. Keys are
// compared byte by byte, among the jobs of one tenant and kind, whatever their
// queues. A request whose key is held is no error: it says so in its [Enqueued].
//
// The database decides, by an index: two requests at the same moment are one job
// too. A request that meets a key which another transaction has taken but not yet
// committed waits for that transaction, as long as its context and the session's
// lock_timeout allow, because only its end tells whether there is such a job.
type Unique struct {
	// Key must be set: 1 to [MaxKeyBytes] of valid UTF-8 without control
	// characters. [KeyOf] and [PayloadKey] make one of values.
	Key string
	// Until is how long the job holds the key; zero is [UntilDone].
	Until Until
	// Window is set with [ForWindow] only: from 1 ms to [MaxWindow], in whole
	// milliseconds.
	Window time.Duration
	// Sliding, with ForWindow only, begins the window with the job that was stored
	// last. Otherwise time is cut into windows once for all: in UTC, counted from
	// 1970-01-01, so windows of a day begin at midnight and windows of a week on
	// Thursdays.
	Sliding bool
	// OnConflict is what the request does to a job that holds the key; zero is
	// [Skip].
	OnConflict OnConflict
	// Latest, from 1 ms in whole milliseconds, is set with [Postpone] and
	// [ReplaceAndPostpone] only, and there it must be: a job is not put off
	// beyond Latest after its enqueue, so that it runs although requests never
	// cease.
	Latest time.Duration
}

// WindowEnd is when the window ends in which a job is stored at now. It is for stores.
func (u *Unique) WindowEnd(now time.Time) time.Time {
	if u.Sliding {
		return now.Add(u.Window)
	}
	width := u.Window.Milliseconds()
	return time.UnixMilli((now.UnixMilli()/width + 1) * width).UTC()
}

// Until is how long a key is held.
type Until uint8

const (
	// UntilDone: until the job has left the table: done, dead, cancelled, expired
	// or deleted. One that was cancelled or has expired, and only waits for being
	// ended, gives the key to the next request.
	UntilDone Until = iota
	// UntilStarted: until the job's first attempt starts; then the key is free for
	// good, also while the job is retried or has been given back. What changes
	// while it runs is seen by the next job.
	UntilStarted
	// ForWindow: for [Unique.Window], whatever has become of the job. Keys of
	// windows and keys of the other two do not meet.
	ForWindow
)

// String returns "done", "started" or "window".
func (u Until) String() string {
	return word(int(u), "done", "started", "window")
}

// OnConflict is what a request does to the job that holds its key. It changes
// jobs that wait: those that are scheduled, due, to be retried, or snoozed. A job
// under a lease, or whose lease has ended, or that has left the table, is never
// changed: then every request is skipped.
type OnConflict uint8

const (
	// Skip leaves the holder as it is.
	Skip OnConflict = iota
	// Replace gives the holder the payload and the headers of the request, and
	// takes its checkpoint, which belongs to the old payload. Its attempts, its
	// errors and its idempotency key stay.
	Replace
	// Postpone moves the holder's run_at to that of the request, if that is later,
	// but not beyond [Unique.Latest].
	Postpone
	// ReplaceAndPostpone does both.
	ReplaceAndPostpone
)

// String returns "skip", "replace", "postpone" or "both".
func (c OnConflict) String() string {
	return word(int(c), "skip", "replace", "postpone", "both")
}

// Replaces reports whether c replaces the payload.
func (c OnConflict) Replaces() bool { return c == Replace || c == ReplaceAndPostpone }

// Postpones reports whether c moves run_at.
func (c OnConflict) Postpones() bool { return c == Postpone || c == ReplaceAndPostpone }

// EnqueueOutcome is what became of a request.
type EnqueueOutcome uint8

const (
	// Inserted: a new job was stored.
	Inserted EnqueueOutcome = iota
	// Skipped: another job holds the key, and was left as it was.
	Skipped
	// Replaced: the holder has the payload and the headers of the request now.
	Replaced
	// Postponed: the holder's run_at is later now.
	Postponed
	// ReplacedAndPostponed: both.
	ReplacedAndPostponed
)

// String returns "inserted", "skipped", "replaced", "postponed" or "replaced and
// postponed".
func (o EnqueueOutcome) String() string {
	return word(int(o), "inserted", "skipped", "replaced", "postponed", "replaced and postponed")
}

// ChangedOutcome is the outcome of a request that met a holder, by what was done to
// that.
func ChangedOutcome(replaced, postponed bool) EnqueueOutcome {
	switch {
	case replaced && postponed:
		return ReplacedAndPostponed
	case replaced:
		return Replaced
	case postponed:
		return Postponed
	}
	return Skipped
}

func word(n int, words ...string) string {
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprintf("unknown (%d)", n)
}

// KeyHeldError says that dead jobs were not brought back, because other jobs hold
// their keys by now. It matches [ErrKeyHeld].
type KeyHeldError struct {
	Job    int64  // the dead job; of several the first
	Key    string // its key
	Holder int64  // the job that holds the key
	Count  int    // how many dead jobs stay dead for that reason
}

func (e *KeyHeldError) Error() string {
	text := fmt.Sprintf("job %d stays dead, because job %d holds its key %q", e.Job, e.Holder, e.Key)
	if e.Count > 1 {
		text = fmt.Sprintf("%d jobs stay dead, because others hold their keys; the first: %s", e.Count, text)
	}
	return text
}

// Is makes errors.Is(err, ErrKeyHeld) true.
func (e *KeyHeldError) Is(target error) bool { return target == ErrKeyHeld }

// checked is a copy of u that can be stored, or nil of nil.
func (u *Unique) checked() (*Unique, error) {
	if u == nil {
		return nil, nil
	}
	v := *u
	v.Window, v.Latest = u.Window.Truncate(time.Millisecond), u.Latest.Truncate(time.Millisecond)
	if err := checkKey(v.Key); err != nil {
		return nil, err
	}
	fault := func(field, format string, args ...any) (*Unique, error) {
		return nil, &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	windowed, postpones := v.Until == ForWindow, v.OnConflict.Postpones()
	switch {
	case v.Until > ForWindow:
		return fault("unique_until", "is %d; there are UntilDone, UntilStarted and ForWindow", v.Until)
	case v.OnConflict > ReplaceAndPostpone:
		return fault("on_conflict", "is %d; there are Skip, Replace, Postpone and ReplaceAndPostpone", v.OnConflict)
	case windowed && (v.Window < time.Millisecond || v.Window > MaxWindow):
		return fault("unique_window", "is %v; with ForWindow it goes from 1ms to %v", u.Window, MaxWindow)
	case !windowed && u.Window != 0:
		return fault("unique_window", "is set, but the key is held until the job is %v; set Until to ForWindow", v.Until)
	case !windowed && v.Sliding:
		return fault("sliding", "is set, but there is no window")
	case postpones && v.Latest < time.Millisecond:
		return fault("latest", "is %v; with Postpone it must be at least 1ms, or requests that never cease would put the job off for ever", u.Latest)
	case !postpones && u.Latest != 0:
		return fault("latest", "is set, but on a conflict nothing is postponed")
	}
	return &v, nil
}

// checkKey returns nil when key can be a key.
func checkKey(key string) error {
	fault := func(reason string) error { return &FieldError{Field: "unique_key", Reason: reason} }
	if key == "" {
		return fault("is empty")
	}
	if len(key) > MaxKeyBytes {
		return fault(fmt.Sprintf("has %d bytes, at most %d are allowed; KeyOf makes a shorter one", len(key), MaxKeyBytes))
	}
	if !utf8.ValidString(key) {
		return fault("is not valid UTF-8")
	}
	for i, r := range key {
		if unicode.IsControl(r) {
			return fault(fmt.Sprintf("has the control character %U at byte %d; KeyOf escapes such characters", r, i))
		}
	}
	return nil
}

package later

import (
	"errors"
	"fmt"
	"time"
)

// Outcome is how an attempt ended.
type Outcome string

const (
	OutcomeDone      Outcome = "done"      // the job leaves the table
	OutcomeRetry     Outcome = "retry"     // failed; runs again after a delay
	OutcomeSnoozed   Outcome = "snoozed"   // put off by its handler; costs no attempt
	OutcomeReleased  Outcome = "released"  // given back unfinished; costs no attempt
	OutcomeDead      Outcome = "dead"      // kept in dead_job until a person acts
	OutcomeCancelled Outcome = "cancelled" // ended by an operator
	OutcomeExpired   Outcome = "expired"   // not run: no longer worth it
	OutcomeLost      Outcome = "lost"      // its worker was lost; only ever written by a claim
	OutcomeDeleted   Outcome = "deleted"   // removed by an operator before it ran
)

// DeadReason says why a job is dead.
type DeadReason string

const (
	DeadFailed      DeadReason = "failed"      // out of attempts
	DeadPermanent   DeadReason = "permanent"   // its handler said so
	DeadUndecodable DeadReason = "undecodable" // out of attempts, and its payload does not decode
	DeadTimeout     DeadReason = "timeout"     // out of attempts, the last of which timed out
	DeadExpired     DeadReason = "expired"     // failed, and the retry would come after its expiry
	DeadLost        DeadReason = "lost"        // its worker died under it too often
)

// Permanent marks err as a failure that no retry can mend: the job is dead at
// once. A nil err is a permanent failure too.
func Permanent(err error) error {
	return &permanentError{orUnnamed(err)}
}

// RetryAfter marks err as a failure after which the job is retried d from now,
// instead of after the backoff's delay; it costs an attempt like any failure. A
// negative d is 0.
func RetryAfter(err error, d time.Duration) error {
	return &retryAfterError{orUnnamed(err), max(d, 0)}
}

// Snooze puts the job off: it runs again d from now, and this attempt is not
// counted. A worker waits at least 100 ms, so that a job cannot spin. An attempt
// that ran into its timeout has failed, even if it returns a Snooze; and where an
// error wraps a Permanent too, that counts.
func Snooze(d time.Duration) error {
	return &snoozeError{max(d, 0)}
}

// IsPermanent reports whether err was made by [Permanent] or wraps one that was.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// IsRetryAfter returns the delay of an error made by [RetryAfter].
func IsRetryAfter(err error) (time.Duration, bool) {
	var r *retryAfterError
	if errors.As(err, &r) {
		return r.delay, true
	}
	return 0, false
}

// IsSnooze returns the delay of an error made by [Snooze].
func IsSnooze(err error) (time.Duration, bool) {
	var s *snoozeError
	if errors.As(err, &s) {
		return s.delay, true
	}
	return 0, false
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type retryAfterError struct {
	err   error
	delay time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

type snoozeError struct{ delay time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.delay) }

func orUnnamed(err error) error {
	if err == nil {
		return errors.New("failed without an error")
	}
	return err
}

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/later-queue/later"
)

var errBoom = errors.New("boom")

// nilError panics when its methods are called on the nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// wildError panics in the method that errors.Is looks for.
type wildError struct{}

func (wildError) Error() string   { return "wild" }
func (wildError) Is(error) bool   { panic("is") }
func (wildError) As(any) bool     { panic("as") }
func (wildError) Unwrap() []error { panic("unwrap") }

// noMap is never made.
var noMap map[string]int

func TestDecide(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lostAt := start.Add(-time.Minute)
	for _, c := range []struct {
		name    string
		job     later.Record // attempt 1 of 5 with 1 s unless set
		lost    string
		end     func(ctx context.Context) error
		cause   error
		abandon bool
		outcome later.Outcome
		reason  later.DeadReason
		delay   time.Duration // exact
		text    []string      // in Error
		errors  []string      // in Errors, in order
	}{
		{name: "nil is done",
			end: func(context.Context) error { return nil }, outcome: later.OutcomeDone},
		{name: "an error is a retry after the backoff's delay",
			end: func(context.Context) error { return errBoom }, outcome: later.OutcomeRetry, delay: 10 * time.Second,
			text: []string{"boom"}, errors: []string{"boom"}},
		{name: "later failures wait longer",
			job: later.Record{Failures: 2}, end: func(context.Context) error { return errBoom }, outcome: later.OutcomeRetry, delay: 160 * time.Second},
		{name: "crashes do not lengthen the delay",
			job: later.Record{Crashes: 2}, end: func(context.Context) error { return errBoom }, outcome: later.OutcomeRetry, delay: 10 * time.Second},
		{name: "the last attempt's error is death",
			job: later.Record{Failures: 4}, end: func(context.Context) error { return errBoom },
			outcome: later.OutcomeDead, reason: later.DeadFailed, text: []string{"boom"}, errors: []string{"boom"}},
		{name: "crashes use up no attempts",
			job: later.Record{Failures: 3, Crashes: 2}, end: func(context.Context) error { return errBoom }, outcome: later.OutcomeRetry, delay: 640 * time.Second},
		{name: "Permanent is death at once",
			end:     func(context.Context) error { return fmt.Errorf("outer: %w", later.Permanent(errBoom)) },
			outcome: later.OutcomeDead, reason: later.DeadPermanent, text: []string{"outer: boom"}},
		{name: "RetryAfter sets the delay",
			end: func(context.Context) error { return later.RetryAfter(errBoom, 7*time.Second) }, outcome: later.OutcomeRetry, delay: 7 * time.Second},
		{name: "RetryAfter out of attempts is death",
			job: later.Record{Failures: 4}, end: func(context.Context) error { return later.RetryAfter(errBoom, time.Second) },
			outcome: later.OutcomeDead, reason: later.DeadFailed},
		{name: "Snooze puts off",
			end: func(context.Context) error { return later.Snooze(3 * time.Second) }, outcome: later.OutcomeSnoozed, delay: 3 * time.Second},
		{name: "Snooze on the last attempt puts off too",
			job: later.Record{Failures: 4}, end: func(context.Context) error { return later.Snooze(time.Second) }, outcome: later.OutcomeSnoozed, delay: time.Second},
		{name: "Snooze has a shortest delay",
			end: func(context.Context) error { return later.Snooze(0) }, outcome: later.OutcomeSnoozed, delay: MinSnooze},
		{name: "Permanent wins over Snooze",
			end:     func(context.Context) error { return errors.Join(later.Snooze(time.Second), later.Permanent(errBoom)) },
			outcome: later.OutcomeDead, reason: later.DeadPermanent, text: []string{"boom"}},
		{name: "Permanent wins over RetryAfter",
			end:     func(context.Context) error { return later.RetryAfter(later.Permanent(errBoom), time.Second) },
			outcome: later.OutcomeDead, reason: later.DeadPermanent, text: []string{"boom"}},
		{name: "a timeout wins over Snooze",
			end: func(context.Context) error { return later.Snooze(time.Second) }, cause: later.ErrTimeout,
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"timed out after 1s: snoozed for 1s"}},
		{name: "a panic is a failed attempt with its stack",
			end: func(context.Context) error { panic("kaboom") }, outcome: later.OutcomeRetry, delay: 10 * time.Second,
			text: []string{"panic: kaboom", "worker.TestDecide.func", "outcome_test.go:"}},
		{name: "a runtime error is one too",
			end: func(context.Context) error { noMap["a"]++; return nil }, outcome: later.OutcomeRetry, delay: 10 * time.Second,
			text: []string{"panic: assignment to entry in nil map", "outcome_test.go:"}},
		{name: "panic(nil) is one too",
			end: func(context.Context) error { panic(nil) }, outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"panic: ", "nil"}},
		// Case 137: recover does not see it, and a runner that only recovers
		// stores the job as done.
		{name: "Goexit is a failed attempt with its stack",
			end: func(context.Context) error { runtime.Goexit(); return nil }, outcome: later.OutcomeRetry, delay: 10 * time.Second,
			text: []string{"handler goroutine exited", "outcome_test.go:"}},
		{name: "a payload that does not decode is a failed attempt",
			end:     func(context.Context) error { return fmt.Errorf("%w: bad", later.ErrPayload) },
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"payload could not be decoded"}},
		{name: "a payload that does not decode is dead as undecodable",
			job: later.Record{Failures: 4}, end: func(context.Context) error { return fmt.Errorf("%w: bad", later.ErrPayload) },
			outcome: later.OutcomeDead, reason: later.DeadUndecodable},
		{name: "a bad payload of another job is an ordinary failure",
			job: later.Record{Failures: 4}, end: func(context.Context) error { return &later.FieldError{Field: "payload", Reason: "is too long"} },
			outcome: later.OutcomeDead, reason: later.DeadFailed},
		{name: "a timeout is a failed attempt and says so",
			end: func(ctx context.Context) error { return ctx.Err() }, cause: later.ErrTimeout,
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"timed out after 1s: context canceled"}},
		// Case 95.
		{name: "the last timeout is death by timeout",
			job: later.Record{Failures: 4}, end: func(ctx context.Context) error { return ctx.Err() }, cause: later.ErrTimeout,
			outcome: later.OutcomeDead, reason: later.DeadTimeout, text: []string{"timed out after 1s"}},
		{name: "nil after the timeout is done",
			end: func(context.Context) error { return nil }, cause: later.ErrTimeout, outcome: later.OutcomeDone},
		{name: "a panic after the timeout says both",
			end: func(context.Context) error { panic("kaboom") }, cause: later.ErrTimeout,
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"timed out after 1s: panic: kaboom"}},
		{name: "Permanent after the timeout stays permanent",
			end: func(context.Context) error { return later.Permanent(errBoom) }, cause: later.ErrTimeout,
			outcome: later.OutcomeDead, reason: later.DeadPermanent, text: []string{"timed out after 1s: boom"}},
		{name: "an abandoned handler has timed out and still runs",
			cause: later.ErrTimeout, abandon: true, outcome: later.OutcomeRetry, delay: 10 * time.Second,
			text: []string{"timed out after 1s; still running 10s later"}},
		{name: "an error after a cancel is cancelled",
			end: func(context.Context) error { return errBoom }, cause: later.ErrCancelled, outcome: later.OutcomeCancelled, text: []string{"boom"}},
		{name: "Permanent after a cancel is cancelled",
			end: func(context.Context) error { return later.Permanent(errBoom) }, cause: later.ErrCancelled, outcome: later.OutcomeCancelled},
		{name: "nil after a cancel is done",
			end: func(context.Context) error { return nil }, cause: later.ErrCancelled, outcome: later.OutcomeDone},
		{name: "an abandoned cancelled handler is cancelled",
			cause: later.ErrCancelled, abandon: true, outcome: later.OutcomeCancelled, text: []string{"job cancelled; still running 10s later"}},
		{name: "an error at the shutdown is released",
			end: func(context.Context) error { return later.Permanent(errBoom) }, cause: later.ErrShutdown, outcome: later.OutcomeReleased},
		{name: "nil at the shutdown is done",
			end: func(context.Context) error { return nil }, cause: later.ErrShutdown, outcome: later.OutcomeDone},
		{name: "Snooze at the shutdown is snoozed",
			end: func(context.Context) error { return later.Snooze(time.Second) }, cause: later.ErrShutdown, outcome: later.OutcomeSnoozed, delay: time.Second},
		{name: "an error after the lease was lost is released",
			end: func(context.Context) error { return errBoom }, cause: later.ErrLeaseLost, outcome: later.OutcomeReleased},
		{name: "nil after the lease was lost is done",
			end: func(context.Context) error { return nil }, cause: later.ErrLeaseLost, outcome: later.OutcomeDone},
		// Case 94.
		{name: "a retry past the expiry is death and names the limit",
			job: later.Record{ExpiresAt: start.Add(10 * time.Second)}, end: func(context.Context) error { return errBoom },
			outcome: later.OutcomeDead, reason: later.DeadExpired, text: []string{"expires at 2026-01-01T00:00:10Z, before the next attempt in 10s", "boom"}},
		{name: "a retry before the expiry is a retry",
			job: later.Record{ExpiresAt: start.Add(11 * time.Second)}, end: func(context.Context) error { return errBoom },
			outcome: later.OutcomeRetry, delay: 10 * time.Second},
		{name: "out of attempts comes before the expiry",
			job: later.Record{Failures: 4, ExpiresAt: start.Add(time.Second)}, end: func(context.Context) error { return errBoom },
			outcome: later.OutcomeDead, reason: later.DeadFailed},
		// Case 140.
		{name: "a lost worker is in the history before this attempt's error",
			job: later.Record{Crashes: 1}, lost: "host-7-abc", end: func(context.Context) error { return errBoom },
			outcome: later.OutcomeRetry, delay: 10 * time.Second,
			errors: []string{"worker host-7-abc was lost (lease ended at 2025-12-31T23:59:00Z)", "boom"}},
		// Case 2: what the error's text is like must not matter.
		{name: "NUL in an error", end: func(context.Context) error { return errors.New("boom\x00tail") },
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"boom␀tail"}},
		{name: "invalid UTF-8 in an error", end: func(context.Context) error { return errors.New("caf\xe9") },
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"caf\uFFFD"}},
		{name: "half a rune at the end of an error", end: func(context.Context) error { return errors.New("é€"[:4]) },
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"é\uFFFD"}},
		{name: "a panic with 5 MB of text keeps its stack", end: func(context.Context) error { panic(strings.Repeat("x\x00", 5<<19)) },
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"panic: x␀x␀", "…", "outcome_test.go:"}},
		{name: "a huge error", end: func(context.Context) error { return errors.New(strings.Repeat("é", 5<<20)) },
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"ééé"}},
		{name: "an error whose text panics", end: func(context.Context) error { var e *nilError; return e },
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"*worker.nilError"}},
		{name: "an error whose methods panic", end: func(context.Context) error { return wildError{} },
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"worker.wildError"}},
		{name: "a panic with an error whose methods panic", end: func(context.Context) error { panic(wildError{}) },
			outcome: later.OutcomeRetry, delay: 10 * time.Second, text: []string{"panic: ", "worker.wildError"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := c.job
			job.ID, job.Timeout, job.MaxAttempts = 1, time.Second, 5
			job.Attempt = max(job.Attempt, job.Failures+job.Crashes+1)
			claimed := &later.Claimed{Record: job, Lease: later.Lease{ID: 1, Token: 2}}
			if c.lost != "" {
				claimed.LostWorker, claimed.LostAt = c.lost, lostAt
			}
			j := judge{claimed: claimed, backoff: later.Backoff{Jitter: -1}, worker: "me", grace: 10 * time.Second, now: start}

			e := ending{cause: c.cause, abandoned: c.abandon}
			if !c.abandon {
				e = runToEnd(t, c.end, c.cause)
			}
			v := j.safely(e)
			got := v.settlement

			if got.Outcome != c.outcome || got.Reason != c.reason || got.Delay != c.delay {
				t.Errorf("got %s %q after %v, want %s %q after %v", got.Outcome, got.Reason, got.Delay, c.outcome, c.reason, c.delay)
			}
			if got.Lease != claimed.Lease {
				t.Errorf("got the lease %v, want %v", got.Lease, claimed.Lease)
			}
			for _, want := range c.text {
				if !strings.Contains(got.Error, want) {
					t.Errorf("got the error %q, want %q in it", got.Error, want)
				}
			}
			if !utf8.ValidString(got.Error) || len(got.Error) > later.MaxErrorBytes || strings.Contains(got.Error, "\x00") {
				t.Errorf("got an error of %d bytes that cannot be stored", len(got.Error))
			}
			for i, want := range c.errors {
				if i >= len(got.Errors) || !strings.Contains(got.Errors[i].Error, want) {
					t.Fatalf("got the history %+v, want %q in entry %d", got.Errors, want, i)
				}
			}
			failed := c.outcome == later.OutcomeRetry || c.outcome == later.OutcomeDead
			if (v.failure != nil) != failed || (len(got.Errors) > 0) != failed {
				t.Errorf("got the failure %+v and %d errors, want them for failed attempts only", v.failure, len(got.Errors))
			}
			if failed {
				last := got.Errors[len(got.Errors)-1]
				if last.Attempt != job.Attempt || last.Worker != "me" || !last.At.Equal(start) || last.Error != got.Error {
					t.Errorf("got %+v in the history, want this attempt's", last)
				}
				if v.failure.Err == nil || v.failure.Outcome != c.outcome || v.failure.Reason != c.reason || v.failure.RetryIn != c.delay {
					t.Errorf("got the failure %+v, want what was settled", v.failure)
				}
			}
		})
	}
}

// runToEnd runs fn as a handler, in a goroutine that it may end.
func runToEnd(t *testing.T, fn func(context.Context) error, cause error) ending {
	t.Helper()
	handlers := later.NewHandlers()
	later.HandleRaw(handlers, "k", later.HandlerConfig{}, func(ctx context.Context, _ *later.Job[json.RawMessage]) error { return fn(ctx) })
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if cause != nil {
		cancel(cause)
	}
	ends := make(chan ending, 2)
	go call(ctx, handlers.Lookup("k"), &later.Claimed{}, func(e ending) { ends <- e })
	return <-ends
}

func TestDoom(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	decide := func(c later.Claimed) verdict {
		return judge{claimed: &c, worker: "me", now: now}.doom()
	}
	t.Run("a lost job is dead with the worker's name", func(t *testing.T) {
		// Cases 88, 140.
		v := decide(later.Claimed{Record: later.Record{Attempt: 1, MaxAttempts: 1, Crashes: 1},
			Doom: later.DoomLost, LostWorker: "w-1", LostAt: now})
		s := v.settlement
		if s.Outcome != later.OutcomeDead || s.Reason != later.DeadLost {
			t.Errorf("got %s %q, want dead, lost", s.Outcome, s.Reason)
		}
		const want = "worker w-1 was lost (lease ended at 2026-01-01T00:00:00Z)"
		if !strings.HasPrefix(s.Error, want) || !strings.Contains(s.Error, "lost 1 times") {
			t.Errorf("got the error %q, want %q and the count", s.Error, want)
		}
		if len(s.Errors) != 1 || s.Errors[0].Error != want || s.Errors[0].Attempt != 1 || s.Errors[0].Worker != "w-1" {
			t.Errorf("got the history %+v, want the lost attempt", s.Errors)
		}
		if v.failure == nil || v.failure.Reason != later.DeadLost {
			t.Errorf("got the failure %+v, want one for the hook", v.failure)
		}
	})
	t.Run("a lost job whose worker is not known has a reason too", func(t *testing.T) {
		s := decide(later.Claimed{Record: later.Record{Crashes: 5}, Doom: later.DoomLost}).settlement
		if s.Outcome != later.OutcomeDead || s.Error == "" || len(s.Errors) != 1 {
			t.Errorf("got %+v, want death with a text", s)
		}
	})
	t.Run("a cancelled job is cancelled", func(t *testing.T) {
		v := decide(later.Claimed{Doom: later.DoomCancelled})
		if v.settlement.Outcome != later.OutcomeCancelled || v.failure != nil {
			t.Errorf("got %+v, want cancelled without a failure", v)
		}
	})
	t.Run("an expired job is expired", func(t *testing.T) {
		v := decide(later.Claimed{Record: later.Record{ExpiresAt: now}, Doom: later.DoomExpired})
		if v.settlement.Outcome != later.OutcomeExpired || !strings.Contains(v.settlement.Error, "2026-01-01T00:00:00Z") {
			t.Errorf("got %+v, want expired with the time", v.settlement)
		}
	})
}

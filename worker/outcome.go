package worker

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/later-queue/later"
)

// ending is how the run of a handler came to its end.
type ending struct {
	err       error // what the handler returned
	panicked  bool
	value     any    // of the panic
	exited    bool   // by runtime.Goexit
	abandoned bool   // it still runs
	stack     string // of a panic or a Goexit
	cause     error  // why the handler's context ended, nil if it did not
}

// verdict is what is to be stored of an attempt, and for a failed one what the
// hooks are told.
type verdict struct {
	settlement later.Settlement
	failure    *Failure
	// err is how the handler ended, nil if well.
	err error
	// inTx: the handler settled the job in a transaction of its own, which may
	// still lock the row.
	inTx bool
}

var (
	errNotCommitted = errors.New("the transaction of DoneTx was not committed")
	errExited       = errors.New("handler goroutine exited (runtime.Goexit)")
)

// judge decides what becomes of a job after its handler's run.
type judge struct {
	claimed *later.Claimed
	backoff later.Backoff
	worker  string
	grace   time.Duration
	now     time.Time // by the database's clock
}

// decide maps the end of a run to an outcome. It is the one place that does.
func (j judge) decide(e ending) verdict {
	err := j.failureOf(e)
	v := verdict{settlement: later.Settlement{Lease: j.claimed.Lease}, err: err, inTx: j.claimed.SettledInTx()}
	// Also when that transaction is known to have been rolled back: the handler
	// means the job to be done with it, not without.
	settled := j.claimed.SettledMarks() > 0
	switch {
	case settled && err == nil:
		err = errNotCommitted
	case settled:
		err = fmt.Errorf("%w: %w", errNotCommitted, err)
	}
	if err == nil {
		v.settlement.Outcome = later.OutcomeDone
		return v
	}
	delay, snoozed := later.IsSnooze(err)
	switch {
	case errors.Is(e.cause, later.ErrCancelled):
		v.settlement.Outcome = later.OutcomeCancelled
		v.settlement.Error = later.CleanText(errorText(err), later.MaxErrorBytes)
	case snoozed && !later.IsPermanent(err) && !errors.Is(e.cause, later.ErrTimeout):
		// Not after a timeout: a job that always takes too long would never end.
		v.settlement.Outcome = later.OutcomeSnoozed
		v.settlement.Delay = max(delay, MinSnooze)
	case errors.Is(e.cause, later.ErrShutdown), errors.Is(e.cause, later.ErrLeaseLost):
		// Not the job's fault. After a lost lease this is only accepted when
		// nobody else has taken the job.
		v.settlement.Outcome = later.OutcomeReleased
	default:
		j.fail(&v, e, err)
	}
	return v
}

// failureOf returns the error of a run, nil when the job is done.
func (j judge) failureOf(e ending) error {
	err := e.err
	switch {
	case e.panicked:
		err = &PanicError{Value: e.value}
	case e.exited:
		err = errExited
	}
	if errors.Is(e.cause, later.ErrTimeout) {
		switch {
		case e.abandoned:
			return fmt.Errorf("%w after %v; still running %v later", later.ErrTimeout, j.claimed.Timeout, j.grace)
		case err != nil:
			return fmt.Errorf("%w after %v: %w", later.ErrTimeout, j.claimed.Timeout, err)
		}
	}
	if err == nil && e.abandoned {
		return fmt.Errorf("%w; still running %v later", e.cause, j.grace)
	}
	return err
}

// fail fills in v for a failed attempt: a retry, or the job is dead.
func (j judge) fail(v *verdict, e ending, err error) {
	c := j.claimed
	// This attempt's included; those whose worker crashed are not among them.
	failures := c.Failures + 1
	reason := j.reason(e, err)
	delay, fixed := later.IsRetryAfter(err)
	if !fixed {
		delay = j.backoff.Delay(failures, nil)
	}
	text := errorText(err)
	switch {
	case reason == later.DeadPermanent, failures >= c.MaxAttempts:
		v.settlement.Outcome, v.settlement.Reason = later.OutcomeDead, reason
	case !c.ExpiresAt.IsZero() && !j.now.Add(delay).Before(c.ExpiresAt):
		v.settlement.Outcome, v.settlement.Reason = later.OutcomeDead, later.DeadExpired
		// The limit first, where no long error can push it out of the text.
		text = fmt.Sprintf("expires at %s, before the next attempt in %v: %s",
			c.ExpiresAt.UTC().Format(time.RFC3339), delay.Round(time.Millisecond), text)
	default:
		v.settlement.Outcome, v.settlement.Delay = later.OutcomeRetry, delay
	}
	if e.stack != "" {
		text = later.CleanText(text, later.MaxErrorBytes/2) + "\n\n" + e.stack
	}
	v.settlement.Error = later.CleanText(text, later.MaxErrorBytes)
	v.settlement.Errors = later.AppendError(history(c), later.AttemptError{
		Attempt: c.Attempt, At: j.now, Worker: j.worker, Error: v.settlement.Error,
	})
	v.failure = j.failure(v.settlement, err, e.stack)
}

// reason is why the job is dead, if it is.
func (j judge) reason(e ending, err error) later.DeadReason {
	var field *later.FieldError
	switch {
	case later.IsPermanent(err):
		return later.DeadPermanent
	case errors.Is(e.cause, later.ErrTimeout):
		return later.DeadTimeout
	case errors.Is(err, later.ErrPayload) && !errors.As(err, &field):
		// A FieldError is of a job that the handler tried to enqueue.
		return later.DeadUndecodable
	}
	return later.DeadFailed
}

// doom is decide for a job that is not to be run.
func (j judge) doom() verdict {
	c := j.claimed
	v := verdict{settlement: later.Settlement{Lease: c.Lease}}
	switch c.Doom {
	case later.DoomCancelled:
		v.settlement.Outcome = later.OutcomeCancelled
		v.settlement.Error = later.ErrCancelled.Error()
	case later.DoomExpired:
		v.settlement = expired(c)
		v.settlement.Lease = c.Lease
	default:
		text := fmt.Sprintf("its workers were lost %d times in a row", c.Crashes)
		if c.LostWorker != "" {
			text = lostText(c) + "; " + text
		}
		v.settlement.Outcome, v.settlement.Reason = later.OutcomeDead, later.DeadLost
		v.settlement.Error = later.CleanText(text, later.MaxErrorBytes)
		v.settlement.Errors = history(c)
		if c.LostWorker == "" {
			v.settlement.Errors = later.AppendError(c.Errors, later.AttemptError{Attempt: c.Attempt, At: j.now, Error: text})
		}
		v.failure = j.failure(v.settlement, errors.New(text), "")
	}
	return v
}

// expired ends a job that is no longer worth running.
func expired(c *later.Claimed) later.Settlement {
	return later.Settlement{
		Outcome: later.OutcomeExpired,
		Error:   "expired at " + c.ExpiresAt.UTC().Format(time.RFC3339) + " while waiting",
	}
}

func (j judge) failure(s later.Settlement, err error, stack string) *Failure {
	f := &Failure{
		Job: j.claimed.Record, Worker: j.worker, Err: err, Stack: stack,
		Outcome: s.Outcome, Reason: s.Reason, RetryIn: s.Delay,
	}
	f.Job.Errors = s.Errors
	return f
}

// history is the job's failed attempts so far, with the one whose worker was
// lost just now.
func history(c *later.Claimed) []later.AttemptError {
	if c.LostWorker == "" {
		return c.Errors
	}
	lost := c.Attempt - 1
	if c.Doom != later.DoomNone { // then this claim counted no attempt
		lost = c.Attempt
	}
	return later.AppendError(c.Errors, later.AttemptError{
		Attempt: lost, At: c.LostAt, Worker: c.LostWorker, Error: lostText(c),
	})
}

func lostText(c *later.Claimed) string {
	return fmt.Sprintf("worker %s was lost (lease ended at %s)", c.LostWorker, c.LostAt.UTC().Format(time.RFC3339))
}

// release is the settlement that gives a job back unfinished.
func release(lease later.Lease) later.Settlement {
	return later.Settlement{Lease: lease, Outcome: later.OutcomeReleased}
}

// stack is the stack of the deferred function that calls it, as far as it
// belongs to the handler: one line for each frame.
func stack() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var b strings.Builder
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") || b.Len() > 0 {
			fmt.Fprintf(&b, "%s\n\t%s:%d\n", frame.Function, frame.File, frame.Line)
		}
		if !more {
			return b.String()
		}
	}
}

// errorText is err.Error() of an error that may itself be broken: a nil pointer
// in the interface panics there.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("error of type %T, whose Error method panics", err)
		}
	}()
	return err.Error()
}

// maxPanicText leaves room for the stack.
const maxPanicText = later.MaxErrorBytes / 4

// panicText is a panic's value as text; fmt catches panics of its methods.
func panicText(value any) string {
	if text, ok := value.(string); ok {
		return later.CleanText(text, maxPanicText)
	}
	return later.CleanText(fmt.Sprint(value), maxPanicText)
}

package later

import (
	"context"
	"time"
)

// Operator is the half of a [Store] for people: looking and steering. None of
// it can overwrite what a running job's worker does: an operation on a job
// whose lease holds is refused with [ErrRunning], but for Cancel, which asks.
type Operator interface {
	// Status counts the jobs by queue and state. It reads the whole table.
	Status(ctx context.Context) ([]StatusRow, error)
	// Find returns a job: waiting, running or dead, or, from the log, ended;
	// else ErrNotFound.
	Find(ctx context.Context, id int64) (*JobInfo, error)
	// List returns waiting, running or dead jobs, newest id first.
	List(ctx context.Context, f Filter) ([]*JobInfo, error)

	// Retry makes a waiting job due now, or brings a dead one back under its
	// id: with attempt, failures and crashes 0, its generation one higher, due now, its
	// errors kept, its expiry removed. It takes its key again; when another job holds
	// that by now, the dead one stays, and the error is a [KeyHeldError].
	Retry(ctx context.Context, id int64) error
	// Cancel ends a job that is not running at once, and asks the worker of a
	// running one to stop: its handler's context ends, and unless it returns
	// nil (done) the job ends as cancelled. running says which it was. A dead
	// job is refused with ErrNotFound: drop it instead.
	Cancel(ctx context.Context, id int64) (running bool, err error)
	// Delete removes a waiting or dead job for good.
	Delete(ctx context.Context, id int64) error

	// RetryDead and DropDead do it to the dead jobs that f selects (its State
	// is ignored), in the order of their ids, f.Limit at a time: they return how
	// many, and 0 when none is left. RetryDead passes over jobs whose key another job
	// holds; when only such are left, it returns 0 and a [KeyHeldError] that counts them.
	RetryDead(ctx context.Context, f Filter) (int, error)
	DropDead(ctx context.Context, f Filter) (int, error)

	// Pause keeps the jobs of a scope from starting, in every process, until Resume. It is
	// stored. A claim that begins after Pause has returned takes none of them, and no sweep
	// runs a suspect; jobs that a worker has claimed already go on, and those that wait in it
	// for a slot start within half a second or are given back. What is paused stays as it
	// is: it costs no attempt, no write, and keeps no other job from being found. Pausing what is
	// paused keeps the time and who did it, and takes the new reason. The error is that of
	// [CheckPause].
	Pause(ctx context.Context, scope Scope, by, reason string) error
	// Resume ends a pause, and wakes workers that wait; ErrNotFound when there was none.
	Resume(ctx context.Context, scope Scope) error
	// Pauses returns what is paused, by what it is of and name.
	Pauses(ctx context.Context) ([]Pause, error)

	// Workers returns the workers that were alive lately, by name.
	Workers(ctx context.Context) ([]WorkerInfo, error)
}

// State is where a job is in its life. It is derived from the row, not stored.
type State string

const (
	StateScheduled State = "scheduled" // its first run_at has not come
	StateReady     State = "ready"     // due, and waiting for a worker
	StateRunning   State = "running"   // its lease holds
	StateRetry     State = "retry"     // tried before; its next run_at has not come
	StateLost      State = "lost"      // its lease has ended; the next claim takes it
	StateDead      State = "dead"
	StateEnded     State = "ended" // only the log knows it
)

// StatusRow is a count of jobs.
type StatusRow struct {
	Queue string
	State State
	Count int64
	// Oldest is the run_at of the longest-waiting job, for ready and lost; else
	// zero.
	Oldest time.Time
}

// Filter selects jobs; zero fields select all.
type Filter struct {
	State  State
	Queue  string
	Kind   string
	Tenant *string // nil: any; pointing to "": those without a tenant
	// ErrorLike selects dead jobs whose last error contains this text.
	ErrorLike string
	Reason    DeadReason // of dead jobs
	// IDs selects these jobs only; empty: any.
	IDs []int64
	// Before selects ids below it, for paging; 0: from the newest.
	Before int64
	// NoPayload leaves Payload and Checkpoint out of what List returns: they can
	// have megabytes each, and a list seldom needs them.
	NoPayload bool
	// Limit is the most that is returned or changed; 0 is 100.
	Limit int
}

// DefaultListLimit is how many jobs a Filter without a Limit selects.
const DefaultListLimit = 100

// JobInfo is a job as people see it.
type JobInfo struct {
	Record
	State State
	// UniqueKey is the key that the job holds, or, when it is dead, takes again when it
	// is retried; "" if none. Of a window the job does not know.
	UniqueKey   string
	UniqueUntil Until
	// Of the lease, when there is one:
	Worker     string
	ClaimedAt  time.Time
	LeaseUntil time.Time
	// CancelAt is when cancelling was asked for; zero if never.
	CancelAt time.Time
	// Of a dead job:
	DiedAt     time.Time
	DeadReason DeadReason
	// Log are the job's finished attempts as far as the history reaches, oldest
	// first; only Find fills it, at most 100.
	Log []LogEntry
	// Now is the database's clock when this was read.
	Now time.Time
}

// LogEntry is one finished attempt.
type LogEntry struct {
	JobID      int64
	Attempt    int
	Queue      string
	Kind       string
	Tenant     string
	Outcome    Outcome
	Worker     string
	StartedAt  time.Time // zero when it never ran
	FinishedAt time.Time
	Error      string
}

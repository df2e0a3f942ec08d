package later

import (
	"context"
	"encoding/json"
	"time"
)

// Store is the waist of the hourglass: what a database must do so that
// everything else works on it. Package storetest is its specification; a store
// that passes it is right.
//
// All methods are safe for concurrent use. All times are by the database's
// clock; a duration is added to it in the same statement. An error matches
// [ErrUnavailable] or [ErrFull] when trying again may help, [ErrSchema] when the
// tables do not fit, and [ErrClosed] after Close; the driver's error stays in
// the chain. Deadlocks and serialization failures are retried inside.
type Store interface {
	Inserter
	Runner
	Operator

	// Migrate brings the tables to the newest version; it is safe to call
	// from several processes at once, and when there is nothing to do.
	Migrate(ctx context.Context) error
	// CheckSchema returns nil when this program works with the tables as they
	// are, and otherwise an error that matches ErrSchema and says what to do.
	CheckSchema(ctx context.Context) error
	// Close ends the store's own connections. A second call does nothing.
	Close() error
}

// Runner is the half of a [Store] that runs jobs.
type Runner interface {
	// Claim leases due jobs to one worker and counts an attempt for each. A job
	// is claimable when its run_at has come, its kind is in Kinds, its queue in
	// Queues, it is not cancelled and not expired, and it is not leased or its
	// lease has ended. In the latter case its worker was lost: Crashes goes up
	// by one, the lost attempt is logged, LostWorker and LostAt are set, and
	//   - with MaxAttempts 1 the job comes with DoomLost and without a further
	//     attempt being counted,
	//   - a job that was lost SuspectCrashes times or more is left to Sweep.
	//
	// Queues come in the order given, each at most its Limit, all together at most
	// Limit. Within a queue a better priority comes first, and within a priority the
	// tenants that have claimable jobs take turns, the empty one like any other:
	//   - They come in the order of their bytes, and around. A claim begins behind
	//     the tenant at which this store's latest claim of the queue, the kinds
	//     and the priority ended. Only the store's memory knows it.
	//   - Of n jobs each of k tenants gets n/k, rounded down, if it has as many.
	//     If k is more than n, the first n of them get one each. What some leave
	//     goes to the others: a claim is full if there is enough to claim.
	//   - A tenant's jobs are taken by run_at, then id, whatever their kinds.
	//   - They are returned in rounds: each tenant's first job, then each one's
	//     second; within a round by run_at, then id. So the jobs of one tenant
	//     alone come by run_at, id.
	//   - A tenant with a [Limit.Weight] counts as so many. Where a turn ends because the claim
	//     has enough, the next claim goes on with the same tenant.
	//
	// What is paused or held back by a limit is passed over. That a place has become free in
	// another process may be noticed a second late.
	//
	// Two claims never return the same job while a lease holds, and
	// never wait for each other's rows. What comes in behind jobs that claims
	// have passed already (given back, lost, committed late, of a priority that
	// the queue did not have) may be found later than by the next claim: by 5 s
	// at most, or by the time that a look through the whole queue takes, if that
	// is longer. What a claim leased whose answer was lost is taken by the next one
	// that names its token as Unanswered; if none does, it is found when the
	// leases have ended, and that counts as a loss.
	Claim(ctx context.Context, req ClaimRequest) ([]*Claimed, error)

	// NextDue returns how long it is until the first job of these queues and
	// kinds becomes due that is not due yet, or, if the store's latest claim of them met
	// due jobs that a limit held back, until one of them may be let go, whichever is sooner;
	// ok is false when there is none. It
	// reads only what it looks for, however many jobs wait, and writes nothing.
	NextDue(ctx context.Context, queues, kinds []string) (in time.Duration, ok bool, err error)

	// Sweep leases jobs that a claim does not take: at most Limit that are to
	// be ended, of whatever kind and queue (Doom says why: cancelled and not
	// leased any more; expired while waiting; lost CrashLimit times), and, when
	// Suspect is set, at most one that was lost SuspectCrashes times or more
	// but not CrashLimit times, which is due, in Kinds, Queues and Tenants, and not held back, to be
	// run: it counts an attempt as in Claim. One lost just now counts as in Claim.
	Sweep(ctx context.Context, req SweepRequest) ([]*Claimed, error)

	// Renew moves the end of each lease to d from now. It reports the leases
	// that are lost, and those whose jobs an operator wants cancelled. A lease
	// that has ended but that nobody else has taken is renewed, unless the job's place under
	// a limit has been given to another one meanwhile. One whose row is locked is passed over.
	Renew(ctx context.Context, leases []Lease, d time.Duration) (Renewed, error)

	// CancelRequests returns those of leases whose jobs an operator wants
	// cancelled. It writes nothing.
	CancelRequests(ctx context.Context, leases []Lease) ([]Lease, error)

	// Settle ends attempts, all in one transaction, each fenced by its lease:
	// one whose lease is lost changes nothing and is returned in refused. A
	// lease that has ended but that nobody else has taken, nor its place under a limit, is
	// still accepted.
	// Ids within one call are distinct.
	Settle(ctx context.Context, settlements []Settlement) (refused []Lease, err error)

	// Checkpoint stores data with a running job, or returns ErrLeaseLost.
	Checkpoint(ctx context.Context, lease Lease, data json.RawMessage) error

	// Beat records that a worker is alive; Leave forgets it. Correctness never
	// depends on either: they are for people.
	Beat(ctx context.Context, w WorkerInfo) error
	Leave(ctx context.Context, worker string) error

	// Maintain does the store's housekeeping: history past its retention, the
	// next days' partitions, workers that left without saying so. It is cheap
	// when there is nothing to do, and removes no job that has not ended.
	Maintain(ctx context.Context) error
}

// SuspectCrashes is how often a job must have been lost to be a suspect: one
// that may be what kills its workers. A worker runs one suspect at a time, so
// that what kills a process takes no other suspect along; without that, every
// job that happened to run beside a killer would be dead together with it.
// Chosen: one loss is an accident.
const SuspectCrashes = 2

// CrashLimit is how often a job is lost before it is dead. It is above what
// bystanders of a killer can collect (SuspectCrashes, and one for each other
// killer). Chosen, not measured. A job with MaxAttempts 1 is dead at the first.
const CrashLimit = 5

// ClaimRequest asks for jobs. Those up to Lease must be set.
type ClaimRequest struct {
	Queues []QueueLimit
	Limit  int // of all queues together
	Kinds  []string
	Worker string        // the name of the lease's holder
	Token  int64         // from NewToken, fresh for this call
	Lease  time.Duration // how long the lease holds
	// Unanswered are the tokens of earlier claims of this worker whose answer
	// was lost. A job that is leased with one of them has not been seen by
	// anybody: it is claimed as that claim would have given it, without a loss
	// or a further attempt being counted.
	Unanswered []int64
	// Thorough has the store look at everything that is due, and not only
	// behind positions that it remembers from earlier claims.
	Thorough bool
	// MaxBytes bounds what the payloads of the answer have together: it ends with the job that
	// reaches it, so it has at least one. What else was found is left as it is, or given back
	// uncharged. 0 is no bound.
	MaxBytes int
	// FromLowest has each queue's lowest priority come first and its best last.
	FromLowest bool
	// Tenants are those whose jobs are wanted; nil: all, also jobs without a tenant.
	Tenants []string
	// MostOfKind bounds how many are wanted of a kind, over all queues; those not in it have no
	// bound of their own.
	MostOfKind map[string]int
	// Free is of how many jobs it is known that they can start at once; what is claimed beyond
	// it waits in the worker for a while. Of jobs under a limit ([Limit]) a claim gives no more
	// than Free, so that none takes up a place while it waits, and sets their
	// [Claimed.Limited]. 0 is Limit; less than 0 is none. That Free left jobs behind is no
	// reason for [Runner.NextDue] to name a time: the worker asks for them when it can.
	Free int
}

// QueueLimit is a queue and how many jobs are wanted of it.
type QueueLimit struct {
	Queue string
	Limit int
}

// SweepRequest asks for the jobs that claims leave. All fields but Suspect must
// be set.
type SweepRequest struct {
	Limit   int
	Suspect bool // also one suspect to run
	Queues  []string
	Kinds   []string
	Tenants []string // of the suspect; nil: any
	Worker  string
	Token   int64
	Lease   time.Duration
}

// Renewed is the result of a renewal. A lease that is neither in Lost nor in
// Passed was renewed.
type Renewed struct {
	Lost []Lease
	// Passed are leases that were not renewed although they are not known to be
	// lost: somebody has locked the job's row, and waiting for that would let
	// the other leases end. They end when they would have ended without this
	// renewal.
	Passed []Lease
	// Cancelled are leases whose jobs an operator wants cancelled, whether they
	// were renewed or passed.
	Cancelled []Lease
}

// Settlement ends one attempt.
type Settlement struct {
	Lease   Lease
	Outcome Outcome
	// Delay puts off the next attempt from now: for OutcomeRetry and
	// OutcomeSnoozed. It never takes run_at past the Horizon.
	Delay time.Duration
	// Reason is set for OutcomeDead.
	Reason DeadReason
	// Error is this attempt's error for the log; valid UTF-8 without NUL, at
	// most MaxErrorBytes.
	Error string
	// Errors is the job's history from now on, for OutcomeRetry and OutcomeDead.
	Errors []AttemptError
}

// What an outcome does to the job:
//
//	done       deleted
//	retry      run_at = now + Delay; failures + 1; crashes 0; Errors stored; lease cleared
//	snoozed    run_at = now + Delay; attempt − 1;  crashes 0; lease cleared
//	released   run_at unchanged;     attempt − 1;  lease cleared
//	dead       moved to the dead jobs with Reason and Errors; failures + 1, unless it was lost
//	cancelled  deleted
//	expired    deleted
//
// Each but released writes one row into the log, unless the log is off.

// WorkerInfo describes a running worker process.
type WorkerInfo struct {
	Name      string // unique: it ends in a nonce made at the start
	Host      string
	PID       int
	Version   string
	Queues    []string
	Kinds     []string
	Tenants   []string // whose jobs it runs; nil: all, also jobs without a tenant
	Slots     int
	Running   int
	StartedAt time.Time // set by the store at the first beat
	SeenAt    time.Time // set by the store
}

// Migrator is what a store with tables offers besides [Store.Migrate].
type Migrator interface {
	// MigrateDown goes back to the given version, 0 being nothing at all. It
	// drops what is in the tables that go.
	MigrateDown(ctx context.Context, version int) error
	// Migrations lists every migration that this program or the database knows,
	// by version.
	Migrations(ctx context.Context) ([]MigrationStatus, error)
	// MigrationSQL is the SQL of all migrations, for those who run it with a
	// tool of their own: up in the order of versions, or down in the reverse.
	MigrationSQL(down bool) string
}

// MigrationStatus is one migration.
type MigrationStatus struct {
	Version   int
	Name      string
	AppliedAt time.Time // zero: not applied
	Known     bool      // to this program
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// The values of a zero [Config].
const (
	// DefaultConcurrency suits handlers that mostly wait for somebody else.
	// Chosen, not measured: ten handlers that each hold a connection still
	// leave room in an ordinary pool.
	DefaultConcurrency = 10
	// DefaultLease is how long after a crash a job is claimed again. Chosen:
	// three renewals fit, each of which may fail without harm.
	DefaultLease = 60 * time.Second
	// DefaultPoll is how often an idle worker looks for work that it was not woken
	// for; half as often where wake-ups are heard. Chosen.
	DefaultPoll = time.Second
	// DefaultGrace is how long a handler may take to notice that its context
	// has ended. Chosen, not measured.
	DefaultGrace = 10 * time.Second
	// DefaultDrainTimeout and DrainReserve together stay below the 30 s after
	// which Kubernetes kills a pod (terminationGracePeriodSeconds).
	DefaultDrainTimeout = 25 * time.Second
	// DrainReserve is the most that a drain takes after its timeout: half of it
	// for handlers to return, half to store what became of them. Chosen.
	DrainReserve = 4 * time.Second

	// MinLease is the shortest lease. Chosen: below it a busy machine's pauses
	// look like crashes.
	MinLease = time.Second
	// MaxConcurrency bounds the slots, and with them one claim. Chosen.
	MaxConcurrency = 10_000
	// MinSnooze is the shortest delay that a snooze gets. A job that always
	// snoozes for 0 would keep a worker and its database busy without a pause,
	// and a Drain would never end. Chosen: far above a round trip to the
	// database, and below DefaultPoll.
	MinSnooze = 100 * time.Millisecond
	// DefaultLowestEvery leaves nine tenths of the claims to the order of priorities. Chosen.
	DefaultLowestEvery = 10
	// HookTimeout bounds a call of OnError, OnDead or OnExpired. Chosen, not measured.
	HookTimeout = 10 * time.Second
)

// Config is how a worker runs. The zero value is one worker for the queue
// "default" with ten slots.
type Config struct {
	// Queues are the queues that are served; none is the queue "default" alone.
	Queues []Queue
	// Concurrency is the number of slots: how many jobs run at once. 0 is
	// DefaultConcurrency, MaxConcurrency the most. Of jobs that are measured to
	// be short, as many more are claimed as will start within 100 ms, at most
	// 4,000 and at most 8 MiB of payloads by the average of the latest claim, and none
	// with MaxAttempts 1; Stats.Waiting counts them. A job of
	// better priority goes ahead of them, but is claimed only when half of them
	// are gone: it starts at most some 100 ms late because of them, and 500 ms
	// late if they become slow just then, since after that they are given back.
	Concurrency int
	// LowestEvery is the part of the claims that begin at the lowest priority of each queue and
	// end at the best: every so many of those that find jobs, so that no priority waits for
	// ever behind a better one. 0 is DefaultLowestEvery; less than 0 is never, which makes
	// priorities strict.
	LowestEvery int
	// KindSlots is how many jobs of a kind this process runs at once, for kinds that are to
	// have fewer than Concurrency: at least 1. Those that are claimed and wait count as well,
	// and a handler that was abandoned keeps its place. For a bound over all processes see
	// later.Limit.
	KindSlots map[string]int
	// Tenants are those whose jobs are run, "" being the jobs without one; nil is all. Jobs of
	// others are ended here if they are cancelled, have expired or were lost too often, but never run.
	Tenants []string
	// Lease is how long a claim holds without being renewed, and so how long a
	// crashed worker's jobs wait. 0 is DefaultLease; at least MinLease. It
	// needs no relation to the jobs' timeouts: leases are renewed.
	Lease time.Duration
	// RenewEvery is the time between renewals; 0 is a third of Lease, which is
	// also the most, so that one failed renewal does no harm.
	RenewEvery time.Duration
	// Poll is how often an idle worker looks for jobs and a busy one for
	// requests to cancel; 0 is DefaultPoll. Each wait is spread by ±10%, so
	// that workers do not fall into step. A worker whose store wakes it looks
	// half as often. Jobs that are known to become due start on time whatever
	// it is; a job that is enqueued for a time before the next look, unheard,
	// waits for that look.
	Poll time.Duration
	// Grace is how long a handler may go on after its context ended by a
	// timeout, a lost lease or a cancel, before it is abandoned; 0 is
	// DefaultGrace.
	Grace time.Duration
	// DrainTimeout is how long the running jobs may go on after the context of
	// Run was cancelled. Then their contexts end with later.ErrShutdown, those
	// that fail because of it are released without being charged an attempt,
	// and Run returns at most DrainReserve later. 0 is DefaultDrainTimeout.
	DrainTimeout time.Duration
	// Name names the worker in leases, logs and the list of workers; "" is
	// HOST-PID. A random suffix is always added, so that a restarted process is
	// never taken for the one before it. The rules are those of later.CheckName
	// with at most 90 bytes.
	Name string
	// Version is shown in the list of workers; "" is that of the main module
	// from the build information.
	Version string
	// Logger gets the worker's messages; nil is slog.Default(). Payloads are
	// never logged.
	Logger *slog.Logger

	// OnError is called after an attempt failed and that was stored: the place
	// to tell an error tracker. It is called from several goroutines at once. A
	// panic is caught; ctx ends after HookTimeout. The job's slot stays taken
	// until it returns, so that hooks cannot pile up. It is not called for
	// results that the store refused, nor for lost workers.
	OnError func(ctx context.Context, f Failure)
	// OnDead is called after a job has become dead and that was stored, after
	// OnError, and under the same rules. Unlike OnError it is also called when
	// the job is dead because its workers were lost.
	OnDead func(ctx context.Context, f Failure)
	// OnExpired is called after a job has expired while it waited, for its first attempt or a
	// further one, and that was stored: it will not be run. A panic is caught, and ctx ends after
	// HookTimeout. It is not called where the store's answer was lost at first (Stats.Unclear).
	OnExpired func(ctx context.Context, job later.Record)
}

// Queue is a queue that a worker serves.
type Queue struct {
	Name string
	// Share is this queue's part of the slots, relative to the other queues',
	// while all of them have work; slots that a queue has no work for are lent
	// to the others. 0 is 1.
	Share int
}

// Failure is a failed attempt, as the hooks see it.
type Failure struct {
	// Job is the job as it was claimed; its Errors are those up to now, this
	// attempt's included.
	Job later.Record
	// Worker is the name of the worker.
	Worker string
	// Err is what the handler returned, or a *PanicError, or an error that
	// matches later.ErrTimeout, …
	Err error
	// Stack is the handler's stack after a panic or a runtime.Goexit; else
	// empty.
	Stack string
	// Outcome is OutcomeRetry or OutcomeDead.
	Outcome later.Outcome
	// Reason is set when the job is dead.
	Reason later.DeadReason
	// RetryIn is when the job runs again, if it is not dead.
	RetryIn time.Duration
}

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
}

func (e *PanicError) Error() string { return "panic: " + panicText(e.Value) }

// Unwrap returns the panic's value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// withDefaults returns c with its zero values filled in, or says which value is
// out of range.
func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		name   string
		value  *time.Duration
		byZero time.Duration
	}{
		{"Lease", &c.Lease, DefaultLease},
		{"Poll", &c.Poll, DefaultPoll},
		{"Grace", &c.Grace, DefaultGrace},
		{"DrainTimeout", &c.DrainTimeout, DefaultDrainTimeout},
		{"RenewEvery", &c.RenewEvery, 0},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("worker: %s %v is negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.byZero
		}
	}
	if c.Lease < MinLease {
		return c, fmt.Errorf("worker: Lease %v is under %v", c.Lease, MinLease)
	}
	if c.RenewEvery == 0 {
		c.RenewEvery = c.Lease / 3
	}
	if c.RenewEvery > c.Lease/3 {
		return c, fmt.Errorf("worker: RenewEvery %v is more than a third of Lease %v", c.RenewEvery, c.Lease)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"RenewEvery", c.RenewEvery}, {"Poll", c.Poll}} {
		if d.value < time.Millisecond {
			return c, fmt.Errorf("worker: %s %v is under 1ms", d.name, d.value)
		}
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Concurrency < 0 || c.Concurrency > MaxConcurrency {
		return c, fmt.Errorf("worker: Concurrency %d is not between 1 and %d", c.Concurrency, MaxConcurrency)
	}
	if c.LowestEvery == 0 {
		c.LowestEvery = DefaultLowestEvery
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if err := c.checkTenants(); err != nil {
		return c, err
	}
	return c, c.checkQueues()
}

func (c *Config) checkTenants() error {
	if c.Tenants != nil && len(c.Tenants) == 0 {
		return errors.New("worker: Tenants is empty, so there is nothing to run; nil is all of them")
	}
	for i, tenant := range c.Tenants {
		if err := later.CheckTenant(tenant); err != nil {
			return fmt.Errorf("worker: Tenants[%d]: %w", i, err)
		}
		if slices.Contains(c.Tenants[:i], tenant) {
			return fmt.Errorf("worker: Tenants names %q twice", tenant)
		}
	}
	c.Tenants = slices.Clone(c.Tenants) // the caller's slice may change
	return nil
}

// checkKinds checks what is said of single kinds against those that have a handler.
func (c *Config) checkKinds(kinds []string) error {
	for _, kind := range slices.Sorted(maps.Keys(c.KindSlots)) {
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("worker: KindSlots has the kind %q, which has no handler", kind)
		}
		if slots := c.KindSlots[kind]; slots < 1 {
			return fmt.Errorf("worker: KindSlots[%q] %d is under 1", kind, slots)
		}
	}
	c.KindSlots = maps.Clone(c.KindSlots)
	return nil
}

// maxShare keeps sums of shares far from overflowing.
const maxShare = 1_000_000

func (c *Config) checkQueues() error {
	if len(c.Queues) == 0 {
		c.Queues = []Queue{{Name: later.DefaultQueue}}
	}
	queues := make([]Queue, len(c.Queues)) // the caller's slice stays as it is
	seen := map[string]bool{}
	for i, q := range c.Queues {
		if err := later.CheckName(fmt.Sprintf("Queues[%d].Name", i), q.Name); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		if seen[q.Name] {
			return fmt.Errorf("worker: Queues names %q twice", q.Name)
		}
		seen[q.Name] = true
		if q.Share < 0 || q.Share > maxShare {
			return fmt.Errorf("worker: Queues[%d].Share %d of queue %q is not between 1 and %d", i, q.Share, q.Name, maxShare)
		}
		if q.Share == 0 {
			q.Share = 1
		}
		queues[i] = q
	}
	c.Queues = queues
	return nil
}

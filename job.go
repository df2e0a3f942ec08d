package later

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// Record is a job as it is stored.
type Record struct {
	ID          int64
	Queue       string
	Priority    int16
	Tenant      string
	Kind        string
	Payload     json.RawMessage // the bytes that were enqueued
	RunAt       time.Time
	Attempt     int // number of the current or last attempt; 0 before the first
	MaxAttempts int
	Timeout     time.Duration
	ExpiresAt   time.Time // zero: never
	Headers     map[string]string
	CreatedAt   time.Time
	// Failures is how many attempts failed; at MaxAttempts the job is dead.
	Failures int
	// Crashes is how many attempts in a row ended with a lost lease: their
	// worker died, or was cut off. An attempt with a result takes it back to 0.
	Crashes int
	// Generation is how often the job was retried from the dead.
	Generation int
	// Errors are the failed attempts: the first and the newest, at most
	// [MaxAttemptErrors].
	Errors []AttemptError
	// Checkpoint is what the handler last saved, nil if nothing.
	Checkpoint json.RawMessage
}

// IdempotencyKey is the same for every attempt of one job, and for no other
// job: give it to a third party that offers idempotency. It changes when an
// operator retries the job from the dead, because that is a new decision; it does
// not when a request replaces the job's payload ([Replace]). Two
// databases that count their ids alike do not share keys: the key has the moment
// of the enqueue in it, to the microsecond (SQLite: millisecond).
func (r *Record) IdempotencyKey() string {
	return fmt.Sprintf("later-%d-%s-%d", r.ID, strconv.FormatInt(r.CreatedAt.UnixMicro(), 36), r.Generation)
}

// AttemptError is a failed attempt as it is kept with the job.
type AttemptError struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"` // by the clock of whoever recorded it
	Worker  string    `json:"worker,omitempty"`
	Error   string    `json:"error"` // valid UTF-8, at most MaxErrorBytes, with the stack after a panic
}

const (
	// MaxErrorBytes bounds the text of one failed attempt, its stack included.
	// Chosen, not measured: a stack of 20 frames fits.
	MaxErrorBytes = 4 << 10
	// MaxAttemptErrors bounds how many failed attempts a job remembers. Chosen:
	// with MaxErrorBytes it bounds the row at 32 KiB beside the payload (at six
	// times that if the texts are all control characters, which JSON escapes).
	MaxAttemptErrors = 8
	// MaxCheckpointBytes bounds a checkpoint. Chosen: progress, not results.
	MaxCheckpointBytes = 64 << 10
)

// AppendError adds e to a job's history: the first entry and the newest ones
// stay.
func AppendError(errors []AttemptError, e AttemptError) []AttemptError {
	e.Error = CleanText(e.Error, MaxErrorBytes)
	kept := make([]AttemptError, 0, MaxAttemptErrors)
	kept = append(kept, errors...)
	if len(kept) >= MaxAttemptErrors {
		kept = append(kept[:1], kept[len(kept)-MaxAttemptErrors+2:]...)
	}
	return append(kept, e)
}

// Lease is the proof of a claim: the fencing token that every settle and every
// renewal carries. The token is random for each claim statement and never zero.
type Lease struct {
	ID    int64
	Token int64
}

// NewToken returns a fresh random token from 1 to 2⁶³−1. A counter would not
// do: a snooze, a release, a requeue or a failover can take one back and give
// the same number twice.
func NewToken() int64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails (crypto/rand)
		if token := int64(binary.BigEndian.Uint64(b[:]) >> 1); token != 0 {
			return token
		}
	}
}

// Doom says why a claimed job must not be run but ended.
type Doom string

const (
	// DoomNone: the job is to be run.
	DoomNone Doom = ""
	// DoomLost: its worker was lost, and it was lost too often.
	DoomLost Doom = "lost"
	// DoomCancelled: an operator cancelled it and its worker is gone.
	DoomCancelled Doom = "cancelled"
	// DoomExpired: it expired while waiting.
	DoomExpired Doom = "expired"
)

// Claimed is a job under a lease. A handler has it as part of its [Job]; its
// methods are safe for concurrent use.
type Claimed struct {
	Record
	Lease Lease
	Doom  Doom
	// Now is the database's clock at the claim.
	Now time.Time
	// LostWorker and LostAt name the worker whose lease on this job ended
	// before this claim, and when; empty if there was none.
	LostWorker string
	LostAt     time.Time
	// Limited says that a limit holds for the job's queue, kind or tenant. It takes up a place
	// from the claim on, so a worker starts it ahead of others that wait.
	Limited bool
	// Turn is the round of its queue and priority in which the claim's answer has the job, from 0: in
	// each, a tenant has as many jobs as it weighs. A worker in which jobs wait for a slot goes on in rounds
	// when a claim brings more.
	Turn int

	hold *hold
}

// hold is what the runtime knows of a running job.
type hold struct {
	checkpoint func(ctx context.Context, lease Lease, data json.RawMessage) error
	// settled counts the calls of MarkSettled, undone those of them whose
	// transaction is known to have been rolled back.
	settled, undone atomic.Int64
}

// Held is a job that its handler holds under a lease: every *[Job] is one.
type Held interface {
	// HeldLease is the fencing token.
	HeldLease() Lease
	// HeldTenant is on whose behalf the job runs, "" if on nobody's.
	HeldTenant() string
	// MarkSettled tells the runtime that the handler has settled the job in a
	// transaction of its own. Only the stores' DoneTx calls it.
	MarkSettled()
}

// Bind prepares c for being handed to a handler; the runtime calls it once.
func (c *Claimed) Bind(store Store) {
	c.hold = &hold{checkpoint: store.Checkpoint}
}

// HeldLease returns the lease.
func (c *Claimed) HeldLease() Lease { return c.Lease }

// HeldTenant returns the tenant.
func (c *Claimed) HeldTenant() string { return c.Tenant }

// MarkSettled implements [Held].
func (c *Claimed) MarkSettled() {
	if c.hold != nil {
		c.hold.settled.Add(1)
	}
}

// SettledInTx reports whether DoneTx was called for c in a transaction that is
// not known to have been rolled back. It says nothing of whether that
// transaction was committed.
func (c *Claimed) SettledInTx() bool {
	return c.hold != nil && c.hold.settled.Load() > c.hold.undone.Load()
}

// SettledMarks returns how often DoneTx was called for c, rolled back or not.
func (c *Claimed) SettledMarks() int64 {
	if c.hold == nil {
		return 0
	}
	return c.hold.settled.Load()
}

// ClearSettled notes that the transactions of the first marks calls of DoneTx
// were rolled back. A call that has come since then stays marked: hence the
// number, which is what [Claimed.SettledMarks] returned before it was asked.
func (c *Claimed) ClearSettled(marks int64) {
	if c.hold == nil {
		return
	}
	for {
		undone := c.hold.undone.Load()
		if undone >= marks || c.hold.undone.CompareAndSwap(undone, marks) {
			return
		}
	}
}

// SaveCheckpoint stores v, as JSON, with the job, so that the next attempt can
// go on from there (Record.Checkpoint). It is fenced: after the lease is lost
// it returns [ErrLeaseLost] and stores nothing. At most [MaxCheckpointBytes],
// with the rules of [CheckPayload]; else the error is a [FieldError].
func (c *Claimed) SaveCheckpoint(ctx context.Context, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("checkpoint of job %d: %w", c.ID, err)
	}
	if len(data) > MaxCheckpointBytes {
		return &FieldError{Field: "checkpoint", Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(data), MaxCheckpointBytes)}
	}
	var fault *FieldError
	if errors.As(CheckPayload(data), &fault) {
		return &FieldError{Field: "checkpoint", Path: fault.Path, Reason: fault.Reason}
	}
	if c.hold == nil {
		return fmt.Errorf("checkpoint of job %d: %w", c.ID, ErrLeaseLost)
	}
	if err := c.hold.checkpoint(ctx, c.Lease, data); err != nil {
		return fmt.Errorf("checkpoint of job %d: %w", c.ID, err)
	}
	return nil
}

// Job is one attempt at a job, as its handler sees it.
type Job[P any] struct {
	*Claimed
	Payload P
}

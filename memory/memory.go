// Package memory is a [later.Store] in the memory of one process, for unit
// tests: it keeps the whole contract (package storetest runs on it), needs no
// database, and loses everything with its process.
//
// Its clock is time.Now and it starts no goroutine and no timer, so inside a
// testing/synctest bubble its jobs live by the bubble's fake clock: a job with
// a delay of a day is due after a time.Sleep of a day that takes no time.
//
//	synctest.Test(t, func(t *testing.T) {
//		store := memory.New()
//		w, err := worker.New(store, handlers, worker.Config{})
//		…
//		_, err = store.Enqueue(t.Context(), Reminder{Email: "ann@example.com"},
//			later.Options{Delay: 24 * time.Hour})
//		time.Sleep(24 * time.Hour)
//		summary, err := w.Drain(t.Context()) // runs all that is due
//
// It has no transactions, and so neither EnqueueTx nor DoneTx: code that uses
// them is tested on the database that it is written for (package sqlite needs
// no server).
package memory

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/admit"
)

const (
	// logRetention is how long Maintain keeps the log of finished attempts: the
	// databases' default.
	logRetention = 7 * 24 * time.Hour
	// workerRetention is how long a worker that left without saying so is
	// shown. Chosen: several times the interval between beats.
	workerRetention = 5 * time.Minute
)

// Store keeps jobs in memory; [New] makes it. It is safe for concurrent use.
type Store struct {
	*later.Client

	mu      sync.Mutex
	closed  bool
	lastID  int64
	jobs    map[int64]*job
	ready   map[string]*queue
	leased  map[int64]*job       // that have a lease, also one that has ended
	turns   map[turnKey]turnMark // at whom the latest claim ended
	dead    map[int64]*deadJob
	log     map[int64][]later.LogEntry // by job, oldest first
	workers map[string]later.WorkerInfo
	keys    map[uniqueKey]*job       // who holds each key
	windows map[uniqueKey]*keyWindow // whose end has not come, or has not been tidied up
	watches []*watch                 // those that wait
	paused  map[later.Scope]later.Pause

	limitOf    map[later.Scope]later.ScopeLimit
	limits     *admit.Limits // the same, as claims need them
	gateStates map[later.Scope]gateState
	heldUntil  map[string]time.Time // by what was claimed: when held-back jobs may be let go
}

// latest is the last run_at that can be stored: the Horizon in the databases'
// coarsest clock, which has milliseconds.
var latest = later.Horizon.Add(-time.Millisecond)

var _ later.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	s := &Store{
		jobs:    map[int64]*job{},
		ready:   map[string]*queue{},
		leased:  map[int64]*job{},
		turns:   map[turnKey]turnMark{},
		dead:    map[int64]*deadJob{},
		log:     map[int64][]later.LogEntry{},
		workers: map[string]later.WorkerInfo{},
		keys:    map[uniqueKey]*job{},
		windows: map[uniqueKey]*keyWindow{},
		paused:  map[later.Scope]later.Pause{},

		limitOf:    map[later.Scope]later.ScopeLimit{},
		gateStates: map[later.Scope]gateState{},
		heldUntil:  map[string]time.Time{},
	}
	s.Client = later.NewClient(s)
	return s
}

// Migrate does nothing: there are no tables.
func (s *Store) Migrate(ctx context.Context) error {
	_, unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// CheckSchema returns nil: there are no tables.
func (s *Store) CheckSchema(ctx context.Context) error { return s.Migrate(ctx) }

// Close makes every later call return [later.ErrClosed]. What was stored stays
// in memory as long as the store does, and cannot be reached any more.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// lock begins an operation: it returns the clock's time, the same for all that
// the operation does, and what ends it.
func (s *Store) lock(ctx context.Context) (now time.Time, unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return time.Time{}, nil, later.ErrClosed
	}
	// UTC strips the location and Round the monotonic reading, as a database does.
	return time.Now().UTC().Round(0), s.mu.Unlock, nil
}

// job is a waiting or running job.
type job struct {
	later.Record
	lease    *lease
	cancelAt time.Time
	key      string // that it holds, or when dead takes again; "" if none
	until    later.Until
}

// lease is a claim on a job. It stays after its end until somebody takes the
// job, because its holder is told so by the next claim.
type lease struct {
	token     int64
	holder    string
	claimedAt time.Time
	until     time.Time
	doomed    bool // it is not for running the job, but for ending it
}

// fenced is the token of a lease that has ended and whose place under a limit was given to
// another job: nobody holds it any more.
const fenced = 0

// holds reports whether the job is running at now.
func (j *job) holds(now time.Time) bool { return j.lease != nil && !j.lease.until.Before(now) }

// lost is 1 when the job's worker was lost and no claim has counted it yet.
func (j *job) lost(now time.Time) int {
	if j.lease != nil && j.lease.until.Before(now) {
		return 1
	}
	return 0
}

func (j *job) expired(now time.Time) bool {
	return !j.ExpiresAt.IsZero() && !j.ExpiresAt.After(now)
}

// deadJob is a job that waits for a person's decision.
type deadJob struct {
	later.Record
	key    string
	until  later.Until
	diedAt time.Time
	reason later.DeadReason
}

// held returns the job that l holds, or nil when the lease is lost.
func (s *Store) held(l later.Lease) *job {
	j := s.jobs[l.ID]
	if j == nil || j.lease == nil || j.lease.token != l.Token || l.Token == fenced {
		return nil
	}
	return j
}

// add makes j a waiting job.
func (s *Store) add(j *job, now time.Time) {
	s.jobs[j.ID] = j
	s.takeKey(j)
	q := s.ready[j.Queue]
	if q == nil {
		q = &queue{}
		s.ready[j.Queue] = q
	}
	q.add(j)
	s.wake(j.Queue, j.RunAt, now)
}

// remove takes j out of the store.
func (s *Store) remove(j *job) {
	delete(s.jobs, j.ID)
	delete(s.leased, j.ID)
	s.freeKey(j)
	q := s.ready[j.Queue]
	q.remove(j)
	if q.empty() {
		delete(s.ready, j.Queue)
	}
	s.freed(&j.Record)
}

// move changes the job's run_at and its place in the queue with it.
func (s *Store) move(j *job, runAt, now time.Time) {
	q := s.ready[j.Queue]
	q.remove(j)
	j.RunAt = runAt
	q.add(j)
	s.wake(j.Queue, runAt, now)
}

// record finishes an attempt in the log.
func (s *Store) record(j *later.Record, l *lease, outcome later.Outcome, finishedAt time.Time, text string) {
	entry := later.LogEntry{
		JobID: j.ID, Attempt: j.Attempt, Queue: j.Queue, Kind: j.Kind, Tenant: j.Tenant,
		Outcome: outcome, FinishedAt: finishedAt, Error: text,
	}
	if l != nil {
		entry.Worker, entry.StartedAt = l.holder, l.claimedAt
	}
	s.log[j.ID] = append(s.log[j.ID], entry)
}

// copyRecord is a deep copy: neither side sees what the other changes.
func copyRecord(r later.Record) later.Record {
	r.Payload = copyBytes(r.Payload)
	r.Checkpoint = copyBytes(r.Checkpoint)
	r.Headers = maps.Clone(r.Headers)
	r.Errors = copyErrors(r.Errors)
	return r
}

// copyBytes keeps the difference between nil and empty.
func copyBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func copyErrors(errors []later.AttemptError) []later.AttemptError {
	if len(errors) == 0 {
		return nil
	}
	kept := make([]later.AttemptError, len(errors))
	for i, e := range errors {
		e.At = e.At.UTC().Round(0)
		kept[i] = e
	}
	return kept
}

// inTime is at, or the last run_at that can be stored.
func inTime(at time.Time) time.Time {
	if at.After(latest) {
		return latest
	}
	return at
}

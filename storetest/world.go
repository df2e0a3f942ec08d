package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/later-queue/later"
)

const (
	// long is a lease, a delay or an expiry that does not end during a test.
	long = time.Hour
	// short is one that has ended soon: world.endLease and world.pass wait for
	// it by the store's clock.
	short = time.Millisecond
	// patience is how long the suite waits for what must happen. It bounds a
	// failing test, not a passing one.
	patience = time.Minute

	kind   = "work"
	queue  = later.DefaultQueue
	worker = "worker-1"
)

// world is a store and what a test needs to speak about it.
type world struct {
	t     failer
	ctx   context.Context
	store later.Store
}

func newWorld(t *testing.T, open Open) *world {
	t.Helper()
	return &world{t: t, ctx: t.Context(), store: open(t)}
}

// client enqueues as users do.
func (w *world) client() *later.Client { return later.NewClient(w.store) }

// raw is a job of the suite's kind with the payload given.
func raw(payload string) later.RawArgs {
	return later.RawArgs{JobKind: kind, Payload: []byte(payload)}
}

// enqueue stores one job with an empty payload.
func (w *world) enqueue(opts later.Options) int64 {
	w.t.Helper()
	return w.enqueueArgs(raw(`{}`), opts)
}

func (w *world) enqueueArgs(args later.Args, opts later.Options) int64 {
	w.t.Helper()
	done, err := w.client().Enqueue(w.ctx, args, opts)
	if err != nil {
		w.t.Fatalf("Enqueue: %v", err)
	}
	return done.ID
}

// enqueueMany stores n equal jobs.
func (w *world) enqueueMany(n int, args later.Args, opts later.Options) []int64 {
	w.t.Helper()
	requests := make([]later.Request, n)
	for i := range requests {
		requests[i] = later.Request{Args: args, Options: opts}
	}
	done, err := w.client().EnqueueMany(w.ctx, requests)
	if err != nil {
		w.t.Fatalf("EnqueueMany: %v", err)
	}
	if len(done) != n {
		w.t.Fatalf("EnqueueMany: got %d results, want %d", len(done), n)
	}
	ids := make([]int64, n)
	for i, d := range done {
		ids[i] = d.ID
	}
	return ids
}

// ask is a claim of the suite's kind and queue; change it before use.
func ask(limit int) later.ClaimRequest {
	return later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: queue, Limit: limit}}, Limit: limit,
		Kinds: []string{kind}, Worker: worker, Token: later.NewToken(), Lease: long,
	}
}

func (w *world) claimWith(req later.ClaimRequest) []*later.Claimed {
	w.t.Helper()
	jobs, err := w.store.Claim(w.ctx, req)
	if err != nil {
		w.t.Fatalf("Claim: %v", err)
	}
	return jobs
}

// claim takes n jobs of the suite's kind and queue, in as many claims as that
// takes: see [Run] on jobs that come in behind a claim.
func (w *world) claim(n int) []*later.Claimed {
	w.t.Helper()
	var jobs []*later.Claimed
	w.eventually(fmt.Sprintf("%d jobs are claimed", n), func() bool {
		jobs = append(jobs, w.claimWith(ask(n-len(jobs)))...)
		return len(jobs) == n
	})
	return jobs
}

// claimOne takes the one job that can be taken.
func (w *world) claimOne() *later.Claimed {
	w.t.Helper()
	var jobs []*later.Claimed
	w.eventually("a job is claimed", func() bool {
		jobs = w.claimWith(ask(10))
		return len(jobs) > 0
	})
	if len(jobs) > 1 {
		w.t.Fatalf("Claim: got the jobs %v, want one", idsOf(jobs))
	}
	return jobs[0]
}

// claimInOrder takes the jobs with these ids in one claim, which must return
// them in this order; until it does, it gives back what it got.
func (w *world) claimInOrder(ids ...int64) []*later.Claimed {
	w.t.Helper()
	var jobs []*later.Claimed
	w.eventually(fmt.Sprintf("the jobs %v are claimed in this order", ids), func() bool {
		jobs = w.claimWith(ask(len(ids) + 10))
		if slices.Equal(idsOf(jobs), ids) {
			return true
		}
		var ends []later.Settlement
		for _, c := range jobs {
			ends = append(ends, end(c, later.OutcomeReleased))
		}
		w.settle(ends...)
		return false
	})
	return jobs
}

// claimNone fails when there is anything to take.
func (w *world) claimNone() {
	w.t.Helper()
	if jobs := w.claimWith(ask(10)); len(jobs) != 0 {
		w.t.Fatalf("Claim: got %d jobs (the first is %d), want none", len(jobs), jobs[0].ID)
	}
}

// seek is a sweep of the suite's kind and queue; change it before use.
func seek(limit int, suspect bool) later.SweepRequest {
	return later.SweepRequest{
		Limit: limit, Suspect: suspect, Queues: []string{queue}, Kinds: []string{kind},
		Worker: "sweeper", Token: later.NewToken(), Lease: long,
	}
}

func (w *world) sweepWith(req later.SweepRequest) []*later.Claimed {
	w.t.Helper()
	jobs, err := w.store.Sweep(w.ctx, req)
	if err != nil {
		w.t.Fatalf("Sweep: %v", err)
	}
	return jobs
}

// sweepOne is a sweep that must find one job, with the doom given.
func (w *world) sweepOne(suspect bool, doom later.Doom) *later.Claimed {
	w.t.Helper()
	jobs := w.sweepWith(seek(10, suspect))
	if len(jobs) != 1 {
		w.t.Fatalf("Sweep: got %d jobs, want 1", len(jobs))
	}
	if got, want := jobs[0].Doom, doom; got != want {
		w.t.Fatalf("Sweep: got doom %q, want %q", got, want)
	}
	return jobs[0]
}

func (w *world) sweepNone(suspect bool) {
	w.t.Helper()
	if jobs := w.sweepWith(seek(10, suspect)); len(jobs) != 0 {
		w.t.Fatalf("Sweep: got %d jobs (the first is %d, doom %q), want none", len(jobs), jobs[0].ID, jobs[0].Doom)
	}
}

// settle ends attempts, all of which must be accepted.
func (w *world) settle(ends ...later.Settlement) {
	w.t.Helper()
	if refused := w.trySettle(ends...); len(refused) != 0 {
		w.t.Fatalf("Settle: got %v refused, want none", refused)
	}
}

func (w *world) trySettle(ends ...later.Settlement) []later.Lease {
	w.t.Helper()
	refused, err := w.store.Settle(w.ctx, ends)
	if err != nil {
		w.t.Fatalf("Settle: %v", err)
	}
	return refused
}

// end is the settlement of a claimed job, as a runtime makes it.
func end(c *later.Claimed, outcome later.Outcome) later.Settlement {
	s := later.Settlement{Lease: c.Lease, Outcome: outcome}
	switch outcome {
	case later.OutcomeRetry:
		s.Error, s.Errors = "it failed", appendError(c, "it failed")
	case later.OutcomeDead:
		s.Reason, s.Error, s.Errors = later.DeadFailed, "it failed", appendError(c, "it failed")
	}
	return s
}

func appendError(c *later.Claimed, text string) []later.AttemptError {
	return later.AppendError(c.Errors, later.AttemptError{
		Attempt: c.Attempt, At: time.Now().UTC().Truncate(time.Millisecond), Worker: worker, Error: text,
	})
}

// die enqueues a job and ends it dead, with the error text given.
func (w *world) die(args later.Args, opts later.Options, reason later.DeadReason, text string) int64 {
	w.t.Helper()
	id := w.enqueueArgs(args, opts)
	c := w.claimThis(id)
	s := end(c, later.OutcomeDead)
	s.Reason, s.Error, s.Errors = reason, text, appendError(c, text)
	w.settle(s)
	return id
}

// claimThis takes the job id, and gives back whatever else comes before it.
func (w *world) claimThis(id int64) *later.Claimed {
	w.t.Helper()
	info := w.find(id)
	req := ask(1000)
	req.Queues[0].Queue, req.Kinds = info.Queue, []string{info.Kind}
	var found *later.Claimed
	w.eventually(fmt.Sprintf("job %d (%s) is claimed", id, info.State), func() bool {
		req.Token = later.NewToken()
		var others []later.Settlement
		for _, c := range w.claimWith(req) {
			if c.ID == id {
				found = c
				continue
			}
			others = append(others, end(c, later.OutcomeReleased))
		}
		w.settle(others...)
		return found != nil
	})
	return found
}

func (w *world) renew(d time.Duration, leases ...later.Lease) later.Renewed {
	w.t.Helper()
	renewed, err := w.store.Renew(w.ctx, leases, d)
	if err != nil {
		w.t.Fatalf("Renew: %v", err)
	}
	equal(w.t, "leases passed over although nobody has locked their jobs", len(renewed.Passed), 0)
	return renewed
}

// endLease cuts a lease short and waits until it has ended by the store's
// clock: what the death of a worker looks like.
func (w *world) endLease(c *later.Claimed) {
	w.t.Helper()
	if renewed := w.renew(short, c.Lease); len(renewed.Lost) != 0 {
		w.t.Fatalf("Renew: the lease of job %d is lost", c.ID)
	}
	w.eventually("the lease has ended", func() bool { return w.find(c.ID).State == later.StateLost })
}

// lose claims the one job that can be taken and lets its worker die.
func (w *world) lose() *later.Claimed {
	w.t.Helper()
	c := w.claimOne()
	w.endLease(c)
	return c
}

// pass waits until the store's clock is past at; it asks by means of job id.
func (w *world) pass(id int64, at time.Time) {
	w.t.Helper()
	w.eventually("the clock has passed "+at.String(), func() bool { return w.find(id).Now.After(at) })
}

func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	if !within(patience, done) {
		w.t.Fatalf("gave up waiting until %s", what)
	}
}

// within asks again and again, for at most d, and reports whether done was true.
func within(d time.Duration, done func() bool) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}

func (w *world) find(id int64) *later.JobInfo {
	w.t.Helper()
	info, err := w.store.Find(w.ctx, id)
	if err != nil {
		w.t.Fatalf("Find %d: %v", id, err)
	}
	return info
}

func (w *world) list(f later.Filter) []*later.JobInfo {
	w.t.Helper()
	infos, err := w.store.List(w.ctx, f)
	if err != nil {
		w.t.Fatalf("List: %v", err)
	}
	return infos
}

// gone fails when the job is still waiting, running or dead.
func (w *world) gone(id int64) {
	w.t.Helper()
	info, err := w.store.Find(w.ctx, id)
	switch {
	case errors.Is(err, later.ErrNotFound):
	case err != nil:
		w.t.Fatalf("Find %d: %v", id, err)
	case info.State != later.StateEnded:
		w.t.Fatalf("job %d: got state %q, want it gone", id, info.State)
	}
	if infos := w.list(later.Filter{IDs: []int64{id}}); len(infos) != 0 {
		w.t.Fatalf("job %d is listed (state %q), want it gone", id, infos[0].State)
	}
}

// state fails unless job id is in that state.
func (w *world) state(id int64, want later.State) *later.JobInfo {
	w.t.Helper()
	info := w.find(id)
	if got := info.State; got != want {
		w.t.Fatalf("job %d: got state %q, want %q", id, got, want)
	}
	return info
}

// outcomes are those that the log has of job id, oldest first.
func (w *world) outcomes(id int64) []later.Outcome {
	w.t.Helper()
	var list []later.Outcome
	for _, entry := range w.find(id).Log {
		list = append(list, entry.Outcome)
	}
	return list
}

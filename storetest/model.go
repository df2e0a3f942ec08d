package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// testModel runs random operations on a store and on a model that is simple
// enough to be believed, and compares all of what the store shows after each.
func testModel(t *testing.T, open Open) {
	// kept, fenced, alone, counted: no job vanishes but by done, cancelled,
	// expired, deleted or dead; a stale token changes nothing; no job is handed
	// out while its lease holds; attempts, crashes and generations are right;
	// ids never repeat. Cases 67, 70, 77, 149, 157.
	t.Run("random operations leave what a simple model says", func(t *testing.T) {
		w := newWorld(t, open)
		seen := map[int64]bool{}
		wait := patience
		rapid.Check(t, func(rt *rapid.T) {
			m := &model{rt: rt, world: &world{t: rt, ctx: w.ctx, store: w.store}, seen: seen, wait: &wait, jobs: map[int64]*modelJob{}}
			defer m.clear()
			rt.Repeat(map[string]func(*rapid.T){
				"":            m.check,
				"insert":      m.insert,
				"insert 2":    m.insert,
				"insert some": m.insertSome,
				"claim":       m.claim,
				"claim 2":     m.claim,
				"sweep":       m.sweep,
				"settle":      m.settle,
				"settle 2":    m.settle,
				"stale":       m.stale,
				"renew":       m.renew,
				"end lease":   m.endLease,
				"cancel":      m.cancel,
				"retry":       m.retry,
				"delete":      m.delete,
				"all dead":    m.allDead,
				"maintain":    func(*rapid.T) { m.maintain() },
			})
			m.checkLog()
		})
	})
}

// model is what a store should hold.
type model struct {
	*world
	rt   *rapid.T
	seen map[int64]bool // every id of all runs
	// wait is how long a claim may miss jobs. Once that has failed, the runs
	// that look for a shorter way to fail wait less.
	wait *time.Duration
	jobs map[int64]*modelJob
	// old are leases that hold nothing any more.
	old []later.Lease
}

// modelJob is a job in the model. RunAt is the store's, as it was listed last.
type modelJob struct {
	later.Record
	lease     later.Lease // the zero Lease: none
	ended     bool        // the lease has ended, and nobody has taken the job
	due       bool
	expired   bool
	cancelled bool // asked for
	state     modelState
	reason    later.DeadReason
	outcomes  []later.Outcome
	losses    int
}

type modelState int

const (
	alive modelState = iota
	dead
	gone
)

func (j *modelJob) leased() bool { return j.lease != later.Lease{} }

func (j *modelJob) holds() bool { return j.leased() && !j.ended }

// crashesNow counts a loss that no claim has counted yet.
func (j *modelJob) crashesNow() int {
	if j.ended {
		return j.Crashes + 1
	}
	return j.Crashes
}

// dooms are the reasons for which a sweep may end the job.
func (j *modelJob) dooms() []later.Doom {
	var dooms []later.Doom
	if j.cancelled {
		dooms = append(dooms, later.DoomCancelled)
	}
	if j.expired {
		dooms = append(dooms, later.DoomExpired)
	}
	if j.crashesNow() >= later.CrashLimit || j.MaxAttempts == 1 && j.crashesNow() > 0 {
		dooms = append(dooms, later.DoomLost)
	}
	return dooms
}

// claimable reports whether a claim of the suite's kind takes the job.
func (j *modelJob) claimable() bool {
	return j.state == alive && !j.holds() && j.due && !j.cancelled && !j.expired &&
		j.Kind == kind && j.crashesNow() < later.SuspectCrashes
}

var (
	modelQueues     = []string{queue, "other"}
	modelPriorities = []int16{-1, 0, 1} // the best first
	modelTenants    = []string{"", "B", "a", "é"}
)

func (m *model) insert(rt *rapid.T) {
	opts := later.Options{
		Queue:       rapid.SampledFrom(modelQueues).Draw(rt, "queue"),
		Priority:    rapid.SampledFrom(modelPriorities).Draw(rt, "priority"),
		Tenant:      rapid.SampledFrom(modelTenants).Draw(rt, "tenant"),
		MaxAttempts: rapid.SampledFrom([]int{1, 5}).Draw(rt, "max attempts"),
	}
	args := raw(`{}`)
	args.JobKind = rapid.SampledFrom([]string{kind, kind, kind, "unknown"}).Draw(rt, "kind")
	how := rapid.SampledFrom([]string{"now", "now", "now", "delayed", "expired"}).Draw(rt, "how")
	switch how {
	case "delayed":
		opts.Delay = long
	case "expired":
		opts.ExpiresIn = short
	}
	j := m.put(rt, args, opts)
	j.due, j.expired = how != "delayed", how == "expired"
	if j.expired {
		m.pass(j.ID, j.ExpiresAt.Add(clockStep))
	}
}

// insertSome gives the tenants of one level something to share.
func (m *model) insertSome(rt *rapid.T) {
	opts := later.Options{
		Queue:       rapid.SampledFrom(modelQueues).Draw(rt, "queue"),
		Priority:    rapid.SampledFrom(modelPriorities).Draw(rt, "priority"),
		MaxAttempts: 5,
	}
	for range rapid.IntRange(2, 8).Draw(rt, "jobs") {
		opts.Tenant = rapid.SampledFrom(modelTenants).Draw(rt, "tenant")
		m.put(rt, raw(`{}`), opts).due = true
	}
}

// put enqueues a job and notes it.
func (m *model) put(rt *rapid.T, args later.RawArgs, opts later.Options) *modelJob {
	id := m.enqueueArgs(args, opts)
	if m.seen[id] {
		rt.Fatalf("id %d was given twice", id)
	}
	m.seen[id] = true
	info := m.find(id)
	j := &modelJob{Record: later.Record{
		ID: id, Queue: opts.Queue, Priority: opts.Priority, Tenant: opts.Tenant, Kind: args.JobKind, Payload: args.Payload, RunAt: info.RunAt,
		MaxAttempts: opts.MaxAttempts, Timeout: later.DefaultTimeout, CreatedAt: info.CreatedAt, ExpiresAt: info.ExpiresAt,
	}}
	m.jobs[id] = j
	return j
}

// leased are the leases that are not taken over, held or ended.
func (m *model) leased(only func(*modelJob) bool) []*modelJob {
	var found []*modelJob
	for _, j := range m.jobs {
		if j.state == alive && j.leased() && only(j) {
			found = append(found, j)
		}
	}
	slices.SortFunc(found, func(a, b *modelJob) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

func (m *model) settle(rt *rapid.T) {
	jobs := m.leased(func(*modelJob) bool { return true })
	if len(jobs) == 0 {
		rt.Skip("nothing is leased")
	}
	j := rapid.SampledFrom(jobs).Draw(rt, "job")
	outcome := rapid.SampledFrom(everyOutcome).Draw(rt, "outcome")
	s := end(&later.Claimed{Record: j.Record, Lease: j.lease}, outcome)
	if rapid.Bool().Draw(rt, "delayed") {
		s.Delay = long
	}
	m.end(j, s)
}

// end settles j, which must be accepted, and notes what that does.
func (m *model) end(j *modelJob, s later.Settlement) {
	if refused := m.trySettle(s); len(refused) != 0 {
		m.rt.Fatalf("job %d settled as %s: refused, although nobody else took it", j.ID, s.Outcome)
	}
	m.old = append(m.old, j.lease)
	j.lease, j.ended = later.Lease{}, false
	if s.Outcome != later.OutcomeReleased {
		j.outcomes = append(j.outcomes, s.Outcome)
	}
	switch s.Outcome {
	case later.OutcomeDone, later.OutcomeCancelled, later.OutcomeExpired:
		j.state = gone
	case later.OutcomeDead:
		j.state, j.reason, j.Errors = dead, s.Reason, s.Errors
		if s.Reason != later.DeadLost {
			j.Failures++
		}
	case later.OutcomeRetry:
		j.Errors, j.due = s.Errors, s.Delay == 0
		j.Failures, j.Crashes = j.Failures+1, 0
	case later.OutcomeSnoozed:
		j.Attempt, j.due = max(j.Attempt-1, 0), s.Delay == 0
		j.Crashes = 0
	case later.OutcomeReleased:
		j.Attempt = max(j.Attempt-1, 0)
	}
}

// stale tries everything with a lease that holds nothing.
func (m *model) stale(rt *rapid.T) {
	if len(m.old) == 0 {
		rt.Skip("no lease is old")
	}
	lease := rapid.SampledFrom(m.old).Draw(rt, "lease")
	c := &later.Claimed{Record: later.Record{ID: lease.ID}, Lease: lease}
	switch rapid.IntRange(0, 2).Draw(rt, "how") {
	case 0:
		s := end(c, rapid.SampledFrom(everyOutcome).Draw(rt, "outcome"))
		equalSlices(rt, "refused", m.trySettle(s), []later.Lease{lease})
	case 1:
		equalSlices(rt, "lost", m.world.renew(long, lease).Lost, []later.Lease{lease})
	case 2:
		isError(rt, "Checkpoint", m.store.Checkpoint(m.ctx, lease, []byte(`{}`)), later.ErrLeaseLost)
	}
}

// renew renews all leases at once, the old ones too.
func (m *model) renew(rt *rapid.T) {
	leases := slices.Clone(m.old)
	var cancelled []later.Lease
	for _, j := range m.leased(func(*modelJob) bool { return true }) {
		leases = append(leases, j.lease)
		if j.cancelled {
			cancelled = append(cancelled, j.lease)
		}
		j.ended = false
	}
	renewed := m.world.renew(long, leases...)
	sameLeases(rt, "lost", renewed.Lost, m.old)
	sameLeases(rt, "cancelled", renewed.Cancelled, cancelled)
}

func (m *model) endLease(rt *rapid.T) {
	jobs := m.leased((*modelJob).holds)
	if len(jobs) == 0 {
		rt.Skip("nothing is running")
	}
	j := rapid.SampledFrom(jobs).Draw(rt, "job")
	m.world.endLease(&later.Claimed{Record: j.Record, Lease: j.lease})
	j.ended = true
}

func sameLeases(t failer, what string, got, want []later.Lease) {
	t.Helper()
	order := func(a, b later.Lease) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Token, b.Token)) }
	got, want = slices.SortedFunc(slices.Values(got), order), slices.SortedFunc(slices.Values(want), order)
	equalSlices(t, fmt.Sprintf("leases %s", what), got, want)
}

package storetest

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// testLimitModel has random limits, pauses, claims, ends, losses and operators meet, and
// compares each answer with what the limits allow and what they must let go.
func testLimitModel(t *testing.T, open Open) {
	// capped, paced, in order, found, fenced.
	t.Run("random limits let start what they may, and all of that", func(t *testing.T) {
		w := newWorld(t, open)
		wait := patience
		rapid.Check(t, func(rt *rapid.T) {
			m := &limitModel{
				rt: rt, world: &world{t: rt, ctx: w.ctx, store: w.store}, wait: &wait, jobs: map[int64]*limitJob{},
				limits: map[later.Scope]later.Limit{}, gates: map[later.Scope]*limitGate{}, paused: map[later.Scope]bool{},
			}
			for _, scope := range modelScopes {
				m.gates[scope] = &limitGate{heads: map[int64]bool{}, maybe: map[int64]bool{}, counted: map[int64]bool{}}
			}
			defer m.clear()
			for range 3 {
				m.insert(rt)
				m.setLimit(rt)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"":         m.check,
				"insert":   m.insert,
				"insert 2": m.insert,
				"limit":    m.setLimit,
				"limit 2":  m.setLimit,
				"unlimit":  m.removeLimit,
				"pause":    m.pauseOrResume,
				"claim":    m.claim,
				"claim 2":  m.claim,
				"all":      m.claimAll,
				"sweep":    m.sweep,
				"settle":   m.settleOne,
				"settle 2": m.settleOne,
				"lose":     m.loseOne,
				"renew":    m.renewOne,
				"retry":    m.retryOne,
				"delete":   m.deleteOne,
			})
			m.claimAll(rt)
			for scope, g := range m.gates {
				g.paced(m, scope)
			}
		})
	})
}

// limitModel is what a store should hold. Leases are long and end when the model says so.
// Rates are slow ones, which during a test give back nothing, and fast ones, which hold
// back nothing for long.
type limitModel struct {
	*world
	rt     *rapid.T
	wait   *time.Duration // for what must be found; less once that has failed
	jobs   map[int64]*limitJob
	limits map[later.Scope]later.Limit
	gates  map[later.Scope]*limitGate // of modelScopes
	paused map[later.Scope]bool
}

// limitJob is a job in the model.
type limitJob struct {
	later.Record
	due    bool
	state  modelState
	lease  *later.Claimed // nil: none
	ended  bool           // the lease has ended, and nobody has taken the job
	unseen bool           // the answer of the claim was lost
	begun  bool           // it was claimed before
	// mayBeFenced is set when its place, or that of another one, was given away; fenced when
	// it was found to be its own.
	mayBeFenced, fenced bool
}

func (j *limitJob) holds() bool { return j.lease != nil && !j.ended }

func (j *limitJob) losses() int {
	if j.ended {
		return j.Crashes + 1
	}
	return j.Crashes
}

var (
	limitQueues = []string{queue, "other"}
	limitKinds  = []string{kind, "other"}
	modelScopes = []later.Scope{
		{Of: later.ScopeQueue, Name: queue}, {Of: later.ScopeQueue, Name: "other"},
		{Of: later.ScopeKind, Name: kind}, {Of: later.ScopeKind, Name: "other"},
		{Of: later.ScopeTenant, Name: "a"}, {Of: later.ScopeTenant, Name: "b"},
	}
)

func (m *limitModel) insert(rt *rapid.T) {
	args := raw(`{}`)
	args.JobKind = rapid.SampledFrom([]string{kind, kind, kind, "other"}).Draw(rt, "kind")
	opts := later.Options{
		Queue:       rapid.SampledFrom([]string{queue, queue, queue, "other"}).Draw(rt, "queue"),
		Tenant:      rapid.SampledFrom([]string{"a", "a", "a", "b", ""}).Draw(rt, "tenant"),
		Priority:    rapid.SampledFrom(modelPriorities).Draw(rt, "priority"),
		MaxAttempts: later.UnlimitedAttempts,
	}
	if rapid.IntRange(0, 9).Draw(rt, "delayed") == 0 {
		opts.Delay = long
	}
	for _, id := range m.enqueueMany(rapid.IntRange(1, 3).Draw(rt, "jobs"), args, opts) {
		m.jobs[id] = &limitJob{due: opts.Delay == 0, Record: later.Record{
			ID: id, Queue: opts.Queue, Kind: args.JobKind, Tenant: opts.Tenant, Priority: opts.Priority,
		}}
	}
}

// some draws a job for which only says yes.
func (m *limitModel) some(rt *rapid.T, only func(*limitJob) bool) *limitJob {
	found := m.all(only)
	if len(found) == 0 {
		rt.Skip("there is no such job")
	}
	return rapid.SampledFrom(found).Draw(rt, "job")
}

// all are the jobs for which only says yes, by id.
func (m *limitModel) all(only func(*limitJob) bool) []*limitJob {
	var found []*limitJob
	for _, j := range m.jobs {
		if only(j) {
			found = append(found, j)
		}
	}
	slices.SortFunc(found, func(a, b *limitJob) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

func (m *limitModel) settleOne(rt *rapid.T) {
	j := m.some(rt, func(j *limitJob) bool { return j.lease != nil && !j.unseen })
	s := end(j.lease, rapid.SampledFrom([]later.Outcome{
		later.OutcomeDone, later.OutcomeDone, later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased, later.OutcomeDead,
	}).Draw(rt, "outcome"))
	if rapid.Bool().Draw(rt, "delayed") {
		s.Delay = long
	}
	m.settleWith(j, s)
}

func (m *limitModel) settleWith(j *limitJob, s later.Settlement) {
	if refused := m.trySettle(s); len(refused) > 0 {
		m.refused(j, "a settlement")
		return
	}
	if j.fenced {
		m.rt.Fatalf("job %d: a settlement was accepted, and before it a renewal was not", j.ID)
	}
	j.lease, j.ended, j.mayBeFenced = nil, false, false
	switch s.Outcome {
	case later.OutcomeDone:
		m.gone(j)
	case later.OutcomeDead:
		m.died(j)
	case later.OutcomeRetry, later.OutcomeSnoozed:
		j.due, j.Crashes = s.Delay == 0, 0
	}
}

// refused notes that a lease is lost, which must have had a reason.
func (m *limitModel) refused(j *limitJob, what string) {
	if !j.mayBeFenced {
		m.rt.Fatalf("job %d: %s was refused, although nobody else has the job or its place", j.ID, what)
	}
	j.fenced = true
}

func (m *limitModel) loseOne(rt *rapid.T) {
	j := m.some(rt, (*limitJob).holds)
	m.endLease(j.lease)
	j.ended = true
}

// renewOne has a worker come back late.
func (m *limitModel) renewOne(rt *rapid.T) {
	j := m.some(rt, func(j *limitJob) bool { return j.ended && !j.unseen })
	if lost := m.renew(long, j.lease.Lease).Lost; len(lost) > 0 {
		m.refused(j, "a renewal")
		return
	}
	if j.fenced {
		m.rt.Fatalf("job %d: a renewal was accepted, and before it something was not", j.ID)
	}
	j.ended, j.mayBeFenced = false, false
	m.inBounds()
}

func (m *limitModel) retryOne(rt *rapid.T) {
	j := m.some(rt, func(j *limitJob) bool { return j.state != gone && !j.holds() })
	m.retry(j.ID)
	if j.state == dead {
		j.state, j.Crashes = alive, 0
	}
	j.due = true
}

func (m *limitModel) deleteOne(rt *rapid.T) {
	j := m.some(rt, func(j *limitJob) bool { return j.state != gone && !j.holds() })
	m.delete(j.ID)
	j.lease, j.ended = nil, false
	m.gone(j)
}

func (m *limitModel) pauseOrResume(rt *rapid.T) {
	scope := rapid.SampledFrom(modelScopes).Draw(rt, "scope")
	if m.paused[scope] {
		m.resume(scope)
		delete(m.paused, scope)
		return
	}
	if len(m.paused) > 1 {
		rt.Skip("enough is paused")
	}
	m.pause(scope, "")
	m.paused[scope] = true
}

// check compares the states that the store shows, and counts the leases that it says hold.
func (m *limitModel) check(rt *rapid.T) {
	running := map[later.Scope]int{}
	listed := 0
	for _, info := range m.list(later.Filter{Limit: math.MaxInt32}) {
		j := m.jobs[info.ID]
		if j == nil || j.state == gone {
			rt.Fatalf("job %d is listed (%s), want it gone", info.ID, info.State)
		}
		listed++
		if got, want := info.State == later.StateRunning, j.holds(); got != want {
			rt.Fatalf("job %d: got %s, want it running: %v", info.ID, info.State, want)
		}
		if got, want := info.State == later.StateDead, j.state == dead; got != want {
			rt.Fatalf("job %d: got %s, want it dead: %v", info.ID, info.State, want)
		}
		if j.holds() {
			for _, scope := range scopesOfJob(j) {
				running[scope]++
			}
		}
	}
	equal(rt, "jobs listed", listed, len(m.all(func(j *limitJob) bool { return j.state != gone })))
	m.inBounds()
	for scope, g := range m.gates {
		if _, limited := g.limit.Cap(); limited && running[scope] > g.bound {
			rt.Fatalf("%v: %d leases hold, want at most %d", scope, running[scope], g.bound)
		}
	}
}

// clear empties the store for the next run, also after a failure.
func (m *limitModel) clear() {
	// Errors here show in the next run: it begins with what it does not know.
	infos, _ := m.store.List(m.ctx, later.Filter{Limit: math.MaxInt32})
	for _, info := range infos {
		if j := m.jobs[info.ID]; j != nil && j.lease != nil {
			_, _ = m.store.Settle(m.ctx, []later.Settlement{end(j.lease, later.OutcomeDone)})
		}
		_ = m.store.Delete(m.ctx, info.ID)
	}
	for scope := range m.limits {
		_ = m.limiter().RemoveLimit(m.ctx, scope)
	}
	for scope := range m.paused {
		_ = m.store.Resume(m.ctx, scope)
	}
}

package sqlite_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

// limitedWorld is a store with jobs under limits, with which something random is done. After
// each claim it is looked whether any job was let in that should not have been, and whether any
// was left that could have been had.
type limitedWorld struct {
	t       *testing.T
	rand    *rand.Rand
	store   *sqlite.Store
	running map[int64]later.Lease
	log     []string
}

// rowOf is a job as the table has it.
type rowOf struct {
	id, priority, runAt, crashes int64
	queue, kind, tenant          string
	leased, holds, mayReturn     bool
}

var (
	someQueues  = []string{"q1", "q2"}
	someKinds   = []string{"k1", "k2", "k3"}
	someTenants = []string{"", "a", "b", "c", "d"}
)

// seeds is how many worlds are tried. Chosen: some seconds.
const seeds = 20

func TestRandomLimits(t *testing.T) {
	for seed := range uint64(seeds) {
		w := &limitedWorld{t: t, rand: rand.New(rand.NewPCG(seed, 1)), store: openStore(t, ":memory:", sqlite.Config{}), running: map[int64]later.Lease{}}
		for range 80 {
			w.step()
			if t.Failed() {
				for _, line := range w.log {
					t.Log(line)
				}
				t.Fatalf("seed %d", seed)
			}
		}
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func pick[T any](w *limitedWorld, list []T) T { return list[w.rand.IntN(len(list))] }

func (w *limitedWorld) step() {
	switch n := w.rand.IntN(20); {
	case n < 4:
		w.insert()
	case n < 11:
		w.claim()
	case n < 15:
		w.settle()
	case n < 16:
		w.endLease()
	case n < 17:
		w.renew()
	case n < 18:
		w.sweep()
	default:
		w.setLimit()
	}
}

func (w *limitedWorld) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *limitedWorld) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

func (w *limitedWorld) insert() {
	opts := later.Options{Queue: pick(w, someQueues), Tenant: pick(w, someTenants), Priority: int16(w.rand.IntN(3) - 1), MaxAttempts: 100}
	n := 1 + w.rand.IntN(6)
	for range n {
		_, err := w.store.Enqueue(w.t.Context(), later.RawArgs{JobKind: pick(w, someKinds), Payload: []byte(`{}`)}, opts)
		w.check(err)
	}
	w.logf("insert %d %+v", n, opts)
}

func (w *limitedWorld) setLimit() {
	scope := pick(w, []later.Scope{
		{Of: later.ScopeQueue, Name: pick(w, someQueues)}, {Of: later.ScopeKind, Name: pick(w, someKinds)},
		{Of: later.ScopeTenant, Name: pick(w, someTenants[1:])}, {Of: later.ScopeTenants},
	})
	if w.rand.IntN(4) == 0 {
		err := w.store.RemoveLimit(w.t.Context(), scope)
		w.logf("remove the limit of %v: %v", scope, err)
		return
	}
	most := w.rand.IntN(4)
	l := pick(w, []later.Limit{
		{MaxRunning: &most}, {MaxRunning: &most}, {Ordered: true}, {Ordered: true, OnDead: later.DeadBlocks},
		{Rate: later.Rate{N: 1, Period: time.Hour, Burst: 1 + w.rand.IntN(4)}}, {MaxRunning: &most, Rate: later.Rate{N: 1, Period: time.Hour, Burst: 3}},
	})
	if scope.Of == later.ScopeTenant {
		l.Weight = w.rand.IntN(4)
	}
	w.logf("limit %v: %+v, at most %d", scope, l, most)
	w.check(w.store.SetLimit(w.t.Context(), scope, l, "me"))
}

func (w *limitedWorld) claim() {
	req := later.ClaimRequest{
		Limit: 1 + w.rand.IntN(8), Kinds: someKinds, Worker: "worker-1", Token: later.NewToken(), Lease: time.Hour,
		FromLowest: w.rand.IntN(4) == 0,
	}
	for _, queue := range someQueues[:1+w.rand.IntN(2)] {
		req.Queues = append(req.Queues, later.QueueLimit{Queue: queue, Limit: 8})
	}
	if w.rand.IntN(4) == 0 {
		req.Kinds = someKinds[:1+w.rand.IntN(3)]
	}
	if w.rand.IntN(4) == 0 {
		req.Tenants = someTenants[:w.rand.IntN(5)]
	}
	if w.rand.IntN(4) == 0 {
		req.MostOfKind = map[string]int{pick(w, someKinds): w.rand.IntN(3)}
	}
	if w.rand.IntN(4) == 0 {
		req.Free = w.rand.IntN(4) - 1
	}
	if len(w.running) > 0 && w.rand.IntN(8) == 0 {
		_, lease := w.pickRunning()
		req.Unanswered = []int64{lease.Token}
	}
	before := w.rows()
	jobs, err := w.store.Claim(w.t.Context(), req)
	w.check(err)
	w.logf("claim %+v: %v", req, idsOf(jobs))
	free, ofKind := req.Free, map[string]int{}
	if free == 0 {
		free = req.Limit
	}
	for _, job := range jobs {
		w.running[job.ID] = job.Lease
		ofKind[job.Kind]++
		if job.Limited {
			free--
		}
		if before[job.ID].holds && len(req.Unanswered) == 0 {
			w.t.Errorf("job %d was claimed while it ran", job.ID)
		}
		if req.Tenants != nil && !slices.Contains(req.Tenants, job.Tenant) {
			w.t.Errorf("job %d is of tenant %q, which was not wanted", job.ID, job.Tenant)
		}
	}
	if free < min(req.Free, 0) {
		w.t.Errorf("%d jobs under limits too many", -free)
	}
	for kind, most := range req.MostOfKind {
		if ofKind[kind] > most {
			w.t.Errorf("%d jobs of kind %s, want at most %d", ofKind[kind], kind, most)
		}
	}
	if len(req.Unanswered) == 0 {
		w.noneTooMany(jobs)
	}
	if len(jobs) < req.Limit {
		w.noneLeft(req, free, ofKind)
	}
}

func idsOf(jobs []*later.Claimed) (ids []int64) {
	for _, job := range jobs {
		ids = append(ids, job.ID)
	}
	return ids
}

// rows are all jobs.
func (w *limitedWorld) rows() map[int64]rowOf {
	w.t.Helper()
	rows, err := w.store.DB().Query(`
select id, priority, run_at, crashes, queue, kind, tenant, lease_until is not null,
  coalesce(lease_until >= cast(round((julianday('now') - 2440587.5) * 86400000) as integer), false), coalesce(lease_token <> 0, false)
from later_job`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	all := map[int64]rowOf{}
	for rows.Next() {
		var r rowOf
		if err := rows.Scan(&r.id, &r.priority, &r.runAt, &r.crashes, &r.queue, &r.kind, &r.tenant, &r.leased, &r.holds, &r.mayReturn); err != nil {
			w.t.Fatal(err)
		}
		all[r.id] = r
	}
	return all
}

func scopesOf(queue, kind, tenant string) []later.Scope {
	list := []later.Scope{{Of: later.ScopeQueue, Name: queue}, {Of: later.ScopeKind, Name: kind}}
	if tenant != "" {
		list = append(list, later.Scope{Of: later.ScopeTenant, Name: tenant})
	}
	return list
}

func (r rowOf) isIn(scope later.Scope) bool {
	return slices.Contains(scopesOf(r.queue, r.kind, r.tenant), scope)
}

func (w *limitedWorld) standing(scope later.Scope) later.Standing {
	w.t.Helper()
	standing, err := w.store.Standing(w.t.Context(), scope)
	w.check(err)
	return standing
}

// noneTooMany looks whether scopes from which a job was taken have more running than they may,
// counting those whose workers may come back.
func (w *limitedWorld) noneTooMany(jobs []*later.Claimed) {
	all := w.rows()
	for _, job := range jobs {
		for _, scope := range scopesOf(job.Queue, job.Kind, job.Tenant) {
			most, capped := w.standing(scope).Limit.Cap()
			running := 0
			for _, r := range all {
				if r.isIn(scope) && r.leased && r.mayReturn {
					running++
				}
			}
			if capped && running > most {
				w.t.Errorf("%v: %d run or may come back, want at most %d", scope, running, most)
			}
		}
	}
}

// noneLeft looks whether a claim that had room has left a job that it could have had.
func (w *limitedWorld) noneLeft(req later.ClaimRequest, free int, ofKind map[string]int) {
	all := w.rows()
	for _, r := range all {
		most, bounded := req.MostOfKind[r.kind]
		switch {
		case !slices.Contains(req.Kinds, r.kind), !slices.ContainsFunc(req.Queues, func(q later.QueueLimit) bool { return q.Queue == r.queue }):
		case req.Tenants != nil && !slices.Contains(req.Tenants, r.tenant), bounded && ofKind[r.kind] >= most:
		case r.holds, r.runAt > time.Now().UnixMilli()-10: // it may not have been due
		case r.crashes+map[bool]int64{true: 1}[r.leased] >= later.SuspectCrashes:
		case w.isHeld(all, r, free):
		default:
			w.t.Errorf("job %+v was left", r)
		}
	}
}

// isHeld reports whether a limit holds a job back.
func (w *limitedWorld) isHeld(all map[int64]rowOf, r rowOf, free int) bool {
	for _, scope := range scopesOf(r.queue, r.kind, r.tenant) {
		standing := w.standing(scope)
		limit := standing.Limit
		if !limit.Holds() {
			continue
		}
		most, capped := limit.Cap()
		isHead := limit.Ordered && slices.Contains(standing.Running, r.id) &&
			!slices.ContainsFunc(standing.Running, func(id int64) bool { return all[id].holds })
		if free <= 0 || !standing.NextStart.IsZero() || capped && len(standing.Running) >= most && !isHead {
			return true
		}
	}
	return false
}

// pickRunning is a job that was claimed, with the lease that it got then; 0: there is none.
func (w *limitedWorld) pickRunning() (int64, later.Lease) {
	if len(w.running) == 0 {
		return 0, later.Lease{}
	}
	id := pick(w, slices.Sorted(maps.Keys(w.running)))
	return id, w.running[id]
}

func (w *limitedWorld) settle() {
	if id, lease := w.pickRunning(); id != 0 {
		delete(w.running, id)
		st := later.Settlement{Lease: lease, Outcome: pick(w, []later.Outcome{
			later.OutcomeDone, later.OutcomeDone, later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased, later.OutcomeDead,
		}), Reason: later.DeadFailed}
		if w.rand.IntN(2) == 0 {
			st.Delay = time.Hour
		}
		refused, err := w.store.Settle(w.t.Context(), []later.Settlement{st})
		w.check(err)
		w.logf("settle %d %s: refused %d", id, st.Outcome, len(refused))
	}
}

func (w *limitedWorld) endLease() {
	if id, _ := w.pickRunning(); id != 0 {
		_, err := w.store.DB().Exec(`update later_job set lease_until = 1000 where id = ?`, id)
		w.check(err)
		w.logf("the lease of %d ends", id)
	}
}

func (w *limitedWorld) renew() {
	if id, lease := w.pickRunning(); id != 0 {
		renewed, err := w.store.Renew(w.t.Context(), []later.Lease{lease}, time.Hour)
		w.check(err)
		w.logf("renew %d: lost %d", id, len(renewed.Lost))
		if len(renewed.Lost) > 0 {
			delete(w.running, id)
		}
	}
}

func (w *limitedWorld) sweep() {
	jobs, err := w.store.Sweep(w.t.Context(), later.SweepRequest{
		Limit: 10, Suspect: true, Queues: someQueues, Kinds: someKinds, Worker: "worker-1", Token: later.NewToken(), Lease: time.Hour,
	})
	w.check(err)
	w.logf("sweep: %v", idsOf(jobs))
	for _, job := range jobs {
		w.running[job.ID] = job.Lease
	}
}

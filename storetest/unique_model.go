package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// testUniqueModel has random requests meet jobs that workers and operators take
// through their lives, and compares each answer and each job with a simple model.
func testUniqueModel(t *testing.T, open Open) {
	t.Run("random requests meet what a simple model says", func(t *testing.T) {
		w := newWorld(t, open)
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			m := &uniqueModel{rt: rt, world: &world{t: rt, ctx: w.ctx, store: w.store}, run: run, jobs: map[int64]*uniqueJob{}, windows: map[string]int64{}}
			defer m.clear()
			rt.Repeat(map[string]func(*rapid.T){
				"":          m.checkSometimes,
				"enqueue":   m.enqueueOne,
				"enqueue 2": m.enqueueOne,
				"enqueue 3": m.enqueueOne,
				"many":      m.enqueueSome,
				"claim":     m.claimSome,
				"settle":    m.settleOne,
				"settle 2":  m.settleOne,
				"end lease": m.endOne,
				"cancel":    m.cancelOne,
				"delete":    m.deleteOne,
				"retry":     m.retryOne,
				"all dead":  m.retryAll,
			})
			m.check(rt)
		})
	})
}

// uniqueModel is what a store should hold. Nothing that is put off becomes due by
// itself.
type uniqueModel struct {
	*world
	rt      *rapid.T
	run     int
	steps   int
	n       int // of requests, for payloads
	jobs    map[int64]*uniqueJob
	windows map[string]int64 // whose window does not end
}

type uniqueJob struct {
	id      int64
	key     string // with the tenant; "" when it has none any more
	name    string // the key alone
	tenant  string
	until   later.Until
	payload string
	state   later.State
	lease   *later.Claimed // nil: none
	cancel  bool
}

// holder is who holds a key, or nil.
func (m *uniqueModel) holder(key string) *uniqueJob {
	for _, j := range m.jobs {
		if j.key == key && j.state != later.StateDead && j.state != later.StateEnded {
			return j
		}
	}
	return nil
}

func (m *uniqueModel) draw(rt *rapid.T) (later.Options, string) {
	m.n++
	opts := later.Options{Tenant: rapid.SampledFrom([]string{"", "acme"}).Draw(rt, "tenant"), MaxAttempts: 5}
	u := later.Unique{
		Key:        fmt.Sprintf("%d-%s", m.run, rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "key")),
		Until:      rapid.SampledFrom([]later.Until{later.UntilDone, later.UntilStarted, later.ForWindow}).Draw(rt, "until"),
		OnConflict: rapid.SampledFrom(everyConflict).Draw(rt, "on conflict"),
	}
	if u.Until == later.ForWindow {
		u.Window, u.Sliding = later.MaxWindow, rapid.Bool().Draw(rt, "sliding")
	}
	if u.OnConflict.Postpones() {
		u.Latest = 100 * long
	}
	if rapid.Bool().Draw(rt, "delayed") {
		opts.Delay = long
	}
	opts.Unique = &u
	return opts, fmt.Sprint(m.n)
}

func (m *uniqueModel) enqueueOne(rt *rapid.T) {
	opts, payload := m.draw(rt)
	done, err := m.client().Enqueue(m.ctx, raw(payload), opts)
	if err != nil {
		rt.Fatalf("Enqueue: %v", err)
	}
	m.enqueued(opts, payload, done)
}

func (m *uniqueModel) enqueueSome(rt *rapid.T) {
	var requests []later.Request
	for range rapid.IntRange(2, 4).Draw(rt, "requests") {
		opts, payload := m.draw(rt)
		if rapid.IntRange(0, 3).Draw(rt, "plain") == 0 {
			opts.Unique = nil
		}
		requests = append(requests, later.Request{Args: raw(payload), Options: opts})
	}
	done, err := m.client().EnqueueMany(m.ctx, requests)
	if err != nil {
		rt.Fatalf("EnqueueMany: %v", err)
	}
	for i, r := range requests {
		m.enqueued(r.Options, string(r.Args.(later.RawArgs).Payload), done[i])
	}
}

// enqueued says what should have become of a request, and notes it.
func (m *uniqueModel) enqueued(opts later.Options, payload string, done later.Enqueued) {
	if opts.Unique == nil {
		m.added(opts, payload, done)
		return
	}
	u := *opts.Unique
	key := opts.Tenant + "/" + u.Key
	var met *uniqueJob
	if u.Until == later.ForWindow {
		if id, taken := m.windows[key]; taken {
			met = m.jobs[id]
		}
	} else if met = m.holder(key); met != nil && met.cancel && met.state == later.StateLost {
		met.key, met = "", nil // it will not run again
	}
	if met == nil {
		m.added(opts, payload, done)
		if u.Until == later.ForWindow {
			m.windows[key] = done.ID
		}
		return
	}
	want := later.Enqueued{ID: met.id, Outcome: later.Skipped, Holder: met.state}
	if met.lease == nil && met.state != later.StateDead && met.state != later.StateEnded {
		replaced := u.OnConflict.Replaces()
		if replaced {
			met.payload = payload
		}
		// Each request is later than the one before, with the same delay.
		postponed := u.OnConflict.Postpones() && (opts.Delay > 0 || met.state == later.StateReady)
		if postponed && opts.Delay > 0 && met.state == later.StateReady {
			met.state = m.find(met.id).State // scheduled, or retry
			if met.state != later.StateScheduled && met.state != later.StateRetry {
				m.rt.Fatalf("job %d: got state %s after it was put off", met.id, met.state)
			}
		}
		want.Outcome = later.ChangedOutcome(replaced, postponed)
	}
	// By the store's coarse clock two requests may come at the same time; then the
	// second one does not put off.
	if done != want && (done.Outcome != later.ChangedOutcome(u.OnConflict.Replaces(), false) || !u.OnConflict.Postpones() || done.ID != want.ID || done.Holder != want.Holder) {
		m.rt.Fatalf("got %+v, want %+v (key %s, %s, %s)", done, want, key, u.Until, u.OnConflict)
	}
}

func (m *uniqueModel) added(opts later.Options, payload string, done later.Enqueued) {
	if done != (later.Enqueued{ID: done.ID}) || m.jobs[done.ID] != nil {
		m.rt.Fatalf("got %+v, want a new job (%+v)", done, opts.Unique)
	}
	j := &uniqueJob{id: done.ID, tenant: opts.Tenant, payload: payload, state: later.StateReady}
	if opts.Delay > 0 {
		j.state = later.StateScheduled
	}
	if u := opts.Unique; u != nil && u.Until != later.ForWindow {
		j.key, j.name, j.until = opts.Tenant+"/"+u.Key, u.Key, u.Until
	}
	m.jobs[done.ID] = j
}

func (m *uniqueModel) claimSome(rt *rapid.T) {
	for _, c := range m.claimWith(ask(rapid.IntRange(1, 3).Draw(rt, "limit"))) {
		j := m.jobs[c.ID]
		if j == nil || string(c.Payload) != j.payload {
			rt.Fatalf("Claim: got job %d with %s, want it to be there with %v", c.ID, c.Payload, j)
		}
		j.state, j.lease = later.StateRunning, c
		if j.until == later.UntilStarted {
			j.key = ""
		}
	}
}

// some draws a job for which only says yes.
func (m *uniqueModel) some(rt *rapid.T, only func(*uniqueJob) bool) *uniqueJob {
	var found []*uniqueJob
	for _, j := range m.jobs {
		if only(j) {
			found = append(found, j)
		}
	}
	if len(found) == 0 {
		rt.Skip("there is no such job")
	}
	slices.SortFunc(found, func(a, b *uniqueJob) int { return cmp.Compare(a.id, b.id) })
	return rapid.SampledFrom(found).Draw(rt, "job")
}

func (m *uniqueModel) settleOne(rt *rapid.T) {
	j := m.some(rt, func(j *uniqueJob) bool { return j.lease != nil })
	outcome := rapid.SampledFrom(everyOutcome).Draw(rt, "outcome")
	s := end(j.lease, outcome)
	if outcome == later.OutcomeRetry || outcome == later.OutcomeSnoozed {
		s.Delay = long
	}
	m.settle(s)
	j.lease = nil
	switch outcome {
	case later.OutcomeDone, later.OutcomeCancelled, later.OutcomeExpired:
		j.state = later.StateEnded
	case later.OutcomeDead:
		j.state, j.cancel = later.StateDead, false
	default: // it waits, for a time that depends on what it has been through
		if j.cancel { // and the next sweep ends it, before anything else looks
			m.swept(j)
			return
		}
		j.state = m.find(j.id).State
		if j.state == later.StateRunning || j.state == later.StateDead || j.state == later.StateEnded {
			rt.Fatalf("job %d: got state %s after %s", j.id, j.state, outcome)
		}
	}
}

// swept has a sweep end a job that was cancelled.
func (m *uniqueModel) swept(j *uniqueJob) {
	m.eventually("the sweep finds the job", func() bool {
		for _, c := range m.sweepWith(seek(100, false)) {
			m.settle(end(c, later.OutcomeCancelled))
			m.jobs[c.ID].state, m.jobs[c.ID].lease = later.StateEnded, nil
		}
		return j.state == later.StateEnded
	})
}

func (m *uniqueModel) endOne(rt *rapid.T) {
	j := m.some(rt, func(j *uniqueJob) bool { return j.state == later.StateRunning })
	m.endLease(j.lease)
	j.state = later.StateLost
}

func (m *uniqueModel) cancelOne(rt *rapid.T) {
	j := m.some(rt, func(j *uniqueJob) bool { return j.state != later.StateDead && j.state != later.StateEnded })
	runs := j.state == later.StateRunning
	m.cancel(j.id, runs)
	if runs {
		j.cancel = true
		return
	}
	j.state, j.lease = later.StateEnded, nil
}

func (m *uniqueModel) deleteOne(rt *rapid.T) {
	j := m.some(rt, func(j *uniqueJob) bool { return j.state != later.StateRunning && j.state != later.StateEnded })
	m.delete(j.id)
	j.state, j.lease = later.StateEnded, nil
}

func (m *uniqueModel) retryOne(rt *rapid.T) {
	j := m.some(rt, func(j *uniqueJob) bool { return j.state == later.StateDead })
	err := m.store.Retry(m.ctx, j.id)
	if h := m.holder(j.key); j.key != "" && h != nil {
		var held *later.KeyHeldError
		if !errors.As(err, &held) || *held != (later.KeyHeldError{Job: j.id, Key: j.name, Holder: h.id, Count: 1}) {
			rt.Fatalf("Retry %d: got %v, want key %q held by job %d", j.id, err, j.name, h.id)
		}
		return
	}
	if err != nil {
		rt.Fatalf("Retry %d: %v", j.id, err)
	}
	j.state = later.StateReady
}

// retryAll brings back all dead jobs, the lowest ids first.
func (m *uniqueModel) retryAll(rt *rapid.T) {
	var dead []*uniqueJob
	for _, j := range m.jobs {
		if j.state == later.StateDead {
			dead = append(dead, j)
		}
	}
	slices.SortFunc(dead, func(a, b *uniqueJob) int { return cmp.Compare(a.id, b.id) })
	want, stay := 0, 0
	for _, j := range dead {
		if j.key != "" && m.holder(j.key) != nil {
			stay++
			continue
		}
		j.state = later.StateReady
		want++
	}
	n, err := m.store.RetryDead(m.ctx, later.Filter{Limit: math.MaxInt32})
	var held *later.KeyHeldError
	switch {
	case n != want:
		rt.Fatalf("RetryDead: got %d, want %d", n, want)
	case want == 0 && stay > 0 && (!errors.As(err, &held) || held.Count != stay):
		rt.Fatalf("RetryDead: got %v, want %d jobs to stay", err, stay)
	case (want > 0 || stay == 0) && err != nil:
		rt.Fatalf("RetryDead: %v", err)
	}
}

// checkSometimes is check after every fourth step: it costs more than most of them.
func (m *uniqueModel) checkSometimes(rt *rapid.T) {
	if m.steps++; m.steps%4 == 0 {
		m.check(rt)
	}
}

// check compares every job.
func (m *uniqueModel) check(rt *rapid.T) {
	there := map[int64]bool{}
	for _, info := range m.list(later.Filter{Limit: math.MaxInt32}) {
		there[info.ID] = true
		j := m.jobs[info.ID]
		if j == nil {
			rt.Fatalf("job %d is there (%s), and nobody has enqueued it", info.ID, info.State)
		}
		key := j.name
		if j.key == "" {
			key = ""
		}
		if info.State != j.state || string(info.Payload) != j.payload || info.UniqueKey != key {
			rt.Fatalf("job %d: got %s, %s, key %q, want %s, %s, key %q", info.ID, info.State, info.Payload, info.UniqueKey, j.state, j.payload, key)
		}
	}
	for id, j := range m.jobs {
		if there[id] != (j.state != later.StateEnded) {
			rt.Fatalf("job %d: listed %v, want it %s", id, there[id], j.state)
		}
	}
}

// clear empties the store for the next run, also after a failure.
func (m *uniqueModel) clear() {
	var ends []later.Settlement
	for _, j := range m.jobs {
		if j.lease != nil {
			ends = append(ends, end(j.lease, later.OutcomeDone))
		}
	}
	// Errors here show in the next run: it begins with jobs that it does not know.
	_, _ = m.store.Settle(m.ctx, ends)
	infos, _ := m.store.List(m.ctx, later.Filter{Limit: math.MaxInt32})
	for _, info := range infos {
		_ = m.store.Delete(m.ctx, info.ID)
	}
}

package storetest

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// pick draws any job, ended ones too.
func (m *model) pick(rt *rapid.T) *modelJob {
	if len(m.jobs) == 0 {
		rt.Skip("there is no job")
	}
	var ids []int64
	for id := range m.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return m.jobs[rapid.SampledFrom(ids).Draw(rt, "job")]
}

func (m *model) cancel(rt *rapid.T) {
	j := m.pick(rt)
	running, err := m.store.Cancel(m.ctx, j.ID)
	m.answered("Cancel", j, err, map[bool]error{true: nil, false: later.ErrNotFound}[j.state == alive])
	equal(rt, "running", running, j.state == alive && j.holds())
	switch {
	case j.state != alive:
	case j.holds():
		j.cancelled = true
	default:
		j.outcomes = append(j.outcomes, later.OutcomeCancelled)
		m.remove(j)
	}
}

func (m *model) delete(rt *rapid.T) {
	j := m.pick(rt)
	want := error(nil)
	switch {
	case j.state == gone:
		want = later.ErrNotFound
	case j.state == alive && j.holds():
		want = later.ErrRunning
	}
	m.answered("Delete", j, m.store.Delete(m.ctx, j.ID), want)
	if want == nil {
		m.remove(j)
	}
}

func (m *model) retry(rt *rapid.T) {
	j := m.pick(rt)
	want := error(nil)
	switch {
	case j.state == gone:
		want = later.ErrNotFound
	case j.state == alive && j.holds():
		want = later.ErrRunning
	}
	m.answered("Retry", j, m.store.Retry(m.ctx, j.ID), want)
	switch {
	case want != nil:
	case j.state == dead:
		m.revive(j)
	default:
		j.due = true
	}
}

// allDead retries or drops the dead, some at a time.
func (m *model) allDead(rt *rapid.T) {
	f := later.Filter{Limit: rapid.IntRange(1, 5).Draw(rt, "limit"), Queue: rapid.SampledFrom([]string{"", queue}).Draw(rt, "queue")}
	var chosen []*modelJob
	for _, j := range m.jobs {
		if j.state == dead && (f.Queue == "" || f.Queue == j.Queue) {
			chosen = append(chosen, j)
		}
	}
	slices.SortFunc(chosen, func(a, b *modelJob) int { return cmp.Compare(a.ID, b.ID) })
	chosen = chosen[:min(len(chosen), f.Limit)]
	act, change := m.store.RetryDead, m.revive
	if rapid.Bool().Draw(rt, "drop") {
		act, change = m.store.DropDead, m.remove
	}
	n, err := act(m.ctx, f)
	if n != len(chosen) || err != nil {
		rt.Fatalf("got %d dead jobs changed, %v, want %d", n, err, len(chosen))
	}
	for _, j := range chosen {
		change(j)
	}
}

func (m *model) answered(call string, j *modelJob, got, want error) {
	if !errors.Is(got, want) {
		m.rt.Fatalf("%s of job %d: got %v, want %v", call, j.ID, got, want)
	}
}

// remove takes a job out that nobody holds.
func (m *model) remove(j *modelJob) {
	if j.leased() {
		m.old = append(m.old, j.lease)
	}
	j.lease, j.ended, j.state = later.Lease{}, false, gone
}

// revive brings a dead job back.
func (m *model) revive(j *modelJob) {
	j.state, j.due, j.expired, j.cancelled = alive, true, false, false
	j.Attempt, j.Failures, j.Crashes, j.ExpiresAt = 0, 0, 0, later.Record{}.ExpiresAt
	j.Generation++
}

// check compares all that the store shows with the model, and learns each
// run_at that the store's clock has set.
func (m *model) check(rt *rapid.T) {
	infos := m.list(later.Filter{Limit: math.MaxInt32})
	listed := map[int64]bool{}
	for _, info := range infos {
		listed[info.ID] = true
		j := m.jobs[info.ID]
		if j == nil || j.state == gone {
			rt.Fatalf("job %d is listed (%s), want it gone", info.ID, info.State)
		}
		if got, want := info.State, m.stateOf(j); got != want {
			rt.Fatalf("job %d: got state %q, want %q", info.ID, got, want)
		}
		if got, want := !info.RunAt.After(info.Now), j.due; j.state == alive && got != want {
			rt.Fatalf("job %d: got due %v, want %v (run_at %v, now %v)", info.ID, got, want, info.RunAt, info.Now)
		}
		j.RunAt = info.RunAt
		if diff := diffRecords(info.Record, j.Record); diff != "" {
			rt.Fatalf("job %d: %s", info.ID, diff)
		}
		equal(rt, "cancel asked for", !info.CancelAt.IsZero(), j.cancelled && j.state == alive)
		equal(rt, "dead reason", info.DeadReason, map[bool]later.DeadReason{true: j.reason}[j.state == dead])
	}
	for id, j := range m.jobs {
		if j.state != gone && !listed[id] {
			rt.Fatalf("job %d vanished", id)
		}
	}
}

func (m *model) stateOf(j *modelJob) later.State {
	switch {
	case j.state == dead:
		return later.StateDead
	case j.holds():
		return later.StateRunning
	case j.ended:
		return later.StateLost
	case j.due:
		return later.StateReady
	case j.Attempt > 0:
		return later.StateRetry
	default:
		return later.StateScheduled
	}
}

// checkLog compares the history of each job.
func (m *model) checkLog() {
	for id, j := range m.jobs {
		info := m.look(id)
		if info == nil {
			info = &later.JobInfo{}
		}
		var outcomes []later.Outcome
		losses := 0
		for _, entry := range info.Log {
			switch entry.Outcome {
			case later.OutcomeLost:
				losses++
			case later.OutcomeDeleted:
			default:
				outcomes = append(outcomes, entry.Outcome)
			}
		}
		if !slices.Equal(outcomes, j.outcomes) {
			m.rt.Fatalf("job %d: got the outcomes %v in the log, want %v", id, outcomes, j.outcomes)
		}
		// An operator who ends a lost job may or may not log the loss.
		if losses != j.losses && !(j.state == gone && losses == j.losses+1) {
			m.rt.Fatalf("job %d: got %d losses in the log, want %d", id, losses, j.losses)
		}
	}
}

// clear empties the store for the next run, also after a failure.
func (m *model) clear() {
	var ends []later.Settlement
	for _, j := range m.jobs {
		if j.state == alive && j.leased() {
			ends = append(ends, later.Settlement{Lease: j.lease, Outcome: later.OutcomeDone})
		}
	}
	// Errors here show in the next run: it starts with jobs it does not know.
	_, _ = m.store.Settle(m.ctx, ends)
	infos, _ := m.store.List(m.ctx, later.Filter{Limit: math.MaxInt32})
	for _, info := range infos {
		_ = m.store.Delete(m.ctx, info.ID)
	}
}

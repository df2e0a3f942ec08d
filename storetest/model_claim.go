package storetest

import (
	"cmp"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

func (m *model) claim(rt *rapid.T) {
	req := ask(rapid.IntRange(1, 4).Draw(rt, "limit"))
	req.Queues = nil
	for _, name := range rapid.Permutation(modelQueues).Draw(rt, "queues") {
		req.Queues = append(req.Queues, later.QueueLimit{Queue: name, Limit: rapid.IntRange(1, 3).Draw(rt, "queue limit")})
	}
	var want, got []int64
	if within(*m.wait, func() bool {
		want = m.claimable(req)
		req.Token = later.NewToken()
		jobs := m.claimWith(req)
		got = idsOf(jobs)
		m.inOrder(req, jobs)
		for _, c := range jobs {
			j := m.jobs[c.ID]
			if j == nil || !j.claimable() {
				rt.Fatalf("Claim: got job %d, which is not to be had", c.ID)
			}
			doom := later.DoomNone
			if j.MaxAttempts == 1 && j.crashesNow() > 0 {
				doom = later.DoomLost
			}
			m.take(c, []later.Doom{doom})
		}
		if slices.Equal(got, want) {
			return true
		}
		for _, c := range jobs {
			m.end(m.jobs[c.ID], end(c, later.OutcomeReleased))
		}
		return false
	}) {
		return
	}
	*m.wait = time.Second
	rt.Fatalf("Claim: got %v at last, want %v", got, want)
}

// inOrder fails when a claim returned too much, or in a wrong order. That some
// jobs are missing is no fault yet: see [Run].
func (m *model) inOrder(req later.ClaimRequest, jobs []*later.Claimed) {
	if len(jobs) > req.Limit {
		m.rt.Fatalf("Claim: got %d jobs, want at most %d", len(jobs), req.Limit)
	}
	place := func(name string) int {
		return slices.IndexFunc(req.Queues, func(q later.QueueLimit) bool { return q.Queue == name })
	}
	counts := map[string]int{}
	for i, c := range jobs {
		counts[c.Queue]++
		if limit := req.Queues[place(c.Queue)].Limit; counts[c.Queue] > limit {
			m.rt.Fatalf("Claim: got %d jobs of queue %s, want at most %d", counts[c.Queue], c.Queue, limit)
		}
		if i > 0 && cmp.Or(cmp.Compare(place(jobs[i-1].Queue), place(c.Queue)), compareReady(&jobs[i-1].Record, &c.Record)) > 0 {
			m.rt.Fatalf("Claim: got job %d before job %d", jobs[i-1].ID, c.ID)
		}
	}
}

// compareReady is the order of a queue.
func compareReady(a, b *later.Record) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
}

// claimable are the ids that a claim must return.
func (m *model) claimable(req later.ClaimRequest) []int64 {
	var ids []int64
	for _, want := range req.Queues {
		var found []*modelJob
		for _, j := range m.jobs {
			if j.claimable() && j.Queue == want.Queue {
				found = append(found, j)
			}
		}
		slices.SortFunc(found, func(a, b *modelJob) int { return compareReady(&a.Record, &b.Record) })
		for _, j := range found[:min(len(found), want.Limit, req.Limit-len(ids))] {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

func (m *model) sweep(rt *rapid.T) {
	req := seek(rapid.IntRange(1, 3).Draw(rt, "limit"), rapid.Bool().Draw(rt, "suspect"))
	req.Queues = modelQueues
	must, may, suspects := 0, 0, 0
	for _, j := range m.jobs {
		dooms := j.dooms()
		switch {
		case j.state != alive || j.holds():
		case len(dooms) == 1 && dooms[0] == later.DoomLost && j.crashesNow() < later.SuspectCrashes:
			may++ // a claim finds it as well
		case len(dooms) > 0:
			must++
		case j.due && j.Kind == kind && j.crashesNow() >= later.SuspectCrashes:
			suspects++
		}
	}
	doomed, suspect := 0, 0
	for _, c := range m.sweepWith(req) {
		j := m.jobs[c.ID]
		if c.Doom == later.DoomNone {
			suspect++
			if !j.due || j.Kind != kind || j.crashesNow() < later.SuspectCrashes || len(j.dooms()) > 0 {
				rt.Fatalf("Sweep: job %d is to be run, although it is no suspect that is due", c.ID)
			}
			m.take(c, []later.Doom{later.DoomNone})
			continue
		}
		doomed++
		m.take(c, j.dooms())
	}
	if doomed < min(must, req.Limit) || doomed > min(must+may, req.Limit) {
		rt.Fatalf("Sweep: got %d doomed jobs, want %d to %d and at most %d", doomed, must, must+may, req.Limit)
	}
	if want := min(suspects, 1); req.Suspect && suspect != want || !req.Suspect && suspect != 0 {
		rt.Fatalf("Sweep: got %d suspects of %d (wanted: %v)", suspect, suspects, req.Suspect)
	}
}

// take notes that c was leased, for one of the dooms given.
func (m *model) take(c *later.Claimed, dooms []later.Doom) {
	j := m.jobs[c.ID]
	if j.holds() {
		m.rt.Fatalf("job %d was handed out although its lease holds", c.ID)
	}
	if !slices.Contains(dooms, c.Doom) {
		m.rt.Fatalf("job %d: got doom %q, want one of %q", c.ID, c.Doom, dooms)
	}
	if (c.LostWorker != "") != j.ended || c.LostAt.IsZero() == j.ended {
		m.rt.Fatalf("job %d: got lost worker %q at %v, want one: %v", c.ID, c.LostWorker, c.LostAt, j.ended)
	}
	if j.ended {
		j.Crashes++
		j.losses++
		j.ended = false
		m.old = append(m.old, j.lease)
	}
	if c.Doom == later.DoomNone {
		j.Attempt++
	}
	j.lease = c.Lease
	if diff := diffRecords(c.Record, j.Record); diff != "" {
		m.rt.Fatalf("job %d as it was claimed: %s", c.ID, diff)
	}
}

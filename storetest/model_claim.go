package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

func (m *model) claim(rt *rapid.T) {
	req := ask(rapid.IntRange(1, 8).Draw(rt, "limit"))
	req.Queues = nil
	for _, name := range rapid.Permutation(modelQueues).Draw(rt, "queues") {
		req.Queues = append(req.Queues, later.QueueLimit{Queue: name, Limit: rapid.IntRange(1, 7).Draw(rt, "queue limit")})
	}
	var fault string
	if within(*m.wait, func() bool {
		had := m.claimable()
		req.Token = later.NewToken()
		jobs := m.claimWith(req)
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
		if fault = unfair(req, had, jobs); fault == "" {
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
	rt.Fatalf("Claim: at last %s", fault)
}

// modelLevel is where tenants take turns.
type modelLevel struct {
	queue    string
	priority int16
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
	type lane struct {
		modelLevel
		tenant string
	}
	counts, rounds := map[string]int{}, map[lane]int{}
	round := 0 // of the job before
	for i, c := range jobs {
		counts[c.Queue]++
		if limit := req.Queues[place(c.Queue)].Limit; counts[c.Queue] > limit {
			m.rt.Fatalf("Claim: got %d jobs of queue %s, want at most %d", counts[c.Queue], c.Queue, limit)
		}
		of := lane{modelLevel{c.Queue, c.Priority}, c.Tenant}
		rounds[of]++
		if i > 0 {
			b := jobs[i-1]
			if cmp.Or(
				cmp.Compare(place(b.Queue), place(c.Queue)), cmp.Compare(b.Priority, c.Priority),
				cmp.Compare(round, rounds[of]), b.RunAt.Compare(c.RunAt), cmp.Compare(b.ID, c.ID),
			) > 0 {
				m.rt.Fatalf("Claim: got job %d before job %d", b.ID, c.ID)
			}
		}
		round = rounds[of]
	}
}

// claimable are the jobs that a claim may return, by level and tenant, each
// tenant's by run_at, id.
func (m *model) claimable() map[modelLevel]map[string][]*later.Record {
	found := map[modelLevel]map[string][]*later.Record{}
	for _, j := range m.jobs {
		if !j.claimable() {
			continue
		}
		l := modelLevel{j.Queue, j.Priority}
		if found[l] == nil {
			found[l] = map[string][]*later.Record{}
		}
		r := j.Record
		found[l][j.Tenant] = append(found[l][j.Tenant], &r)
	}
	for _, tenants := range found {
		for _, list := range tenants {
			slices.SortFunc(list, func(a, b *later.Record) int {
				return cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
			})
		}
	}
	return found
}

// unfair says what is wrong with a claim of what was there: with how many jobs
// each level gave, and which, and how the tenants shared in them.
func unfair(req later.ClaimRequest, had map[modelLevel]map[string][]*later.Record, jobs []*later.Claimed) string {
	got := map[modelLevel]map[string][]int64{}
	for _, c := range jobs {
		l := modelLevel{c.Queue, c.Priority}
		if got[l] == nil {
			got[l] = map[string][]int64{}
		}
		got[l][c.Tenant] = append(got[l][c.Tenant], c.ID)
	}
	left := req.Limit
	for _, want := range req.Queues {
		room := min(want.Limit, left)
		for _, priority := range modelPriorities {
			l := modelLevel{want.Queue, priority}
			n, fault := unfairLevel(room, had[l], got[l])
			if fault != "" {
				return fmt.Sprintf("of queue %s, priority %d: %s", l.queue, l.priority, fault)
			}
			room, left = room-n, left-n
		}
	}
	return ""
}

// unfairLevel is unfair for one level of which room jobs were wanted. n is how
// many there are.
func unfairLevel(room int, had map[string][]*later.Record, got map[string][]int64) (n int, fault string) {
	total := 0
	for _, list := range had {
		total += len(list)
	}
	for tenant, list := range had {
		ids := got[tenant]
		n += len(ids)
		for i, id := range ids {
			if i >= len(list) || list[i].ID != id {
				return n, fmt.Sprintf("got %v of tenant %q, whose jobs are not those first", ids, tenant)
			}
		}
		share := room / len(had)
		if least := min(len(list), share); len(ids) < least {
			return n, fmt.Sprintf("got %d jobs of tenant %q, want at least %d", len(ids), tenant, least)
		}
		if share == 0 && len(ids) > 1 {
			return n, fmt.Sprintf("got %d jobs of tenant %q, want one at most because there are %d tenants", len(ids), tenant, len(had))
		}
	}
	if want := min(room, total); n != want {
		return n, fmt.Sprintf("got %d jobs, want %d", n, want)
	}
	return n, ""
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

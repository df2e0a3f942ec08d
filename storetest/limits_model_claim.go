package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// drawClaim is a claim for anything.
func (m *limitModel) drawClaim(rt *rapid.T) later.ClaimRequest {
	req := ask(rapid.IntRange(1, 9).Draw(rt, "limit"))
	req.Queues = nil
	for _, name := range rapid.Permutation(limitQueues).Draw(rt, "queues") {
		req.Queues = append(req.Queues, later.QueueLimit{Queue: name, Limit: rapid.IntRange(1, 9).Draw(rt, "queue limit")})
	}
	req.Kinds = rapid.SampledFrom([][]string{limitKinds, limitKinds, limitKinds[:1], limitKinds[1:]}).Draw(rt, "kinds")
	req.Tenants = rapid.SampledFrom([][]string{nil, nil, nil, {""}, {"b", "nobody"}, {"", "a"}}).Draw(rt, "tenants")
	req.Free = rapid.SampledFrom([]int{0, 0, -1, 1, 3}).Draw(rt, "free")
	req.FromLowest = rapid.Bool().Draw(rt, "from lowest")
	if rapid.Bool().Draw(rt, "bound kinds") {
		req.MostOfKind = map[string]int{rapid.SampledFrom(limitKinds).Draw(rt, "bounded kind"): rapid.IntRange(0, 3).Draw(rt, "most of kind")}
	}
	if rapid.Bool().Draw(rt, "unanswered") {
		req.Unanswered = m.unansweredTokens()
	}
	return req
}

func (m *limitModel) unansweredTokens() []int64 {
	var tokens []int64
	for _, j := range m.all(func(j *limitJob) bool { return j.unseen && j.lease != nil }) {
		tokens = append(tokens, j.lease.Lease.Token)
	}
	return tokens
}

func (m *limitModel) claim(rt *rapid.T) {
	req := m.drawClaim(rt)
	jobs := m.claimWith(req)
	m.asAsked(req, jobs)
	lost := rapid.IntRange(0, 5).Draw(rt, "answer lost") == 0
	m.takenBack(req, jobs)
	for _, c := range jobs {
		m.claimed(req, c)
		m.jobs[c.ID].unseen = lost
	}
}

// takenBack notes which jobs of claims whose answers were lost a claim did not give again, but
// took back as if they had not been claimed.
func (m *limitModel) takenBack(req later.ClaimRequest, jobs []*later.Claimed) {
	given := idsOf(jobs)
	for _, j := range m.all(func(j *limitJob) bool { return m.unanswered(req, j) && !slices.Contains(given, j.ID) }) {
		if state := m.find(j.ID).State; state != later.StateRunning && state != later.StateLost {
			j.lease, j.ended, j.unseen = nil, false, false
		}
	}
}

// unanswered reports whether a claim knows that nobody has seen the job.
func (m *limitModel) unanswered(req later.ClaimRequest, j *limitJob) bool {
	return j.unseen && j.lease != nil && slices.Contains(req.Unanswered, j.lease.Lease.Token)
}

// claimAll claims until nothing is left that surely can start, and then asks when to look
// again for what is held back.
func (m *limitModel) claimAll(rt *rapid.T) {
	req := ask(1000)
	req.Kinds, req.Queues = limitKinds, nil
	for _, name := range limitQueues {
		req.Queues = append(req.Queues, later.QueueLimit{Queue: name, Limit: 1000})
	}
	var left []*limitJob
	if !within(*m.wait, func() bool {
		req.Token, req.Unanswered = later.NewToken(), m.unansweredTokens()
		jobs := m.claimWith(req)
		m.asAsked(req, jobs)
		m.takenBack(req, jobs)
		for _, c := range jobs {
			m.claimed(req, c)
		}
		left = m.all(func(j *limitJob) bool { return m.claimable(j) && m.surelyLet(j) })
		return len(left) == 0
	}) {
		*m.wait = time.Second
		rt.Fatalf("Claim: job %d and %d others are not found, although nothing holds them back", left[0].ID, len(left)-1)
	}
	held := m.all(func(j *limitJob) bool { return m.claimable(j) && m.surelyHeld(j) })
	if len(held) == 0 {
		return
	}
	if in, ok, err := m.store.NextDue(m.ctx, limitQueues, limitKinds); err != nil || !ok || in > long {
		rt.Fatalf("NextDue: got %v, %v, %v, although job %d is held back", in, ok, err, held[0].ID)
	}
}

// claimable reports whether a claim takes the job if no limit holds it back.
func (m *limitModel) claimable(j *limitJob) bool {
	return j.state == alive && !j.holds() && j.due && !m.isPaused(j) && j.losses() < later.SuspectCrashes
}

func (m *limitModel) surelyLet(j *limitJob) bool {
	return !slices.ContainsFunc(m.over(j), func(scope later.Scope) bool { return !m.lets(scope, j) })
}

func (m *limitModel) surelyHeld(j *limitJob) bool {
	return slices.ContainsFunc(m.over(j), func(scope later.Scope) bool { return m.refuses(scope, j) != "" })
}

// claimed notes a job that a claim gave, which must have been allowed.
func (m *limitModel) claimed(req later.ClaimRequest, c *later.Claimed) {
	j := m.jobs[c.ID]
	again := j != nil && m.unanswered(req, j) && c.LostWorker == ""
	switch {
	case again && j.state == alive && !m.isPaused(j) && j.due && !j.fenced:
		if j.ended {
			m.started(j, c.Now, true)
		} else {
			m.givenAgain(j)
		}
	case j != nil && m.claimable(j):
		if (c.LostWorker != "") != j.ended {
			m.rt.Fatalf("job %d: got lost worker %q, want one: %v", c.ID, c.LostWorker, j.ended)
		}
		m.started(j, c.Now, false)
		j.Crashes = j.losses()
	default:
		m.rt.Fatalf("Claim: got job %d, which is not to be had", c.ID)
	}
	if got, want := c.Limited, len(m.over(j)) > 0; got != want {
		m.rt.Fatalf("job %d: got limited %v, want %v", c.ID, got, want)
	}
	m.leased(j, c)
}

func (m *limitModel) leased(j *limitJob, c *later.Claimed) {
	equal(m.rt, fmt.Sprintf("crashes of job %d", j.ID), c.Crashes, j.Crashes)
	j.RunAt = c.RunAt
	j.lease, j.begun, j.ended, j.mayBeFenced, j.fenced, j.unseen = c, true, false, false, false, false
}

// asAsked fails when a claim gave what was not asked for, or in a wrong order.
func (m *limitModel) asAsked(req later.ClaimRequest, jobs []*later.Claimed) {
	if len(jobs) > req.Limit {
		m.rt.Fatalf("Claim: got %d jobs, want at most %d", len(jobs), req.Limit)
	}
	free := req.Free
	if free == 0 {
		free = req.Limit
	}
	limited, ofQueue, ofKind := 0, map[string]int{}, map[string]int{}
	type lane struct {
		modelLevel
		tenant string
	}
	had := map[lane]int{}
	var before []int // the place of the job before
	for i, c := range jobs {
		ofQueue[c.Queue]++
		ofKind[c.Kind]++
		if c.Limited {
			limited++
		}
		at := slices.IndexFunc(req.Queues, func(q later.QueueLimit) bool { return q.Queue == c.Queue })
		most, bounded := req.MostOfKind[c.Kind]
		switch {
		case at < 0 || ofQueue[c.Queue] > req.Queues[at].Limit:
			m.rt.Fatalf("Claim: got %d jobs of queue %s: %+v", ofQueue[c.Queue], c.Queue, req.Queues)
		case !slices.Contains(req.Kinds, c.Kind) || bounded && ofKind[c.Kind] > most:
			m.rt.Fatalf("Claim: got %d jobs of kind %s: %v, %v", ofKind[c.Kind], c.Kind, req.Kinds, req.MostOfKind)
		case req.Tenants != nil && !slices.Contains(req.Tenants, c.Tenant):
			m.rt.Fatalf("Claim: got a job of tenant %q, want of %q", c.Tenant, req.Tenants)
		case limited > max(free, 0):
			m.rt.Fatalf("Claim: got %d jobs under a limit, want at most %d", limited, free)
		}
		of := lane{modelLevel{c.Queue, c.Priority}, c.Tenant}
		priority := int(c.Priority)
		if req.FromLowest {
			priority = -priority
		}
		place := []int{at, priority, had[of] / max(m.limits[tenant(c.Tenant)].Weight, 1)}
		had[of]++
		if i > 0 && cmp.Or(slices.Compare(before, place), jobs[i-1].RunAt.Compare(c.RunAt), cmp.Compare(jobs[i-1].ID, c.ID)) > 0 {
			m.rt.Fatalf("Claim: got job %d before job %d", jobs[i-1].ID, c.ID)
		}
		before = place
	}
}

// sweep runs a suspect if there is one that nothing holds back, and ends what was lost too
// often.
func (m *limitModel) sweep(rt *rapid.T) {
	req := seek(10, true)
	req.Queues, req.Kinds = limitQueues, limitKinds
	req.Tenants = rapid.SampledFrom([][]string{nil, nil, {"a"}, {"", "b"}}).Draw(rt, "tenants")
	wanted := func(j *limitJob) bool {
		return j.state == alive && !j.holds() && j.due && !m.isPaused(j) && (req.Tenants == nil || slices.Contains(req.Tenants, j.Tenant)) &&
			j.losses() >= later.SuspectCrashes && j.losses() < later.CrashLimit
	}
	if !within(*m.wait, func() bool {
		must := len(m.all(func(j *limitJob) bool { return wanted(j) && m.surelyLet(j) }))
		req.Token = later.NewToken()
		suspects := 0
		for _, c := range m.sweepWith(req) {
			j := m.jobs[c.ID]
			switch {
			case c.Doom == later.DoomLost && j.losses() >= later.CrashLimit:
				j.Crashes = j.losses()
				m.leased(j, c)
				m.settleWith(j, end(c, later.OutcomeDead))
			case c.Doom == later.DoomNone && wanted(j):
				suspects++
				m.started(j, c.Now, false)
				j.Crashes = j.losses()
				m.leased(j, c)
			default:
				rt.Fatalf("Sweep: got job %d, doom %q, after %d losses", c.ID, c.Doom, j.losses())
			}
		}
		return suspects == 1 || suspects == 0 && must == 0
	}) {
		*m.wait = time.Second
		rt.Fatalf("Sweep: a suspect is not found, although nothing holds it back")
	}
}

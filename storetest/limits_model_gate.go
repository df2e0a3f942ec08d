package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// limitGate is a scope in the model. Where the contract leaves it open what a store
// remembers, the gate knows the least and the most.
type limitGate struct {
	limit later.Limit // that holds
	// low and high are how many starts of a slow rate are used up.
	low, high int
	// counted are the jobs whose starts these are.
	counted map[int64]bool
	// heads are the jobs for which the others of an ordered scope wait; maybe those that a store
	// may still take for such, or not.
	heads, maybe map[int64]bool
	// bound is how many leases may hold: the cap, or what ran when it was set.
	bound  int
	starts []time.Time // under the rate as it is now
}

const fast = time.Millisecond // the period of a fast rate

func isFast(r later.Rate) bool { return r.Period == fast }
func isSlow(r later.Rate) bool { return r.Period == long }

func scopesOfJob(j *limitJob) []later.Scope {
	scopes := []later.Scope{{Of: later.ScopeQueue, Name: j.Queue}, {Of: later.ScopeKind, Name: j.Kind}}
	if j.Tenant != "" {
		scopes = append(scopes, tenant(j.Tenant))
	}
	return scopes
}

// over are the scopes that can hold a job back.
func (m *limitModel) over(j *limitJob) []later.Scope {
	var scopes []later.Scope
	for _, scope := range scopesOfJob(j) {
		if m.gates[scope].limit.Holds() {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

func (m *limitModel) isPaused(j *limitJob) bool {
	for _, scope := range scopesOfJob(j) {
		if m.paused[scope] {
			return true
		}
	}
	return false
}

// count is how many jobs of a scope only says yes to.
func (m *limitModel) count(scope later.Scope, only func(*limitJob) bool) int {
	n := 0
	for _, j := range m.jobs {
		if !only(j) {
			continue
		}
		for _, of := range scopesOfJob(j) {
			if of == scope {
				n++
			}
		}
	}
	return n
}

// effective is what holds for a scope.
func (m *limitModel) effective(scope later.Scope) later.Limit {
	limit, every := m.limits[scope], m.limits[everyTenant]
	if scope.Of != later.ScopeTenant {
		return limit
	}
	if limit.MaxRunning == nil && !limit.Ordered {
		limit.MaxRunning, limit.Ordered, limit.OnDead = every.MaxRunning, every.Ordered, every.OnDead
	}
	if limit.Rate == (later.Rate{}) {
		limit.Rate = every.Rate
	}
	return limit
}

func (m *limitModel) setLimit(rt *rapid.T) {
	scope := rapid.SampledFrom(append([]later.Scope{everyTenant, tenant("a"), modelScopes[0]}, modelScopes...)).Draw(rt, "scope")
	var limit later.Limit
	switch rapid.IntRange(0, 4).Draw(rt, "running") {
	case 0, 1:
		limit = atMost(rapid.IntRange(0, 3).Draw(rt, "most"))
	case 2:
		limit.Ordered = true
		limit.OnDead = rapid.SampledFrom([]later.OnDead{later.DeadGoesBy, later.DeadBlocks}).Draw(rt, "on dead")
	}
	switch rapid.IntRange(0, 3).Draw(rt, "rate") {
	case 0:
		limit.Rate = slow(rapid.IntRange(1, 4).Draw(rt, "burst")).Rate
	case 1:
		limit.Rate = later.Rate{N: 1, Period: fast, Burst: rapid.IntRange(1, 3).Draw(rt, "burst")}
	}
	if scope.Of == later.ScopeTenant {
		limit.Weight = rapid.IntRange(0, 3).Draw(rt, "weight")
	}
	if !limit.Holds() && limit.Weight == 0 {
		limit = atMost(2)
	}
	m.limit(scope, limit)
	m.limits[scope] = limit
	m.limitsChanged(later.Scope{})
}

func (m *limitModel) removeLimit(rt *rapid.T) {
	var scopes []later.Scope
	for _, scope := range append([]later.Scope{everyTenant}, modelScopes...) {
		if _, limited := m.limits[scope]; limited {
			scopes = append(scopes, scope)
		}
	}
	if len(scopes) == 0 {
		rt.Skip("there is no limit")
	}
	scope := rapid.SampledFrom(scopes).Draw(rt, "scope")
	m.unlimit(scope)
	delete(m.limits, scope)
	m.limitsChanged(scope)
}

// limitsChanged notes what a change does to the scopes; removed is whose limit was removed.
func (m *limitModel) limitsChanged(removed later.Scope) {
	for _, scope := range modelScopes {
		g, before, after := m.gates[scope], m.gates[scope].limit, m.effective(scope)
		sameLimit(m.rt, "standing", m.standing(scope).Limit, after)
		if before.Rate != after.Rate {
			g.paced(m, scope)
			switch {
			case isFast(after.Rate), isSlow(after.Rate) && isFast(before.Rate):
				g.low, g.high = 0, 0
				clear(g.counted)
			case isSlow(after.Rate) && isSlow(before.Rate):
				g.low = min(g.low, after.Rate.Burst)
			default:
				g.low = 0
				clear(g.counted)
			}
		}
		gone := removed == scope || removed == everyTenant && scope.Of == later.ScopeTenant
		if gone {
			g.low = 0
			clear(g.counted)
		}
		if after.Ordered && (!before.Ordered || gone || after.OnDead != before.OnDead) {
			g.begin(m, scope, !before.Ordered || gone)
		}
		if !after.Ordered {
			clear(g.heads)
			clear(g.maybe)
		}
		g.limit = after
		if most, limited := after.Cap(); limited {
			g.bound = max(most, m.count(scope, (*limitJob).hasPlace))
		}
	}
}

// hasPlace reports whether a job runs, or may come back and run on.
func (j *limitJob) hasPlace() bool { return j.lease != nil && !j.fenced }

// begin says for whom the others of a scope wait when its order is set or changed.
func (g *limitGate) begin(m *limitModel, scope later.Scope, anew bool) {
	for id, j := range m.jobs {
		in := false
		for _, of := range scopesOfJob(j) {
			in = in || of == scope
		}
		switch {
		case !in || j.state == gone || !j.begun:
		case j.holds():
			g.heads[id] = true
		case anew || j.state == dead:
			delete(g.heads, id)
			g.maybe[id] = true
		}
	}
}

// inBounds notes what has ended, and fails when more leases hold than may.
func (m *limitModel) inBounds() {
	for _, scope := range modelScopes {
		g := m.gates[scope]
		most, limited := g.limit.Cap()
		if !limited {
			continue
		}
		g.bound = max(most, min(g.bound, m.count(scope, (*limitJob).hasPlace)))
		if n := m.count(scope, (*limitJob).holds); n > g.bound {
			m.rt.Fatalf("%v: %d leases hold, want at most %d", scope, n, g.bound)
		}
	}
}

// refuses says why a job can surely not start now; "": it may.
func (m *limitModel) refuses(scope later.Scope, j *limitJob) string {
	g := m.gates[scope]
	if most, limited := g.limit.Cap(); limited && m.count(scope, (*limitJob).holds) >= most {
		return "it is full"
	}
	if g.limit.Ordered && !g.heads[j.ID] && !g.maybe[j.ID] {
		for id := range g.heads {
			if m.blocks(g, id) {
				return "another has begun"
			}
		}
	}
	if isSlow(g.limit.Rate) && g.low >= g.limit.Rate.Burst {
		return "the rate is used up"
	}
	return ""
}

// lets reports whether a job surely can start.
func (m *limitModel) lets(scope later.Scope, j *limitJob) bool {
	g := m.gates[scope]
	if m.refuses(scope, j) != "" || isSlow(g.limit.Rate) && g.high >= g.limit.Rate.Burst {
		return false
	}
	for id := range g.heads {
		if id != j.ID && m.blocks(g, id) {
			return false
		}
	}
	for id := range g.maybe {
		if id != j.ID && m.blocks(g, id) {
			return false
		}
	}
	return true
}

// blocks reports whether a job that has begun holds back others.
func (m *limitModel) blocks(g *limitGate, id int64) bool {
	return m.jobs[id].state == alive || g.limit.OnDead == later.DeadBlocks
}

// started notes a start, which must have been allowed; again is one that may be none, because
// the answer of a claim was lost.
func (m *limitModel) started(j *limitJob, at time.Time, again bool) {
	for _, scope := range m.over(j) {
		g := m.gates[scope]
		why := m.refuses(scope, j)
		if why != "" && !(again && why == "the rate is used up") {
			m.rt.Fatalf("job %d was started, but of %v %s (%+v)", j.ID, scope, why, g.limit)
		}
		if isSlow(g.limit.Rate) {
			g.high = min(max(g.high, g.low), g.limit.Rate.Burst-1) + 1
			if !again {
				g.low++
			}
			g.counted[j.ID] = true
		}
		if isFast(g.limit.Rate) && !again {
			g.starts = append(g.starts, at)
		}
		if g.limit.Ordered {
			if !g.heads[j.ID] && !g.maybe[j.ID] { // then all the others had ended
				clear(g.heads)
				clear(g.maybe)
			}
			g.heads[j.ID] = true
			delete(g.maybe, j.ID)
		}
		if most, limited := g.limit.Cap(); limited {
			others := m.count(scope, func(o *limitJob) bool { return o != j && o.hasPlace() })
			if others+1 > most {
				m.count(scope, func(o *limitJob) bool {
					o.mayBeFenced = o.mayBeFenced || o != j && o.ended && inScope(o, scope)
					return false
				})
			}
			g.bound = most
		}
	}
}

// givenAgain notes that a claim gave a job again that nobody has seen. It is no start, but a
// rate that was set meanwhile may not know of the first one.
func (m *limitModel) givenAgain(j *limitJob) {
	for _, scope := range m.over(j) {
		if g := m.gates[scope]; isSlow(g.limit.Rate) && !g.counted[j.ID] {
			g.high = min(max(g.high, g.low), g.limit.Rate.Burst-1) + 1
		}
	}
}

func inScope(j *limitJob, scope later.Scope) bool {
	for _, of := range scopesOfJob(j) {
		if of == scope {
			return true
		}
	}
	return false
}

func (m *limitModel) gone(j *limitJob) {
	j.state = gone
	for _, g := range m.gates {
		delete(g.heads, j.ID)
		delete(g.maybe, j.ID)
	}
}

func (m *limitModel) died(j *limitJob) {
	j.state = dead
	for _, g := range m.gates {
		if g.heads[j.ID] && g.limit.OnDead != later.DeadBlocks {
			delete(g.heads, j.ID)
			g.maybe[j.ID] = true // if it is retried before another one starts
		}
	}
}

// paced fails when a fast rate was exceeded, and forgets its starts.
func (g *limitGate) paced(m *limitModel, scope later.Scope) {
	if isFast(g.limit.Rate) {
		paced(m.rt, g.starts, g.limit.Rate)
	}
	g.starts = nil
}

package sqlite

import (
	"math"
	"slices"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/admit"
)

// fullFor is how long a full scope is left alone by those who wait: a place that another
// process has freed is noticed after it at the latest. See [later.Runner.Claim].
const fullFor = time.Second

// admission decides for one claim or sweep which jobs may start. What it has let in is stored
// by save, in the same transaction.
type admission struct {
	q      querier
	limits *admit.Limits
	now    int64
	gates  map[later.Scope]*gateState // those that were looked at; nil: nothing holds back there
	again  map[int64]bool             // jobs of claims whose answer was lost, and whether their leases hold
	left   map[string]int             // how many more are wanted of a kind that is bounded
	free   int                        // how many more are wanted that are under a limit
	held   int64                      // when the first of the jobs that were met and held back may go; 0: there was none
}

func newAdmission(q querier, limits *admit.Limits, now int64) *admission {
	return &admission{q: q, limits: limits, now: now, gates: map[later.Scope]*gateState{}, free: math.MaxInt}
}

// admissionOf is the admission of a claim.
func admissionOf(q querier, limits *admit.Limits, now int64, req later.ClaimRequest, again map[int64]bool) *admission {
	a := newAdmission(q, limits, now)
	a.again = again
	if req.Free != 0 {
		a.free = max(req.Free, 0)
	}
	a.left = map[string]int{}
	for kind, most := range req.MostOfKind {
		a.left[kind] = most
	}
	return a
}

// gateState is a gate with what the store knows of its jobs.
type gateState struct {
	admit.Gate
	scope later.Scope
	busy  []int64 // those that were let in and run
	// lost are those whose lease has ended without anybody having taken them. Their places
	// are free, but until these are given away their workers may come back.
	lost  []int64
	heads []head // of an ordered scope: those that do not run
	let   bool   // something in
	gave  bool   // a place to a job that had none
}

// head is a job of an ordered scope that has begun and waits, so that the others wait for it.
type head struct {
	id    int64
	runAt int64
	dead  bool
}

// gate returns a scope's gate, which must have been loaded; nil if nothing holds back there.
func (a *admission) gate(of later.ScopeOf, name string) *gateState {
	return a.gates[later.Scope{Of: of, Name: name}]
}

// closed reports whether g lets no job in but its head.
func (a *admission) closed(g *gateState) bool {
	return g != nil && (a.free <= 0 || g.Room(toTime(a.now)) <= 0)
}

// wants reports whether a kind may be claimed, as far as kinds are concerned.
func (a *admission) wants(kind string) bool {
	if left, bounded := a.left[kind]; bounded && left <= 0 {
		return false
	}
	return !a.closed(a.gate(later.ScopeKind, kind))
}

// over are the gates of a job.
func (a *admission) over(queue, kind, tenant string) []*gateState {
	var list []*gateState
	for _, scope := range []later.Scope{{Of: later.ScopeQueue, Name: queue}, {Of: later.ScopeKind, Name: kind}, {Of: later.ScopeTenant, Name: tenant}} {
		if g := a.gates[scope]; g != nil {
			list = append(list, g)
		}
	}
	return list
}

// lets reports whether all gates let a job start that may be the head of some of them, or that
// was let in by a claim whose answer was lost. Their scopes must have been loaded.
func (a *admission) lets(id int64, queue, kind, tenant string) bool {
	if left, bounded := a.left[kind]; bounded && left <= 0 {
		return false
	}
	gates := a.over(queue, kind, tenant)
	if len(gates) > 0 && a.free <= 0 {
		return false
	}
	return a.again[id] || !slices.ContainsFunc(gates, func(g *gateState) bool { return !g.letsHead(id, toTime(a.now)) })
}

// letsHead reports whether a job that does not run may start.
func (g *gateState) letsHead(id int64, now time.Time) bool {
	return g.Lets(id, now) && !(g.Limit.Ordered && len(g.busy) > 0)
}

// startable are the jobs that a gate without room lets start all the same.
func (g *gateState) startable(now time.Time) []int64 {
	ids := []int64{}
	for _, h := range g.heads {
		if g.letsHead(h.id, now) {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// let notes that a job starts.
func (a *admission) let(id int64, queue, kind, tenant string) {
	if _, bounded := a.left[kind]; bounded {
		a.left[kind]--
	}
	gates := a.over(queue, kind, tenant)
	if len(gates) > 0 {
		a.free--
	}
	for _, g := range gates {
		is := func(other int64) bool { return other == id }
		g.lost = slices.DeleteFunc(g.lost, is)
		g.heads = slices.DeleteFunc(g.heads, func(h head) bool { return h.id == id })
		g.busy = append(slices.DeleteFunc(g.busy, is), id)
		tat := g.TAT
		g.Let(toTime(a.now), id)
		if a.again[id] { // it was counted by the claim whose answer was lost
			g.TAT = tat
		} else {
			g.gave = true
		}
		g.let = true
	}
}

// note remembers when a job may go that all of gates together hold back.
func (a *admission) note(gates ...*gateState) {
	at, holds := a.now, false
	for _, g := range gates {
		if now := toTime(a.now); g.Room(now) <= 0 { // else it is the worker that wants no more
			at, holds = max(at, g.next(a.now)), true
		}
	}
	if holds && (a.held == 0 || at < a.held) {
		a.held = at
	}
}

// noteHead is note for a job that is the head of some of its gates.
func (a *admission) noteHead(id int64, queue, kind, tenant string) {
	a.note(slices.DeleteFunc(a.over(queue, kind, tenant), func(g *gateState) bool { return g.letsHead(id, toTime(a.now)) })...)
}

// next is when a gate without room may let a job go, as far as is known.
func (g *gateState) next(now int64) int64 {
	at := now
	if next := g.Next(toTime(now)); !next.IsZero() {
		at = max(at, millis(next))
	}
	most, limited := g.Limit.Cap()
	if !limited || len(g.Running) < most {
		return at
	}
	full := now + fullFor.Milliseconds()
	if len(g.busy) > 0 || len(g.heads) == 0 {
		return max(at, full)
	}
	first := int64(math.MaxInt64)
	for _, h := range g.heads {
		switch {
		case h.dead:
			first = min(first, full)
		default:
			first = min(first, h.runAt)
		}
	}
	if at = max(at, first); at == now { // it is due, and this worker does not come by it
		at = full
	}
	return at
}

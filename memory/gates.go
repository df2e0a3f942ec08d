package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/admit"
)

// lookAgain is after how long a worker looks again for what a full scope holds back. Whoever
// frees a place wakes it before.
const lookAgain = time.Second

// gateState is what is remembered of a scope under a limit. Who runs in it the leases tell.
type gateState struct {
	tat   time.Time
	heads []int64 // of an ordered scope: who has begun, and holds back the others until it has ended
}

// gates are the limits as a claim or a sweep finds them, with what it has let in since.
type gates struct {
	store *Store
	now   time.Time
	of    map[later.Scope]*gate
	again time.Duration // until the first that was held back may be let in; 0: none was
}

// gate is a scope under a limit.
type gate struct {
	admit.Gate
	runs  int    // leases that hold
	ended []*job // whose leases have ended: they have their places until somebody needs them
}

func (s *Store) gatesAt(now time.Time) *gates {
	g := &gates{store: s, now: now, of: map[later.Scope]*gate{}}
	if len(s.limitOf) == 0 {
		return g
	}
	for _, j := range s.leased {
		for _, scope := range g.over(j) {
			switch gate := g.at(scope); {
			case j.lease.doomed || j.lease.token == fenced:
			case j.holds(now):
				gate.runs++
				if !gate.Limit.Ordered {
					gate.Running = append(gate.Running, j.ID)
				}
			default:
				gate.ended = append(gate.ended, j)
			}
		}
	}
	return g
}

// over are the scopes whose limits j is under.
func (g *gates) over(j *job) []later.Scope {
	if len(g.store.limitOf) == 0 {
		return nil
	}
	return g.store.limits.Over(j.Queue, j.Kind, j.Tenant)
}

// overLane reports whether j is under a limit as all the jobs in its lane are.
func (g *gates) overLane(j *job) bool {
	return slices.ContainsFunc(g.over(j), func(scope later.Scope) bool { return scope.Of != later.ScopeKind })
}

func (g *gates) at(scope later.Scope) *gate {
	known := g.of[scope]
	if known == nil {
		known = &gate{Gate: admit.Gate{Limit: g.store.limits.Of(scope), TAT: g.store.gateStates[scope].tat}}
		if known.Limit.Ordered {
			known.Running = g.store.headsOf(scope, known.Limit)
		}
		g.of[scope] = known
	}
	return known
}

// headsOf are the jobs of an ordered scope that have begun and not ended.
func (s *Store) headsOf(scope later.Scope, limit later.Limit) []int64 {
	var heads []int64
	for _, id := range s.gateStates[scope].heads {
		if s.jobs[id] != nil || limit.OnDead == later.DeadBlocks && s.dead[id] != nil {
			heads = append(heads, id)
		}
	}
	return heads
}

// lets reports whether all limits let j start, and otherwise notes when to ask again.
func (g *gates) lets(j *job) bool {
	var wait time.Duration
	for _, scope := range g.over(j) {
		wait = max(wait, g.wait(g.at(scope), j.ID))
	}
	if wait > 0 && (g.again == 0 || wait < g.again) {
		g.again = wait
	}
	return wait == 0
}

// wait is how long it may take until the gate lets a job in that does not run; 0: it does now.
func (g *gates) wait(at *gate, id int64) time.Duration {
	most, limited := at.Limit.Cap()
	full := limited && at.runs >= most
	switch {
	case at.Lets(id, g.now) && !full:
		return 0
	case full:
		return lookAgain
	case !at.Limit.Ordered || len(at.Running) == 0 || slices.Contains(at.Running, id):
		return at.Next(g.now).Sub(g.now)
	}
	var wait time.Duration
	for _, head := range at.Running {
		until := lookAgain
		if j := g.store.jobs[head]; j != nil && j.RunAt.After(g.now) {
			until = j.RunAt.Sub(g.now)
		}
		if wait == 0 || until < wait {
			wait = until
		}
	}
	return wait
}

// shut reports whether a limit holds back all the jobs in j's lane.
func (g *gates) shut(j *job) bool {
	for _, scope := range g.over(j) {
		at := g.at(scope)
		if scope.Of != later.ScopeKind && at.Room(g.now) == 0 && !slices.ContainsFunc(at.Running, func(id int64) bool {
			head := g.store.jobs[id]
			return head != nil && !head.holds(g.now) && !head.RunAt.After(g.now)
		}) {
			return true
		}
	}
	return false
}

// let lets j in if all limits do.
func (g *gates) let(j *job) bool {
	if !g.lets(j) {
		return false
	}
	for _, scope := range g.over(j) {
		at := g.at(scope)
		at.Let(g.now, j.ID)
		at.runs++
		at.ended = slices.DeleteFunc(at.ended, func(other *job) bool { return other == j })
		at.fence()
		state := gateState{tat: at.TAT}
		if at.Limit.Ordered {
			state.heads = at.Running
		}
		g.store.gateStates[scope] = state
	}
	return true
}

// fence takes the places of leases that have ended for those that hold, the oldest first, as far
// as there are not enough for both: who comes back late finds its lease lost. The job is still
// one whose worker was lost.
func (at *gate) fence() {
	most, limited := at.Limit.Cap()
	if !limited || at.runs+len(at.ended) <= most {
		return
	}
	slices.SortFunc(at.ended, func(a, b *job) int {
		return cmp.Or(a.lease.until.Compare(b.lease.until), cmp.Compare(a.ID, b.ID))
	})
	for len(at.ended) > 0 && at.runs+len(at.ended) > most {
		at.ended[0].lease.token = fenced
		at.ended = at.ended[1:]
	}
}

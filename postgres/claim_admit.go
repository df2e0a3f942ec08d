package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// maxGates bounds the locks of one admission. Chosen: a server has room for at least 64 for each of
// its connections, and with more limits than that the next statement goes on.
const maxGates = 64

// keptTries is how often a claim tries to give a place to another job that its job may still have,
// until it leaves the limit alone. Chosen: a renewal is seen by the second try; a row that somebody
// has locked may stay so for hours.
const keptTries = 3

// limited reports whether a claim may meet a limit.
func (g *gateSet) limited(req later.ClaimRequest) bool {
	if g.limits == nil || g.passed {
		return false
	}
	all, named := g.limits.LimitedTenants() // one that only weighs is held back by nothing
	return all || len(named) > 0 ||
		slices.ContainsFunc(req.Queues, func(q later.QueueLimit) bool {
			return g.limits.Of(later.Scope{Of: later.ScopeQueue, Name: q.Queue}).Holds()
		}) ||
		slices.ContainsFunc(req.Kinds, func(kind string) bool { return g.limits.Of(later.Scope{Of: later.ScopeKind, Name: kind}).Holds() })
}

// held notes that the claim has met a scope that lets nobody in for so long by itself.
func (c *turnClaim) held(a *admission, scope later.Scope, wait time.Duration) {
	c.store.holding.close(scope, wait, a.ends)
	c.wait(wait)
}

// wait notes that something is held back for so long.
func (c *turnClaim) wait(d time.Duration) {
	if c.heldFor == 0 || d < c.heldFor {
		c.heldFor = d
	}
}

// taking is what a statement is to take.
type taking struct {
	lanes  []*turnLane
	chosen []chosenJob         // heads of ordered scopes, whatever lane they are in
	unseen []chosenJob         // to be given again, whatever the limits
	used   map[later.Scope]int // places that the chosen take
	total  int                 // at most
	rooms  map[string]int      // of each queue
	// most are the bounds of kinds that are bounded.
	most map[string]int
}

// plan is what is to be taken of lanes if nothing but the request bounds it.
func (c *turnClaim) plan(lanes []*turnLane) *taking {
	t := &taking{lanes: lanes, total: min(c.room, c.budget), rooms: map[string]int{}, most: map[string]int{}}
	for _, q := range c.queues {
		t.rooms[q.name] = q.room
	}
	for _, kind := range c.kinds {
		if most, bounded := c.most[kind]; bounded {
			t.bound(kind, most)
		}
	}
	return t
}

func (t *taking) bound(kind string, most int) {
	if before, bounded := t.most[kind]; !bounded || most < before {
		t.most[kind] = max(most, 0)
	}
}

// narrow has a statement take no more than fits into the tightest kind: whatever kinds it meets,
// none gets too much. What is left is for a claim without the tightest.
func (c *turnClaim) narrow(t *taking) {
	for kind, most := range t.most {
		switch {
		case most < c.budget:
			c.budget, c.tight = most, []string{kind}
		case most == c.budget && !slices.Contains(c.tight, kind):
			c.tight = append(c.tight, kind)
		}
	}
	t.total = min(t.total, c.budget)
}

// scopesOf are the limits that jobs of lanes are under, at most maxGates of tenants; the lanes are
// those for which that is enough.
func (c *turnClaim) scopesOf(lanes []*turnLane) ([]*turnLane, []later.Scope) {
	seen := map[later.Scope]bool{}
	add := func(of later.ScopeOf, name string) {
		if scope := (later.Scope{Of: of, Name: name}); c.set.limits.Of(scope).Holds() {
			seen[scope] = true
		}
	}
	for _, kind := range c.kinds {
		add(later.ScopeKind, kind)
	}
	most := len(seen) + maxGates
	for i, l := range lanes {
		if len(seen) >= most {
			lanes = lanes[:i]
			break
		}
		add(later.ScopeQueue, l.queue.name)
		add(later.ScopeTenant, l.tenant)
	}
	scopes := make([]later.Scope, 0, len(seen))
	for scope := range seen {
		scopes = append(scopes, scope)
	}
	slices.SortFunc(scopes, func(a, b later.Scope) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name)) })
	return lanes, scopes
}

// takeAdmitted takes from lanes whose jobs may be under limits.
func (c *turnClaim) takeAdmitted(ctx context.Context, lanes []*turnLane) error {
	lanes, scopes := c.scopesOf(lanes)
	if len(scopes) == 0 {
		return c.takeFreely(ctx, lanes)
	}
	had := *c.bytes
	for try := 1; ; try++ {
		*c.bytes = had // what a try has read counts only if it is committed
		missing, err := c.admitOnce(ctx, lanes, scopes, try < maxTries)
		if len(missing) > 0 {
			scopes = append(scopes, missing...)
			continue
		}
		var kept *placeKept
		again := isAborted(err) || errors.As(err, &kept)
		if kept != nil && try >= keptTries { // one place must not hold up what other limits let in
			c.spend(kept.scope)
			c.store.holding.close(kept.scope, gateRecheck, kept.ends)
			c.wait(gateRecheck)
			continue
		}
		if err == nil || !again || try == maxTries || !pause(ctx, retryDelay<<(try-1)) {
			return err
		}
	}
}

// admitOnce takes from lanes within one admission. If that has a head that is under further limits,
// it takes nothing and returns these, but only if more says so.
func (c *turnClaim) admitOnce(ctx context.Context, lanes []*turnLane, scopes []later.Scope, more bool) (missing []later.Scope, err error) {
	a, err := c.store.admit(ctx, c.set, scopes, c.req.Unanswered, false)
	if err != nil {
		return nil, fmt.Errorf("claim %d jobs: %w", c.room, c.store.classify(err))
	}
	defer a.end(ctx)
	if more {
		if missing = c.missing(a, scopes); len(missing) > 0 {
			return missing, nil
		}
	}
	for _, scope := range scopes {
		if a.gates[scope] == nil { // another claim has its lock
			c.held(a, scope, gateBusy)
		}
	}
	t := c.plan(lanes)
	c.fit(a, t)
	if len(t.chosen)+len(t.unseen) == 0 && (t.total == 0 || len(t.lanes) == 0) {
		return nil, nil
	}
	return nil, c.takeFrom(ctx, t, a)
}

// missing are the limits of heads that an admission does not have: a head need not be of the lanes
// from which a claim was about to take.
func (c *turnClaim) missing(a *admission, scopes []later.Scope) (missing []later.Scope) {
	for _, g := range a.gates {
		for _, job := range g.chosen() {
			asked := slices.Contains(c.kinds, job.kind) && !c.isLeftOut(job.tenant) &&
				slices.ContainsFunc(c.queues, func(q *turnQueue) bool { return q.name == job.queue && q.room > 0 })
			if !asked {
				continue
			}
			for _, scope := range c.set.limits.Over(job.queue, job.kind, job.tenant) {
				if !slices.Contains(scopes, scope) && !slices.Contains(missing, scope) {
					missing = append(missing, scope)
				}
			}
		}
	}
	return missing
}

// dropClosed leaves out closed lanes for the rest of the claim.
func (c *turnClaim) dropClosed() {
	for _, q := range c.queues {
		q.lanes = slices.DeleteFunc(q.lanes, func(l *turnLane) bool {
			if l.wait > 0 { // it may have more
				c.wait(l.wait)
			}
			return l.closed
		})
	}
}

// fit has what is to be taken fit into the limits.
func (c *turnClaim) fit(a *admission, t *taking) {
	for _, g := range a.gates {
		t.chosen, t.unseen = append(t.chosen, g.chosen()...), append(t.unseen, g.unseen...)
	}
	c.choose(a, t)
	for _, kind := range c.kinds {
		if scope := (later.Scope{Of: later.ScopeKind, Name: kind}); c.set.limits.Of(scope).Holds() {
			t.bound(kind, c.roomOf(a, scope, t))
		}
	}
	c.narrow(t)
	for _, q := range c.queues {
		scope := later.Scope{Of: later.ScopeQueue, Name: q.name}
		if !c.set.limits.Of(scope).Holds() || !slices.ContainsFunc(t.lanes, func(l *turnLane) bool { return l.queue == q }) {
			continue
		}
		room := c.roomOf(a, scope, t)
		if t.rooms[q.name] = min(t.rooms[q.name], room); room == 0 {
			q.close()
		}
	}
	rooms := map[string]int{} // of tenants
	for _, l := range t.lanes {
		scope := later.Scope{Of: later.ScopeTenant, Name: l.tenant}
		if !c.set.limits.Of(scope).Holds() {
			continue
		}
		room, known := rooms[l.tenant]
		if !known {
			room = c.roomOf(a, scope, t)
		}
		if room == 0 {
			l.closed = !known // else another lane of the tenant has its places
			l.queue.barren = 0
			l.asked = 0
			continue
		}
		l.asked = min(l.asked, room)
		rooms[l.tenant] = room - l.asked
	}
	t.lanes = slices.DeleteFunc(t.lanes, func(l *turnLane) bool { return l.closed || l.asked == 0 || t.rooms[l.queue.name] == 0 })
	c.dropClosed()
}

// choose keeps the jobs to be given again that were asked for, and the chosen ones that every limit
// over them lets in.
func (c *turnClaim) choose(a *admission, t *taking) {
	t.used = map[later.Scope]int{}
	kinds := map[string]int{}
	asked := func(job chosenJob) bool {
		most, bounded := c.most[job.kind]
		return t.total > 0 && t.rooms[job.queue] > 0 && slices.Contains(c.kinds, job.kind) &&
			(!bounded || kinds[job.kind] < most) && !c.isLeftOut(job.tenant)
	}
	take := func(job chosenJob) {
		t.total--
		t.rooms[job.queue]--
		kinds[job.kind]++
		if most, bounded := c.most[job.kind]; bounded {
			t.bound(job.kind, most-kinds[job.kind])
		}
	}
	t.unseen = slices.DeleteFunc(distinct(t.unseen), func(job chosenJob) bool {
		if !asked(job) {
			return true
		}
		take(job)
		return false
	})
	t.chosen = slices.DeleteFunc(distinct(t.chosen), func(job chosenJob) bool {
		if !asked(job) || !c.letsChosen(a, t, job) {
			return true
		}
		take(job)
		return false
	})
}

// letsChosen reports whether all limits let a chosen job in, and notes the places that it takes.
func (c *turnClaim) letsChosen(a *admission, t *taking, job chosenJob) bool {
	scopes := c.set.limits.Over(job.queue, job.kind, job.tenant)
	for _, scope := range scopes {
		g := a.gates[scope]
		if g == nil || c.spent[scope] {
			return false
		}
		room := g.room()
		if slices.Contains(g.chosen(), job) {
			room = 1
		}
		if room <= t.used[scope] {
			return false
		}
	}
	for _, scope := range scopes {
		t.used[scope]++
	}
	return true
}

func distinct(jobs []chosenJob) []chosenJob {
	slices.SortFunc(jobs, func(a, b chosenJob) int { return cmp.Compare(a.id, b.id) })
	return slices.Compact(jobs)
}

// close has no more taken of a queue by this claim.
func (q *turnQueue) close() {
	for _, l := range q.lanes {
		l.closed = true
	}
	q.lanes, q.complete = nil, true
}

// roomOf is how many jobs a limit lets in beyond those that are chosen.
func (c *turnClaim) roomOf(a *admission, scope later.Scope, t *taking) int {
	g := a.gates[scope]
	switch {
	case g == nil:
		return 0
	case c.spent[scope]: // though time has passed meanwhile
		c.wait(g.recheck())
		return 0
	}
	room := max(g.room()-t.used[scope], 0)
	switch {
	case room > 0:
	case t.used[scope] == 0 && len(g.unseen) == 0:
		c.held(a, scope, g.recheck())
	default: // it may have to be asked for what is given again
		c.wait(g.recheck())
	}
	return room
}

// noteSpent has the claim ask no rate again that has nothing left. Kinds that are full now are left
// out of what the claim looks for further, so there may be jobs of them that are held back.
func (c *turnClaim) noteSpent(a *admission) {
	full := map[string]*heldGate{}
	for scope, g := range a.gates {
		if !g.let || g.room() > 0 {
			continue
		}
		switch scope.Of {
		case later.ScopeKind:
			c.wait(g.recheck())
		case later.ScopeTenant: // it need not be asked again, by the next claim either
			c.store.holding.close(scope, g.recheck(), a.ends)
			full[scope.Name] = g
		}
		if g.Limit.Rate != (later.Rate{}) {
			c.spend(scope)
		}
	}
	for _, q := range c.queues {
		for _, l := range q.lanes {
			if g := full[l.tenant]; g != nil {
				l.closed, l.wait = true, g.recheck()
			}
		}
	}
}

// spend has the claim take no more under a limit.
func (c *turnClaim) spend(scope later.Scope) {
	if c.spent == nil {
		c.spent = map[later.Scope]bool{}
	}
	c.spent[scope] = true
}

// noteStarted notes who fills places.
func (c *turnClaim) noteStarted(lists ...[]*later.Claimed) {
	for _, jobs := range lists {
		for _, job := range jobs {
			if scopes := c.set.limits.Over(job.Queue, job.Kind, job.Tenant); len(scopes) > 0 {
				c.store.holding.started(job.ID, scopes)
			}
		}
	}
}

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// maxGates bounds the locks of one admission. Chosen: a server has room for at least 64 for each of
// its connections, and with more limits than that the next statement goes on.
const maxGates = 64

// limits reports whether a claim may meet a limit.
func (g *gateSet) limited(req later.ClaimRequest) bool {
	if g.limits == nil {
		return false
	}
	return g.limits.Tenants() ||
		slices.ContainsFunc(req.Queues, func(q later.QueueLimit) bool {
			return g.limits.Of(later.Scope{Of: later.ScopeQueue, Name: q.Queue}).Holds()
		}) ||
		slices.ContainsFunc(req.Kinds, func(kind string) bool { return g.limits.Of(later.Scope{Of: later.ScopeKind, Name: kind}).Holds() })
}

// held notes that the claim has met a scope that lets nobody in for so long.
func (c *turnClaim) held(scope later.Scope, wait time.Duration) {
	c.store.holding.close(scope, wait)
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
	chosen []chosenJob    // whatever lane they are in
	total  int            // at most
	rooms  map[string]int // of each queue
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
		return c.takeFrom(ctx, c.plan(lanes), nil)
	}
	if len(scopes) > maxGates/2 {
		gates, err := c.store.standings(ctx, c.set, scopes, c.req.Unanswered)
		if err != nil {
			return err
		}
		if lanes = c.open(lanes, gates); len(lanes) == 0 {
			return nil
		}
		if lanes, scopes = c.scopesOf(lanes); len(scopes) == 0 {
			return c.takeFrom(ctx, c.plan(lanes), nil)
		}
	}
	for try := 1; ; try++ {
		err := c.admitOnce(ctx, lanes, scopes)
		if err == nil || !isAborted(err) || try == maxTries || !pause(ctx, retryDelay<<(try-1)) {
			return err
		}
	}
}

func (c *turnClaim) admitOnce(ctx context.Context, lanes []*turnLane, scopes []later.Scope) error {
	a, err := c.store.admit(ctx, c.set, scopes, c.req.Unanswered, false)
	if err != nil {
		return fmt.Errorf("claim %d jobs: %w", c.room, c.store.classify(err))
	}
	defer a.end(ctx)
	for _, scope := range scopes {
		if a.gates[scope] == nil { // another claim has its lock
			c.held(scope, gateBusy)
		}
	}
	t := c.plan(lanes)
	if err := c.fit(ctx, a, t); err != nil {
		return fmt.Errorf("claim %d jobs: %w", c.room, c.store.classify(err))
	}
	if len(t.chosen) == 0 && (t.total == 0 || len(t.lanes) == 0) {
		return nil
	}
	return c.takeFrom(ctx, t, a)
}

// open leaves out the lanes whose tenants let nobody in.
func (c *turnClaim) open(lanes []*turnLane, gates map[later.Scope]*heldGate) (open []*turnLane) {
	for _, l := range lanes {
		scope := later.Scope{Of: later.ScopeTenant, Name: l.tenant}
		g := gates[scope]
		if g != nil && g.room() == 0 && len(g.chosen()) == 0 {
			c.held(scope, g.recheck())
			l.closed, l.queue.barren = true, 0
			continue
		}
		open = append(open, l)
	}
	c.dropClosed()
	return open
}

// dropClosed leaves out closed lanes for the rest of the claim.
func (c *turnClaim) dropClosed() {
	for _, q := range c.queues {
		q.lanes = slices.DeleteFunc(q.lanes, func(l *turnLane) bool { return l.closed })
	}
}

// fit has what is to be taken fit into the limits.
func (c *turnClaim) fit(ctx context.Context, a *admission, t *taking) error {
	for _, kind := range c.kinds {
		if scope := (later.Scope{Of: later.ScopeKind, Name: kind}); c.set.limits.Of(scope).Holds() {
			room, err := c.roomOf(ctx, a, scope, t)
			if err != nil {
				return err
			}
			t.bound(kind, room)
		}
	}
	c.narrow(t)
	for _, q := range c.queues {
		scope := later.Scope{Of: later.ScopeQueue, Name: q.name}
		if !c.set.limits.Of(scope).Holds() || !slices.ContainsFunc(t.lanes, func(l *turnLane) bool { return l.queue == q }) {
			continue
		}
		room, err := c.roomOf(ctx, a, scope, t)
		if err != nil {
			return err
		}
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
			var err error
			if room, err = c.roomOf(ctx, a, scope, t); err != nil {
				return err
			}
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
	t.choose()
	return nil
}

// choose keeps the chosen jobs for which there is room.
func (t *taking) choose() {
	slices.SortFunc(t.chosen, func(a, b chosenJob) int { return cmp.Compare(a.id, b.id) })
	t.chosen = slices.Compact(t.chosen)
	left := t.total
	t.chosen = slices.DeleteFunc(t.chosen, func(job chosenJob) bool {
		room := t.rooms[job.queue]
		if left == 0 || room == 0 {
			return true
		}
		left, t.rooms[job.queue] = left-1, room-1
		return false
	})
	t.total = left
}

// close has no more taken of a queue by this claim.
func (q *turnQueue) close() {
	for _, l := range q.lanes {
		l.closed = true
	}
	q.lanes, q.complete = nil, true
}

// roomOf is how many jobs a limit lets in, and adds those that may start beyond that.
func (c *turnClaim) roomOf(ctx context.Context, a *admission, scope later.Scope, t *taking) (int, error) {
	g := a.gates[scope]
	if g == nil {
		return 0, nil
	}
	most, capped := g.Limit.Cap()
	if capped && len(g.ended) > 0 && most-len(g.Running)-len(g.ended) < t.total {
		if err := a.fence(ctx, g); err != nil {
			return 0, err
		}
	}
	chosen := g.chosen()
	t.chosen = append(t.chosen, chosen...)
	room := g.room()
	if room == 0 && len(chosen) == 0 {
		c.held(scope, g.recheck())
	}
	return room, nil
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

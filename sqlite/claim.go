package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/admit"
	"github.com/later-queue/later/internal/turns"
)

// Claim implements [later.Runner].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	if len(req.Queues) == 0 || len(req.Kinds) == 0 || req.Limit <= 0 {
		return nil, nil
	}
	c := claim{s: s, req: req, unknown: s.unanswered.unknown(req.Unanswered)}
	if err := s.writer.do(ctx, req.Limit, c.run); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	if !c.unfinished {
		s.unanswered.settled(c.unknown)
	}
	order := turns.Order{FromLowest: req.FromLowest}
	if c.limits != nil {
		order.Weight = c.limits.Weight
	}
	turns.Sort(c.claimed, queueNames(req.Queues), order)
	return c.claimed, nil
}

// claim is a claim of some queues, one after the other.
type claim struct {
	s       *Store
	req     later.ClaimRequest
	unknown []int64 // tokens of claims whose answer was lost

	limits     *admit.Limits
	claimed    []*later.Claimed
	unfinished bool // jobs of those claims have not been given again
}

// run makes the claim in a transaction.
func (c *claim) run(tx *writeTx) error {
	c.claimed = nil
	now, err := tx.now()
	if err != nil {
		return err
	}
	if c.req.Thorough {
		clear(c.s.dueTenants)
	}
	gates, err := c.s.gatesOf(tx)
	if err != nil {
		return err
	}
	c.limits = gates.limits
	again, err := giveBack(tx, c.unknown, c.limits, now)
	if err != nil {
		return err
	}
	open := gates.paused.open(later.ScopeKind, c.req.Kinds)
	kinds, err := json.Marshal(open)
	if err != nil {
		return err
	}
	adm := admissionOf(tx, c.limits, now, c.req, again)
	budget := newBudget(c.req.MaxBytes)
	taking := taking{now: now, worker: c.req.Worker, token: c.req.Token, until: after(now, c.req.Lease)}
	for _, q := range c.req.Queues {
		limit := min(q.Limit, c.req.Limit-len(c.claimed))
		if limit <= 0 || budget.spent() || slices.Contains(gates.paused[later.ScopeQueue], q.Queue) {
			continue
		}
		if !c.concerned(q.Queue, open) {
			rows, err := c.s.claimable(tx, q.Queue, string(kinds), gates.paused[later.ScopeTenant], c.req.FromLowest, limit, budget, now)
			if err != nil {
				return err
			}
			if err := c.take(tx, rows, taking); err != nil {
				return err
			}
			continue
		}
		d := &dealing{
			s: c.s, tx: tx, adm: adm, queue: q.Queue, key: string(kinds), kinds: uniqueNames(open), tenants: c.req.Tenants,
			paused: gates.paused[later.ScopeTenant], fromLowest: c.req.FromLowest, limit: limit, budget: budget, now: now,
		}
		rows, err := d.jobs()
		if err != nil {
			return err
		}
		if err := c.take(tx, rows, taking); err != nil {
			return err
		}
		if err := d.met(); err != nil {
			return err
		}
	}
	c.unfinished = len(adm.again) > 0
	// Before the commit: whoever frees a place after it is to know who waits for one.
	c.note(adm, len(c.claimed) < c.req.Limit && !budget.spent())
	return adm.save(tx)
}

// note remembers what the claim met. room says that more would have been claimed.
func (c *claim) note(adm *admission, room bool) {
	var wait time.Duration
	if adm.held > 0 {
		wait = max(toDuration(adm.held-adm.now), time.Millisecond)
	}
	c.s.held.note(queueNames(c.req.Queues), c.req.Kinds, wait, room, c.limits != nil)
}

func queueNames(queues []later.QueueLimit) []string {
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Queue
	}
	return names
}

// concerned reports whether gates, weights or bounds have a say in what is claimed of a queue.
func (c *claim) concerned(queue string, kinds []string) bool {
	if c.req.Tenants != nil || c.limits.Tenants() || c.limits.Of(later.Scope{Of: later.ScopeQueue, Name: queue}).Holds() {
		return true
	}
	return (c.limits != nil || len(c.req.MostOfKind) > 0) && slices.ContainsFunc(kinds, func(kind string) bool {
		_, bounded := c.req.MostOfKind[kind]
		return bounded || c.limits.Of(later.Scope{Of: later.ScopeKind, Name: kind}).Holds()
	})
}

// take leases jobs.
func (c *claim) take(tx transaction, rows []*claimedRow, taking taking) error {
	taken, err := c.s.takeAll(tx, rows, taking)
	if err != nil {
		return err
	}
	markLimited(c.limits, taken)
	c.claimed = append(c.claimed, taken...)
	return nil
}

// markLimited sets Limited of jobs.
func markLimited(limits *admit.Limits, jobs []*later.Claimed) {
	for _, j := range jobs {
		j.Limited = len(limits.Over(j.Queue, j.Kind, j.Tenant)) > 0
	}
}

// uniqueNames leaves out of names those that come again.
func uniqueNames(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// unanswered remembers for which tokens the table has been searched. Once is enough: a
// claim of this store that has returned has been committed or never will be.
type unanswered struct {
	mu       sync.Mutex
	searched map[int64]bool
}

// unknown are those of tokens that are to be searched for.
func (u *unanswered) unknown(tokens []int64) []int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(tokens), func(token int64) bool { return u.searched[token] })
}

// settled notes that tokens have been searched for.
func (u *unanswered) settled(tokens []int64) {
	if len(tokens) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.searched == nil || len(u.searched) > 10_000 { // far more than fail within a lease
		u.searched = map[int64]bool{}
	}
	for _, token := range tokens {
		u.searched[token] = true
	}
}

const (
	// selectUnanswered are the jobs of claims whose answer was lost. It reads the whole
	// table, once for each such claim. Parameters: tokens as JSON.
	selectUnanswered = `
select id, queue, kind, tenant, lease_until
from later_job
where lease_token in (select value from json_each(?))`

	// updateGivenBack takes back what such claims did. Parameters: ids as JSON.
	updateGivenBack = `
update later_job
set attempt = max(min(attempt, 2147483647) - (max_attempts > 1 or crashes = 0), 0),
  lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
where id in (select value from json_each(?))`
)

// giveBack frees the jobs that are leased with one of tokens, but for those under a limit: these
// it returns, because they have their places until they are given again, if their leases hold.
func giveBack(tx transaction, tokens []int64, limits *admit.Limits, now int64) (again map[int64]bool, err error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(tokens)
	if err != nil {
		return nil, err
	}
	rows, err := tx.query(selectUnanswered, string(list))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	again = map[int64]bool{}
	var free []int64
	for rows.Next() {
		var id, until int64
		var queue, kind, tenant string
		if err := rows.Scan(&id, &queue, &kind, &tenant, &until); err != nil {
			return nil, err
		}
		if len(limits.Over(queue, kind, tenant)) > 0 {
			again[id] = until >= now
		} else {
			free = append(free, id)
		}
	}
	if err := firstOf(rows.Err(), rows.Close()); err != nil || len(free) == 0 {
		return again, err
	}
	_, err = tx.exec(updateGivenBack, jsonIDs(free))
	return again, err
}

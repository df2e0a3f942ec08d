package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/turns"
)

// Claim implements [later.Runner]. It goes by the gates that the store knows; when a statement finds
// that they have changed, they are read, and the claim goes on. Where kinds are bounded, by the
// request or by limits, the claim is made of parts, see [turnClaim.narrow].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	queues := make([]string, len(req.Queues))
	for i, q := range req.Queues {
		queues[i] = q.Queue
	}
	order := turns.Order{FromLowest: req.FromLowest}
	key, bytes := kindsKey(later.ClaimRequest{Kinds: sortedKinds(req)}), &byteBudget{most: req.MaxBytes}
	var jobs []*later.Claimed
	var heldFor time.Duration
	limitedJobs, rest := 0, false
	for len(req.Queues) > 0 && len(req.Kinds) > 0 && req.Limit > 0 && !bytes.full() {
		set, err := s.gateSet(ctx)
		if err != nil {
			return nil, err
		}
		part, by := set.open(req), set
		limited, cut := set.limited(part), false
		if free := req.Free - limitedJobs; limited && req.Free > 0 && free > 0 && !rest {
			cut = free < part.Limit
			part.Limit = min(part.Limit, free)
		} else if limited && req.Free != 0 {
			by, part = set.unlimited(part)
		}
		if set.weighed {
			order.Weight = set.limits.Weight
		}
		got, err := s.claimPart(ctx, by, part, bytes)
		if err != nil {
			return nil, err
		}
		for _, job := range got.jobs {
			if job.Limited = limited && len(set.limits.Over(job.Queue, job.Kind, job.Tenant)) > 0; job.Limited {
				limitedJobs++
			}
		}
		jobs = append(jobs, got.jobs...)
		req = without(req, got.jobs)
		if got.heldFor > 0 && (heldFor == 0 || got.heldFor < heldFor) {
			heldFor = got.heldFor
		}
		switch {
		case !got.latest:
			s.stale(set)
			heldFor = 0
		case len(got.tight) > 0:
			req.Kinds = slices.DeleteFunc(slices.Clone(req.Kinds), func(kind string) bool { return slices.Contains(got.tight, kind) })
		case !cut || len(got.jobs) < part.Limit:
			req.Limit = 0
		default: // with some that are not limited among them, there is room for more that are; the next claim takes it
			rest = true
		}
	}
	s.holding.setNext(key, queues, heldFor)
	if len(bytes.over) > 0 {
		if _, err := s.Settle(ctx, released(bytes.over)); err != nil {
			return nil, err
		}
		jobs = slices.DeleteFunc(jobs, func(job *later.Claimed) bool { return slices.Contains(bytes.over, job.Lease) })
	}
	turns.Sort(jobs, queues, order)
	return jobs, nil
}

// claimedPart is what a part of a claim has given.
type claimedPart struct {
	jobs    []*later.Claimed
	latest  bool          // the gates that it went by are the latest
	tight   []string      // kinds that have had as much as they may; others may have more
	heldFor time.Duration // what was held back is to be asked for again then; zero: nothing was
}

// claimPart claims as the gates say.
func (s *Store) claimPart(ctx context.Context, set *gateSet, req later.ClaimRequest, bytes *byteBudget) (got claimedPart, err error) {
	req, got.heldFor = s.openOnly(set, req)
	if len(req.Queues) == 0 || len(req.Kinds) == 0 { // all is held back
		got.latest, err = s.isLatest(ctx, set.version)
		return got, err
	}
	kinds := sortedKinds(req)
	names, limits := make([]string, len(req.Queues)), make([]int32, len(req.Queues))
	for i, q := range req.Queues {
		names[i], limits[i] = q.Queue, int32(min(q.Limit, maxClaim))
	}
	args := []any{
		names, limits, int32(min(req.Limit, maxClaim)), kinds, int32(later.SuspectCrashes),
		append([]int64{}, req.Unanswered...), // not null, which would be neither true nor false
		req.Token, micros(req.Lease), !s.config.NoLog, req.Worker, set.version,
	}
	if s.rotations.none(req) && !req.Thorough && req.Tenants == nil && len(req.MostOfKind) == 0 && !set.limited(req) {
		var tenants bool
		got.jobs, tenants, got.latest, err = s.claimQuickly(ctx, req, len(kinds), args, bytes)
		if err != nil || !tenants || !got.latest {
			return got, err
		}
	}
	c := s.newTurnClaim(req, kinds, args, set)
	c.bytes = bytes
	c.heldFor = got.heldFor
	if err := c.run(ctx); err != nil {
		return claimedPart{}, err
	}
	got = claimedPart{jobs: c.jobs, latest: c.latest, heldFor: c.heldFor}
	if c.room > 0 && c.budget <= 0 {
		got.tight = c.tight
		limited := slices.ContainsFunc(c.tight, func(kind string) bool {
			return set.limits.Of(later.Scope{Of: later.ScopeKind, Name: kind}).Holds()
		})
		if limited && got.heldFor == 0 { // there may be more of them, which nobody has looked for
			got.heldFor = gateRecheck
		}
	}
	return got, nil
}

// unlimited is the rest of a request when no job under a limit is wanted any more, and what is
// held back then.
func (g *gateSet) unlimited(req later.ClaimRequest) (*gateSet, later.ClaimRequest) {
	holds := func(of later.ScopeOf, name string) bool { return g.limits.Of(later.Scope{Of: of, Name: name}).Holds() }
	req.Queues = slices.DeleteFunc(slices.Clone(req.Queues), func(q later.QueueLimit) bool { return holds(later.ScopeQueue, q.Queue) })
	req.Kinds = slices.DeleteFunc(slices.Clone(req.Kinds), func(kind string) bool { return holds(later.ScopeKind, kind) })
	all, named := g.limits.LimitedTenants()
	if all {
		named = nil
		if req.Tenants != nil && !slices.Contains(req.Tenants, "") {
			req.Queues = nil
		}
		req.Tenants = []string{""}
	}
	rest := &gateSet{
		version: g.version, paused: g.paused, tenants: slices.Concat(g.tenants, named), limits: g.limits, weighed: g.weighed, passed: true,
	}
	slices.Sort(rest.tenants)
	return rest, req
}

// openOnly is what of a request may give something: not kinds of which none is wanted, nor what
// limits are known to hold back, for how long at least. Of the bounds of kinds it keeps those
// that bound something.
func (s *Store) openOnly(set *gateSet, req later.ClaimRequest) (later.ClaimRequest, time.Duration) {
	var wait time.Duration
	closed := func(of later.ScopeOf, name string) bool {
		scope := later.Scope{Of: of, Name: name}
		if len(req.Unanswered) > 0 || !set.limits.Of(scope).Holds() {
			return false // what nobody has seen is given again though it fills a place
		}
		d, closed := s.holding.isClosed(scope)
		if closed && (wait == 0 || d < wait) {
			wait = d
		}
		return closed
	}
	most := map[string]int{}
	for _, kind := range req.Kinds {
		if n, bounded := req.MostOfKind[kind]; bounded && n < req.Limit {
			most[kind] = n
		}
	}
	req.MostOfKind = most
	req.Kinds = slices.DeleteFunc(slices.Clone(req.Kinds), func(kind string) bool {
		n, bounded := most[kind]
		return bounded && n <= 0 || closed(later.ScopeKind, kind)
	})
	req.Queues = slices.DeleteFunc(slices.Clone(req.Queues), func(q later.QueueLimit) bool { return closed(later.ScopeQueue, q.Queue) })
	return req, wait
}

// sortedKinds are the kinds of a request, each once.
func sortedKinds(req later.ClaimRequest) []string {
	return slices.Compact(slices.Sorted(slices.Values(req.Kinds)))
}

// without is what is left of a request when jobs have been claimed.
func without(req later.ClaimRequest, jobs []*later.Claimed) later.ClaimRequest {
	had := map[string]int{}
	for _, job := range jobs {
		had[job.Queue]++
	}
	if len(req.MostOfKind) > 0 && len(jobs) > 0 {
		req.MostOfKind = maps.Clone(req.MostOfKind)
		for _, job := range jobs {
			if most, bounded := req.MostOfKind[job.Kind]; bounded {
				req.MostOfKind[job.Kind] = most - 1
			}
		}
	}
	req.Limit -= len(jobs)
	req.Queues = slices.Clone(req.Queues)
	for i, q := range req.Queues {
		req.Queues[i].Limit -= had[q.Queue]
	}
	return req
}

// claimQuickly looks from the head of every level, as if there were no tenants; where it finds
// that there are, it takes nothing. If that takes long, the next claim will begin otherwise.
func (s *Store) claimQuickly(ctx context.Context, req later.ClaimRequest, kinds int, args []any, bytes *byteBudget) (jobs []*later.Claimed, tenants, latest bool, err error) {
	ask := s.rotations.toAsk(req)
	var sql string
	switch {
	case ask && req.FromLowest:
		sql = s.claimSQL("tenants, down", tenantDownSQL, kinds)
	case ask:
		sql = s.claimSQL("tenants", tenantClaimSQL, kinds)
	case req.FromLowest:
		sql = s.claimSQL("quick, down", quickDownSQL, kinds)
	default:
		sql = s.claimSQL("quick", quickClaimSQL, kinds)
	}
	sent := time.Now()
	scan := claimScan{store: s, token: req.Token, bytes: bytes}
	jobs, err = query(ctx, s, statement{name: fmt.Sprintf("claim %d jobs", req.Limit), sql: sql, args: args}, scan.row)
	jobs = scan.finish(jobs)
	elapsed := scan.elapsed()
	if scan.now.IsZero() { // then the server has not told
		elapsed = time.Since(sent) - s.rotations.lag()
	} else {
		s.rotations.learn(scan.now, time.Since(sent)-elapsed)
	}
	if err == nil || outlasted(err) {
		s.rotations.afterQuick(req, elapsed, len(jobs), ask, scan.tenants)
	}
	version := args[len(args)-1].(int64)
	// One that found nothing without asking has not told either.
	latest = len(jobs) > 0 || ask && scan.version == version
	if err == nil && len(jobs) == 0 && !ask {
		latest, err = s.isLatest(ctx, version)
	}
	return jobs, scan.tenants, latest, err
}

// claimSQL is a statement for so many kinds. A worker always has the same kinds, so
// there are few of them.
func (s *Store) claimSQL(name string, build func(kinds int) string, kinds int) string {
	type key struct {
		name  string
		kinds int
	}
	if sql, ok := s.claims.Load(key{name, kinds}); ok {
		return sql.(string)
	}
	sql := s.sql(build(kinds))
	s.claims.Store(key{name, kinds}, sql)
	return sql
}

// outlasted reports whether a statement was given up because it took too long, by
// the caller or by the server's statement_timeout.
func outlasted(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || hasCode(err, "57014")
}

// maxClaim bounds one claim; more could not be run within any lease.
const maxClaim = 100_000

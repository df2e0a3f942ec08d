package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/turns"
)

// Claim implements [later.Runner]. It goes by the gates that the store knows; when a statement finds
// that they have changed, they are read, and the claim goes on.
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	queues := make([]string, len(req.Queues))
	for i, q := range req.Queues {
		queues[i] = q.Queue
	}
	var jobs []*later.Claimed
	for len(req.Queues) > 0 && len(req.Kinds) > 0 && req.Limit > 0 {
		set, err := s.gateSet(ctx)
		if err != nil {
			return nil, err
		}
		more, latest, err := s.claimBy(ctx, set, set.open(req))
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
		if latest {
			break
		}
		s.stale(set)
		req = without(req, more)
	}
	turns.Sort(jobs, queues, turns.Order{FromLowest: req.FromLowest})
	return jobs, nil
}

// claimBy claims as the gates say, and reports whether they are the latest.
func (s *Store) claimBy(ctx context.Context, set *gateSet, req later.ClaimRequest) (jobs []*later.Claimed, latest bool, err error) {
	if len(req.Queues) == 0 || len(req.Kinds) == 0 { // all is paused
		latest, err = s.isLatest(ctx, set.version)
		return nil, latest, err
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(req.Kinds)))
	names, limits := make([]string, len(req.Queues)), make([]int32, len(req.Queues))
	for i, q := range req.Queues {
		names[i], limits[i] = q.Queue, int32(min(q.Limit, maxClaim))
	}
	args := []any{
		names, limits, int32(min(req.Limit, maxClaim)), kinds, int32(later.SuspectCrashes),
		append([]int64{}, req.Unanswered...), // not null, which would be neither true nor false
		req.Token, micros(req.Lease), !s.config.NoLog, req.Worker, set.version,
	}
	if s.rotations.none(req) && !req.Thorough {
		jobs, tenants, latest, err := s.claimQuickly(ctx, req, len(kinds), args)
		if err != nil || !tenants || !latest {
			return jobs, latest, err
		}
	}
	c := s.newTurnClaim(req, kinds, args, set)
	if err := c.run(ctx); err != nil {
		return nil, false, err
	}
	return c.jobs, c.latest, nil
}

// without is what is left of a request when jobs have been claimed.
func without(req later.ClaimRequest, jobs []*later.Claimed) later.ClaimRequest {
	had := map[string]int{}
	for _, job := range jobs {
		had[job.Queue]++
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
func (s *Store) claimQuickly(ctx context.Context, req later.ClaimRequest, kinds int, args []any) (jobs []*later.Claimed, tenants, latest bool, err error) {
	sql, ask := s.claimSQL("quick", quickClaimSQL, kinds), s.rotations.toAsk(req)
	if ask {
		sql = s.claimSQL("tenants", tenantClaimSQL, kinds)
	}
	sent := time.Now()
	scan := claimScan{store: s, token: req.Token}
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

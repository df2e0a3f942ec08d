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

// Claim implements [later.Runner].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	if len(req.Queues) == 0 || len(req.Kinds) == 0 || req.Limit <= 0 {
		return nil, nil
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(req.Kinds)))
	queues, limits := make([]string, len(req.Queues)), make([]int32, len(req.Queues))
	for i, q := range req.Queues {
		queues[i], limits[i] = q.Queue, int32(min(q.Limit, maxClaim))
	}
	args := []any{
		queues, limits, int32(min(req.Limit, maxClaim)), kinds, int32(later.SuspectCrashes),
		append([]int64{}, req.Unanswered...), // not null, which would be neither true nor false
		req.Token, micros(req.Lease), !s.config.NoLog, req.Worker,
	}
	var jobs []*later.Claimed
	quick := s.rotations.none(req) && !req.Thorough
	if quick {
		var tenants bool
		var err error
		if jobs, tenants, err = s.claimQuickly(ctx, req, len(kinds), args); err != nil {
			return nil, err
		}
		quick = !tenants
	}
	if !quick {
		var err error
		if jobs, err = s.claimInTurn(ctx, req, kinds, args); err != nil {
			return nil, err
		}
	}
	turns.Sort(jobs, queues)
	return jobs, nil
}

// claimQuickly looks from the head of every level, as if there were no tenants; where it finds
// that there are, it takes nothing. If that takes long, the next claim will begin otherwise.
func (s *Store) claimQuickly(ctx context.Context, req later.ClaimRequest, kinds int, args []any) (jobs []*later.Claimed, tenants bool, err error) {
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
	return jobs, scan.tenants, err
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

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

// Claim implements [later.Runner].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	if len(req.Queues) == 0 || len(req.Kinds) == 0 || req.Limit <= 0 {
		return nil, nil
	}
	queues, limits := make([]string, len(req.Queues)), make([]int32, len(req.Queues))
	order := make(map[string]int, len(req.Queues))
	for i, q := range req.Queues {
		queues[i], limits[i] = q.Queue, int32(min(q.Limit, maxClaim))
		order[q.Queue] = i
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(req.Kinds))) // each is a lane
	args := []any{
		queues, limits, int32(min(req.Limit, maxClaim)), kinds, int32(later.SuspectCrashes),
		req.Worker, req.Token, micros(req.Lease), !s.config.NoLog,
		append([]int64{}, req.Unanswered...), // not null, which would be neither true nor false
	}
	claim := s.claimCarefully
	if s.marks.none(req) {
		claim = s.claimQuickly
	}
	jobs, err := claim(ctx, req, len(kinds), args)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b *later.Claimed) int {
		return cmp.Or(cmp.Compare(order[a.Queue], order[b.Queue]), compareReady(a, b))
	})
	return jobs, nil
}

// claimQuickly looks from the head of every level. If that takes long, the next claim
// will be a careful one.
func (s *Store) claimQuickly(ctx context.Context, req later.ClaimRequest, kinds int, args []any) ([]*later.Claimed, error) {
	began := time.Now()
	scan := claimScan{store: s, token: req.Token}
	jobs, err := query(ctx, s, statement{
		name: fmt.Sprintf("claim %d jobs", req.Limit), sql: s.claimSQL("quick", quickClaimSQL, kinds), args: args,
	}, scan.row)
	jobs = scan.finish(jobs)
	elapsed := scan.seen.elapsed
	if len(jobs) == 0 { // then the server has not told
		elapsed = time.Since(began) - s.marks.lag()
	}
	if err == nil || outlasted(err) {
		s.marks.afterQuick(req, elapsed, len(jobs))
	}
	return jobs, err
}

// claimCarefully begins behind the marks, where there are any, and moves them on.
func (s *Store) claimCarefully(ctx context.Context, req later.ClaimRequest, kinds int, args []any) ([]*later.Claimed, error) {
	s.lookBehind(req)
	marks, head := s.marks.before(req)
	began, sent := s.marks.clock(), time.Now()
	scan := claimScan{store: s, token: req.Token}
	jobs, err := query(ctx, s, statement{
		name: fmt.Sprintf("claim %d jobs", req.Limit), sql: s.claimSQL("careful", carefulClaimSQL, kinds),
		args: append(args, marks.nrs, marks.priorities, marks.runAts, marks.ids, marks.blind),
	}, scan.row)
	if err != nil {
		if outlasted(err) {
			s.marks.gaveUp(req, head, s.marks.clock().Sub(began))
		}
		return nil, err
	}
	jobs = scan.finish(jobs)
	s.marks.learnLag(time.Since(sent) - scan.seen.elapsed)
	slices.SortFunc(jobs, func(a, b *later.Claimed) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), compareReady(a, b))
	})
	s.marks.after(req, head, scan.seen, jobs)
	return jobs, nil
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

// compareReady is the order in which jobs of one queue are run.
func compareReady(a, b *later.Claimed) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
}

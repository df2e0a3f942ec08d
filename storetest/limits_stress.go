package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// testLimitStress has many claim at once what few may run.
func testLimitStress(t *testing.T, open OpenMore) {
	for _, way := range limitWays() {
		// capped. Case 118: never more than the cap, and the cap is reached.
		t.Run("however many claim at once, the cap is reached and not passed, of a "+way.name, func(t *testing.T) {
			const most, jobs, claimers, handles = 3, limitStressJobs, 12, 3
			w, stores := severalStores(t, open, handles)
			w.limit(way.set, atMost(most))
			w.enqueueFor("acme", jobs)
			s := &limitStress{most: most}
			s.left.Store(jobs)
			s.fill.Store(true)
			inParallel(t, claimers+1, func(ctx context.Context, n int) error {
				if n == claimers {
					return s.watch(ctx, w.store)
				}
				return s.work(ctx, stores[n%handles])
			})
			equal(t, "the most that ran at once", s.peak.Load(), most)
			equal(t, "jobs left", len(w.list(later.Filter{})), 0)
		})
	}
}

const limitStressJobs = 200

// limitStress is a run of many workers.
type limitStress struct {
	most    int64
	left    atomic.Int64 // jobs that have not ended
	running atomic.Int64 // at most as many as run in truth: counted after a start, and until before an end
	peak    atomic.Int64
	fill    atomic.Bool // none ends until the cap has been reached
	mu      sync.Mutex
	late    []*later.Claimed // of workers that seem lost and come back
}

// work claims and ends jobs in all ways until none is left.
func (s *limitStress) work(ctx context.Context, store later.Store) error {
	deadline := time.Now().Add(patience)
	var held []*later.Claimed
	for s.left.Load() > 0 {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d jobs were left after %v, and %d ran (want the cap to be reached: %v)", s.left.Load(), patience, s.running.Load(), s.fill.Load())
		}
		if err := s.comeBack(ctx, store); err != nil {
			return err
		}
		claimed, err := store.Claim(ctx, ask(1+rand.IntN(5)))
		if err != nil {
			return err
		}
		if err := s.start(len(claimed)); err != nil {
			return err
		}
		if held = append(held, claimed...); len(held) == 0 || s.fill.Load() {
			continue
		}
		keep := rand.IntN(len(held))
		for _, c := range held[keep:] {
			if err := s.end(ctx, store, c); err != nil {
				return err
			}
		}
		held = held[:keep]
	}
	return nil
}

// start counts jobs that run from now on at the latest.
func (s *limitStress) start(n int) error {
	running := s.running.Add(int64(n))
	for peak := s.peak.Load(); running > peak && !s.peak.CompareAndSwap(peak, running); peak = s.peak.Load() {
	}
	if running == s.most {
		s.fill.Store(false)
	}
	if running > s.most {
		return fmt.Errorf("%d run at once, and at most %d may", running, s.most)
	}
	return nil
}

func (s *limitStress) end(ctx context.Context, store later.Store, c *later.Claimed) error {
	s.running.Add(-1)
	outcome := later.OutcomeDone
	switch dice := rand.IntN(20); {
	case dice == 0 && c.Crashes == 0: // so that none is a suspect
		if _, err := store.Renew(ctx, []later.Lease{c.Lease}, short); err != nil {
			return err
		}
		s.mu.Lock()
		s.late = append(s.late, c)
		s.mu.Unlock()
		return nil
	case dice > 0 && dice < 4:
		outcome = []later.Outcome{later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased}[dice-1]
	}
	refused, err := store.Settle(ctx, []later.Settlement{end(c, outcome)})
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("job %d: its end was refused, although its lease holds", c.ID)
	}
	if outcome == later.OutcomeDone && s.left.Add(-1) == limitStressJobs/2 {
		s.fill.Store(true) // as it was at the beginning
	}
	return err
}

// comeBack has a worker that seemed lost renew its lease, and end its job if it has it still.
func (s *limitStress) comeBack(ctx context.Context, store later.Store) error {
	s.mu.Lock()
	var c *later.Claimed
	if n := len(s.late); n > 0 && rand.IntN(3) == 0 {
		c, s.late = s.late[n-1], s.late[:n-1]
	}
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	renewed, err := store.Renew(ctx, []later.Lease{c.Lease}, long)
	if err != nil || len(renewed.Lost)+len(renewed.Passed) > 0 {
		return err
	}
	if err := s.start(1); err != nil {
		return fmt.Errorf("with a lease that was renewed late: %w", err)
	}
	return s.end(ctx, store, c)
}

// watch samples how many run, as people see it.
func (s *limitStress) watch(ctx context.Context, store later.Store) error {
	for s.left.Load() > 0 && ctx.Err() == nil {
		running, err := store.List(ctx, later.Filter{State: later.StateRunning, Limit: 100})
		if err != nil {
			return unless(err, context.Canceled)
		}
		if len(running) > int(s.most) {
			return fmt.Errorf("%d leases hold at once, and at most %d may: %v", len(running), s.most, idsOfInfos(running))
		}
	}
	return nil
}

func idsOfInfos(infos []*later.JobInfo) []int64 {
	var ids []int64
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/later-queue/later"
)

func testConcurrency(t *testing.T, open Open) {
	// alone, kept. Cases 79 and 118: whatever the isolation level and however
	// many claim at once, each job is held by one and settled once.
	t.Run("8 workers settle 2,000 jobs once each and never hold one together", func(t *testing.T) {
		w := newWorld(t, open)
		const workers, jobs = 8, 2000
		c := newCensus(w.enqueueMany(jobs, raw(`{}`), later.Options{}))
		inParallel(t, workers, func(ctx context.Context, n int) error {
			for {
				req := ask(1 + n*3)
				req.Worker = fmt.Sprintf("worker-%d", n)
				claimed, err := w.store.Claim(ctx, req)
				if err != nil {
					return err
				}
				// Rows that another claim has locked are passed over, so an
				// empty claim is no proof that all is done.
				if len(claimed) == 0 {
					if c.settled.Load() == jobs {
						return nil
					}
					continue
				}
				var ends []later.Settlement
				for _, job := range claimed {
					if err := c.take(job); err != nil {
						return err
					}
					ends = append(ends, end(job, later.OutcomeDone))
				}
				for _, job := range claimed {
					c.leave(job)
				}
				refused, err := w.store.Settle(ctx, ends)
				if err != nil {
					return err
				}
				if len(refused) != 0 {
					return fmt.Errorf("%d of %d settlements refused, the first for job %d", len(refused), len(ends), refused[0].ID)
				}
				c.settled.Add(int64(len(ends)))
			}
		})
		equal(t, "settled", c.settled.Load(), jobs)
		equal(t, "jobs left", len(w.list(later.Filter{})), 0)
	})

	// fenced. Case 70: a worker that was taken for dead and the one that took
	// over both want to finish: one of them does.
	t.Run("of two who settle one job exactly one is accepted", func(t *testing.T) {
		w := newWorld(t, open)
		const jobs = 60
		ids := w.enqueueMany(jobs, raw(`{}`), later.Options{})
		first := w.claim(jobs)
		var leases []later.Lease
		for _, c := range first {
			leases = append(leases, c.Lease)
		}
		w.renew(short, leases...)
		w.pass(ids[0], w.find(ids[jobs-1]).LeaseUntil.Add(clockStep))

		accepted := make(map[int64]*atomic.Int64, jobs)
		for _, id := range ids {
			accepted[id] = new(atomic.Int64)
		}
		settle := func(ctx context.Context, c *later.Claimed, outcome later.Outcome) error {
			refused, err := w.store.Settle(ctx, []later.Settlement{end(c, outcome)})
			if err == nil && len(refused) == 0 && accepted[c.ID].Add(1) > 1 {
				return fmt.Errorf("a second end of job %d was accepted", c.ID)
			}
			return err
		}
		inParallel(t, 2, func(ctx context.Context, n int) error {
			if n == 0 {
				for i := len(first) - 1; i >= 0; i-- { // from the other end
					if err := settle(ctx, first[i], later.OutcomeDone); err != nil {
						return err
					}
				}
				return nil
			}
			for empty := 0; empty < 3; {
				claimed, err := w.store.Claim(ctx, ask(1))
				if err != nil {
					return err
				}
				if len(claimed) == 0 {
					empty++
					continue
				}
				if err := settle(ctx, claimed[0], later.OutcomeDead); err != nil {
					return err
				}
			}
			return nil
		})
		w.eventually("all jobs have ended", func() bool { // rows that were locked at the time
			for _, c := range w.claimWith(ask(jobs)) {
				if err := settle(w.ctx, c, later.OutcomeDone); err != nil {
					t.Fatal(err)
				}
			}
			return len(w.list(later.Filter{State: later.StateReady})) == 0 && len(w.list(later.Filter{State: later.StateLost})) == 0
		})
		for _, id := range ids {
			equal(t, fmt.Sprintf("accepted ends of job %d", id), accepted[id].Load(), 1)
			outcomes := w.outcomes(id)
			ended := 0
			for _, outcome := range outcomes {
				if outcome != later.OutcomeLost {
					ended++
				}
			}
			equal(t, fmt.Sprintf("logged ends of job %d", id), ended, 1)
		}
	})

	// kept, fenced: operators and workers at once leave one verdict per job.
	t.Run("operators and workers at once leave one end for each job", func(t *testing.T) {
		w := newWorld(t, open)
		const jobs = 200
		ids := w.enqueueMany(jobs, raw(`{}`), later.Options{})
		ended := make(map[int64]*atomic.Int64, jobs)
		for _, id := range ids {
			ended[id] = new(atomic.Int64)
		}
		inParallel(t, 4, func(ctx context.Context, n int) error {
			switch n {
			case 0, 1:
				return w.settleUntilEmpty(ctx, n, ended)
			case 2:
				for _, id := range ids {
					wasRunning, err := w.store.Cancel(ctx, id)
					if err == nil && !wasRunning {
						ended[id].Add(1)
					}
					if err := unless(err, later.ErrNotFound); err != nil {
						return err
					}
				}
			case 3:
				for i := len(ids) - 1; i >= 0; i-- {
					err := w.store.Delete(ctx, ids[i])
					if err == nil {
						ended[ids[i]].Add(1)
					}
					if err := unless(err, later.ErrNotFound, later.ErrRunning); err != nil {
						return err
					}
				}
			}
			return nil
		})
		// What is left was cancelled while it ran and then given back, or was
		// passed over because somebody had locked it.
		w.eventually("all jobs have ended", func() bool {
			for _, c := range append(w.sweepWith(seek(jobs, false)), w.claimWith(ask(jobs))...) {
				w.settle(end(c, later.OutcomeCancelled))
				ended[c.ID].Add(1)
			}
			return len(w.list(later.Filter{})) == 0
		})
		for _, id := range ids {
			equal(t, fmt.Sprintf("ends of job %d", id), ended[id].Load(), 1)
			w.gone(id)
		}
	})
}

// settleUntilEmpty releases every other job and finishes the rest.
func (w *world) settleUntilEmpty(ctx context.Context, n int, ended map[int64]*atomic.Int64) error {
	for round, empty := 0, 0; empty < 3; round++ {
		claimed, err := w.store.Claim(ctx, ask(1+n))
		if err != nil {
			return err
		}
		if len(claimed) == 0 {
			empty++
			continue
		}
		for _, c := range claimed {
			outcome := later.OutcomeDone
			if round%2 == 1 {
				outcome = later.OutcomeReleased
			}
			refused, err := w.store.Settle(ctx, []later.Settlement{end(c, outcome)})
			if err != nil {
				return err
			}
			if len(refused) != 0 {
				return fmt.Errorf("job %d: refused although its lease holds", c.ID)
			}
			if outcome == later.OutcomeDone && ended[c.ID].Add(1) > 1 {
				return fmt.Errorf("a second end of job %d was accepted", c.ID)
			}
		}
	}
	return nil
}

// census counts who holds what.
type census struct {
	holders map[int64]*atomic.Int64
	starts  map[int64]*atomic.Int64
	settled atomic.Int64
}

func newCensus(ids []int64) *census {
	c := &census{holders: map[int64]*atomic.Int64{}, starts: map[int64]*atomic.Int64{}}
	for _, id := range ids {
		c.holders[id], c.starts[id] = new(atomic.Int64), new(atomic.Int64)
	}
	return c
}

func (c *census) take(job *later.Claimed) error {
	if n := c.starts[job.ID].Add(1); n != 1 {
		return fmt.Errorf("job %d was handed out %d times", job.ID, n)
	}
	if n := c.holders[job.ID].Add(1); n != 1 {
		return fmt.Errorf("job %d is held by %d at once", job.ID, n)
	}
	return nil
}

func (c *census) leave(job *later.Claimed) { c.holders[job.ID].Add(-1) }

// inParallel runs n at once and fails with the first error; the context of all
// ends with it.
func inParallel(t *testing.T, n int, run func(ctx context.Context, n int) error) {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if err := run(ctx, i); err != nil {
				stop(fmt.Errorf("goroutine %d: %w", i, err)) // the first one stays
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
}

// unless is err, or nil when it matches one of the errors that are expected.
func unless(err error, expected ...error) error {
	for _, e := range expected {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

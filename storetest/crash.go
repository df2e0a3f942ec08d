package storetest

import (
	"fmt"
	"testing"

	"github.com/later-queue/later"
)

func testCrash(t *testing.T, open Open) {
	// kept, counted. Case 140: the worker that was lost is named, not blank.
	t.Run("a job whose worker was lost is claimed again and says whom it lost", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		lost := w.lose()
		before := w.state(id, later.StateLost)
		equal(t, "crashes before the next claim", before.Crashes, 0)
		equal(t, "worker shown", before.Worker, worker)
		req := ask(1)
		req.Worker = "worker-2"
		c := w.claimWith(req)[0]
		equal(t, "lost worker", c.LostWorker, worker)
		equalTimes(t, "lost at", c.LostAt, before.LeaseUntil)
		want := lost.Record
		want.Attempt, want.Crashes = 2, 1
		sameRecord(t, "claimed", c.Record, want)
		info := w.state(id, later.StateRunning)
		equal(t, "worker", info.Worker, "worker-2")
		equal(t, "log entries", len(info.Log), 1)
		entry := info.Log[0]
		equal(t, "outcome", entry.Outcome, later.OutcomeLost)
		equal(t, "attempt", entry.Attempt, 1)
		equal(t, "logged worker", entry.Worker, worker)
		equalTimes(t, "started at", entry.StartedAt, before.ClaimedAt)
		between(t, "finished at", entry.FinishedAt, entry.StartedAt, info.Now)
		w.settle(end(c, later.OutcomeDone))
		equalSlices(t, "outcomes", w.outcomes(id), []later.Outcome{later.OutcomeLost, later.OutcomeDone})
	})

	// counted: a loss is no failure, and a failure no loss.
	t.Run("losses and failures are counted apart", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		w.settle(end(w.claimOne(), later.OutcomeRetry))
		w.lose()
		c := w.claimOne()
		equal(t, "attempt", c.Attempt, 3)
		equal(t, "crashes", c.Crashes, 1)
		equal(t, "failures", c.Failures, 1)
		equal(t, "errors", len(c.Errors), 1)
		w.settle(end(c, later.OutcomeRetry))
		c = w.claimOne()
		equal(t, "attempt", c.Attempt, 4)
		equal(t, "failures", c.Failures, 2)
		equal(t, "lost worker of a later attempt", c.LostWorker, "")
	})

	// counted: losses count in a row. A job that has lived for long, and has lost
	// a worker now and then, does not kill its workers.
	t.Run("an attempt with a result takes the losses back to none", func(t *testing.T) {
		for _, outcome := range []later.Outcome{later.OutcomeRetry, later.OutcomeSnoozed} {
			t.Run(string(outcome), func(t *testing.T) {
				w := newWorld(t, open)
				w.enqueue(later.Options{})
				for range later.CrashLimit + 1 {
					w.lose()
					c := w.claimOne()
					equal(t, "crashes", c.Crashes, 1)
					w.settle(end(c, outcome))
				}
				equal(t, "crashes", w.claimOne().Crashes, 0)
			})
		}
	})

	// found. Case 73: the job's row decides, not its worker's.
	t.Run("a job is recovered although its worker's row is gone or was never there", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		if err := w.store.Beat(w.ctx, later.WorkerInfo{Name: worker}); err != nil {
			t.Fatal(err)
		}
		c := w.claimOne()
		if err := w.store.Leave(w.ctx, worker); err != nil {
			t.Fatal(err)
		}
		w.endLease(c)
		if err := w.store.Maintain(w.ctx); err != nil {
			t.Fatal(err)
		}
		equal(t, "job recovered", w.claimOne().ID, c.ID)
	})

	// Case 119: a crash leaves nothing behind that keeps the next job waiting.
	t.Run("jobs behind a lost one are claimed", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(6, raw(`{}`), later.Options{Tenant: "acme"})
		w.endLease(w.claim(1)[0])
		w.claimInOrder(ids...)
	})

	// Case 88: one start was asked for, and one is all that happens.
	t.Run("a job with one attempt that was lost is not started again", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{MaxAttempts: 1})
		w.lose()
		c := w.claimOne()
		equal(t, "doom", c.Doom, later.DoomLost)
		equal(t, "attempt", c.Attempt, 1)
		equal(t, "crashes", c.Crashes, 1)
		equal(t, "lost worker", c.LostWorker, worker)
		s := end(c, later.OutcomeDead)
		s.Reason = later.DeadLost
		w.settle(s)
		info := w.state(id, later.StateDead)
		equal(t, "reason", info.DeadReason, later.DeadLost)
		equal(t, "attempt of the dead", info.Attempt, 1)
	})

	// Case 88: also when whoever was to end it was lost in turn.
	t.Run("a job with one attempt stays doomed when the one who ends it is lost too", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{MaxAttempts: 1})
		w.lose()
		for range 4 {
			var jobs []*later.Claimed
			w.eventually("the job is taken", func() bool {
				jobs = append(w.claimWith(ask(10)), w.sweepWith(seek(10, true))...)
				return len(jobs) > 0
			})
			equal(t, "jobs taken", len(jobs), 1)
			equal(t, "doom", jobs[0].Doom, later.DoomLost)
			equal(t, "attempt", jobs[0].Attempt, 1)
			w.endLease(jobs[0])
		}
	})

	// Case 88: nor does giving it back make it a job that may start.
	t.Run("a job with one attempt stays doomed when it is given back", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{MaxAttempts: 1})
		w.lose()
		for range 3 {
			c := w.claimOne()
			equal(t, "doom", c.Doom, later.DoomLost)
			equal(t, "crashes", c.Crashes, 1)
			w.settle(end(c, later.OutcomeReleased))
		}
	})

	// counted: a start that was given back is not the one start.
	t.Run("a job with one attempt that was released runs", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{MaxAttempts: 1})
		w.settle(end(w.claimOne(), later.OutcomeReleased))
		c := w.claimOne()
		equal(t, "doom", c.Doom, later.DoomNone)
		equal(t, "attempt", c.Attempt, 1)
	})

	// Case 136: one loss is an accident, two make a suspect, which runs alone.
	t.Run("a job that was lost twice is left to the sweep, one at a time", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(3, raw(`{}`), later.Options{})
		for range later.SuspectCrashes {
			w.loseAll(w.claim(len(ids)))
		}
		w.claimNone()
		w.sweepNone(false)
		for range ids {
			c := w.sweepOne(true, later.DoomNone)
			equal(t, "attempt", c.Attempt, 3)
			equal(t, "crashes", c.Crashes, 2)
			equal(t, "lost worker", c.LostWorker, worker)
			w.settle(end(c, later.OutcomeDone))
		}
		w.sweepNone(true)
	})

	t.Run("a suspect is run by those who know its kind and queue, when it is due", func(t *testing.T) {
		w := newWorld(t, open)
		w.suspect()
		req := seek(10, true)
		req.Kinds = []string{"other"}
		equal(t, "jobs of other kinds", len(w.sweepWith(req)), 0)
		req = seek(10, true)
		req.Queues = []string{"other"}
		equal(t, "jobs of other queues", len(w.sweepWith(req)), 0)
		c := w.sweepOne(true, later.DoomNone)
		s := end(c, later.OutcomeRetry)
		s.Delay = long
		w.settle(s)
		w.sweepNone(true)
	})

	// counted: only a result clears a suspect.
	t.Run("a suspect that was released is still one, and one that failed is not", func(t *testing.T) {
		w := newWorld(t, open)
		w.suspect()
		w.settle(end(w.sweepOne(true, later.DoomNone), later.OutcomeReleased))
		w.claimNone()
		c := w.sweepOne(true, later.DoomNone)
		equal(t, "attempt", c.Attempt, 3)
		equal(t, "crashes", c.Crashes, 2)
		equal(t, "lost worker", c.LostWorker, "")
		w.settle(end(c, later.OutcomeRetry))
		c = w.claimOne()
		equal(t, "attempt", c.Attempt, 4)
		equal(t, "crashes", c.Crashes, 0)
	})

	// kept. Case 136: what kills its workers ends dead, whoever knows its kind.
	t.Run("a job that was lost too often is doomed", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.suspect()
		for crashes := later.SuspectCrashes; crashes < later.CrashLimit; crashes++ {
			c := w.sweepOne(true, later.DoomNone)
			equal(t, "crashes", c.Crashes, crashes)
			w.endLease(c)
		}
		req := seek(10, false)
		req.Kinds, req.Queues = []string{"other"}, []string{"other"}
		jobs := w.sweepWith(req)
		if len(jobs) != 1 {
			t.Fatalf("got %d jobs, want the doomed one", len(jobs))
		}
		c := jobs[0]
		equal(t, "doom", c.Doom, later.DoomLost)
		equal(t, "attempt", c.Attempt, later.CrashLimit)
		equal(t, "crashes", c.Crashes, later.CrashLimit)
		equal(t, "lost worker", c.LostWorker, "sweeper")
		w.endLease(c) // and its sweeper is lost as well
		c = w.sweepOne(true, later.DoomLost)
		equal(t, "attempt", c.Attempt, later.CrashLimit)
		s := end(c, later.OutcomeDead)
		s.Reason = later.DeadLost
		w.settle(s)
		w.state(id, later.StateDead)
		if got := w.outcomes(id); len(got) < later.CrashLimit || got[0] != later.OutcomeLost {
			t.Errorf("outcomes: got %v, want a loss for each of %d attempts", got, later.CrashLimit)
		}
	})

	// kept. Case 136: a job that kills its process, beside nine that do not.
	t.Run("a killer ends dead and the nine beside it end done", func(t *testing.T) {
		for _, at := range []int{0, 4, 9} {
			t.Run(fmt.Sprintf("the killer is number %d", at+1), func(t *testing.T) {
				w := newWorld(t, open)
				ids := w.enqueueMany(10, raw(`{}`), later.Options{MaxAttempts: 3})
				w.runAll(ids[at])
				for i, id := range ids {
					if i != at {
						w.gone(id)
						got := w.outcomes(id)
						equal(t, "last outcome", got[len(got)-1], later.OutcomeDone)
					}
				}
				equal(t, "reason", w.state(ids[at], later.StateDead).DeadReason, later.DeadLost)
			})
		}
	})
}

// runAll is a process that claims all it can, sweeps, and runs what it has; the
// job killer takes all others down with it. It is started again until all jobs
// have ended, done or dead.
func (w *world) runAll(killer int64) {
	w.t.Helper()
	w.eventually("all jobs have ended", func() bool {
		jobs := append(w.claimWith(ask(10)), w.sweepWith(seek(10, true))...)
		killed := false
		for _, c := range jobs {
			killed = killed || c.ID == killer && c.Doom == later.DoomNone
		}
		if killed {
			w.loseAll(jobs)
			return false
		}
		for _, c := range jobs {
			s := end(c, later.OutcomeDone)
			if c.Doom == later.DoomLost {
				s = end(c, later.OutcomeDead)
				s.Reason = later.DeadLost
			}
			w.settle(s)
		}
		infos := w.list(later.Filter{})
		return len(infos) == 1 && infos[0].State == later.StateDead
	})
}

// loseAll lets the worker of several jobs die.
func (w *world) loseAll(jobs []*later.Claimed) {
	w.t.Helper()
	if len(jobs) == 0 {
		w.t.Fatalf("got no jobs, want some to lose")
	}
	for _, c := range jobs {
		w.endLease(c)
	}
}

// suspect enqueues a job that was lost twice.
func (w *world) suspect() int64 {
	w.t.Helper()
	id := w.enqueue(later.Options{})
	for range later.SuspectCrashes {
		w.lose()
	}
	return id
}

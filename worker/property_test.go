package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// step is what a handler does in one attempt.
type step string

const (
	succeeds    step = "succeeds"
	fails       step = "fails"
	panics      step = "panics"
	exits       step = "exits"
	retryAfter  step = "retry after"
	times       step = "times out"
	hangs       step = "times out and hangs"
	rollsBack   step = "rolls DoneTx back"
	commits     step = "commits DoneTx"
	commitsErr  step = "commits DoneTx and fails"
	gives       step = "permanent"
	snoozes     step = "snoozes, then succeeds"
	failsSlowly step = "fails slowly"
)

// failing are the steps that cost an attempt and lead on to the next.
var failing = []step{fails, panics, exits, retryAfter, times, hangs, rollsBack, failsSlowly}

// final are those that end the job.
var final = []step{succeeds, commits, commitsErr, gives, snoozes}

// story is a job: its failing attempts and its end.
type story struct {
	steps       []step
	maxAttempts int
}

// end is what must become of it whatever happens on the way, and after how many
// failed attempts.
func (s story) end() (outcome later.Outcome, failures int) {
	for i, st := range s.steps {
		switch {
		case st == gives:
			return later.OutcomeDead, i + 1
		case i == len(s.steps)-1:
			return later.OutcomeDone, i
		case i+1 == s.maxAttempts:
			return later.OutcomeDead, i + 1
		}
	}
	panic("a story without an end")
}

// trouble is a fault that begins at some time and lasts.
type trouble struct {
	at, lasts time.Duration
	op        string
	err       error
	ambiguous bool // the operation happens, its answer is lost
}

func (tr trouble) String() string {
	return fmt.Sprintf("%s fails for %v from %v on (ambiguous: %t)", tr.op, tr.lasts, tr.at, tr.ambiguous)
}

// TestEveryJobEnds lets random jobs meet random faults, crashes and drains, and
// checks that each ends as it should, with each failed attempt counted once.
func TestEveryJobEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stories := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) story {
			s := story{maxAttempts: rapid.IntRange(1, 4).Draw(rt, "max attempts")}
			s.steps = rapid.SliceOfN(rapid.SampledFrom(failing), 0, 4).Draw(rt, "failures")
			s.steps = append(s.steps, rapid.SampledFrom(final).Draw(rt, "end"))
			return s
		}), 1, 25).Draw(rt, "jobs")
		troubles := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) trouble {
			return trouble{
				at:        time.Duration(rapid.IntRange(0, 60_000).Draw(rt, "at")) * time.Millisecond,
				lasts:     time.Duration(rapid.IntRange(1, 3_000).Draw(rt, "lasts")) * time.Millisecond,
				op:        rapid.SampledFrom([]string{"claim", "settle", "renew", "sweep", "cancel requests", "beat"}).Draw(rt, "op"),
				err:       rapid.SampledFrom([]error{later.ErrUnavailable, later.ErrFull, context.DeadlineExceeded}).Draw(rt, "err"),
				ambiguous: rapid.Bool().Draw(rt, "ambiguous"),
			}
		}), 0, 12).Draw(rt, "faults")
		restarts := rapid.SliceOfN(rapid.SampledFrom([]string{"crash", "drain"}), 0, 2).Draw(rt, "restarts")
		bounds := bounds{
			slots: rapid.IntRange(1, 8).Draw(rt, "slots"),
			kind:  rapid.IntRange(0, 8).Draw(rt, "slots of the kind, 0 for no bound"),
			all:   rapid.IntRange(1, 16).Draw(rt, "limit over all workers, from 9 on none"),
		}

		var faults []string
		bubble(t, func(b *bed) { faults = tell(b, stories, troubles, restarts, bounds) })
		if len(faults) > 0 {
			rt.Fatalf("%s", strings.Join(faults, "\n"))
		}
	})
}

// bounds are how many jobs run at once.
type bounds struct{ slots, kind, all int }

// tell lets the stories happen and returns what went wrong.
func tell(b *bed, stories []story, troubles []trouble, restarts []string, bounds bounds) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	begin := time.Now()
	during := func(ambiguous bool) func(string, any) error {
		return func(op string, _ any) error {
			for _, tr := range troubles {
				since := time.Since(begin) - tr.at
				if op == tr.op && tr.ambiguous == ambiguous && since >= 0 && since < tr.lasts {
					return tr.err
				}
			}
			return nil
		}
	}

	ids := make([]int64, len(stories))
	byID := map[int64]story{}
	for i, s := range stories {
		ids[i] = b.enqueue(task{N: i}, later.Options{MaxAttempts: s.maxAttempts, Timeout: 2 * time.Second})
		byID[ids[i]] = s
	}
	cast := &cast{b: b, byID: byID, snoozed: map[int64]bool{}, fault: fault}
	cfg := worker.Config{Concurrency: bounds.slots, Lease: 15 * time.Second, Grace: time.Second, DrainTimeout: 3 * time.Second}
	if bounds.kind > 0 {
		cfg.KindSlots = map[string]int{"task": bounds.kind}
	}
	if bounds.all < 9 {
		b.limit(tasks, atMost(bounds.all))
	}
	start := func() *running {
		next := b.beside()
		next.store.set(during(false), during(true))
		var inProcess atomic.Int32
		return next.run(handleEvery(500*time.Millisecond, func(ctx context.Context, j *later.Job[task]) error {
			// Abandoned handlers included.
			if n := int(inProcess.Add(1)); n > bounds.slots || bounds.kind > 0 && n > bounds.kind {
				cast.mu.Lock()
				fault("got %d handlers at once in a process, with the bounds %+v", n, bounds)
				cast.mu.Unlock()
			}
			defer inProcess.Add(-1)
			return cast.play(ctx, j)
		}), cfg)
	}
	one, two := start(), start()
	for i, how := range restarts {
		time.Sleep(time.Duration(7+13*i) * time.Second)
		switch how {
		case "crash":
			one.crash()
			cast.crashed = true
		case "drain":
			if err := one.stop(); err != nil && !errors.Is(err, worker.ErrDrainDeadline) && !errors.Is(err, worker.ErrStuck) {
				fault("got the error %v from a drain", err)
			}
		}
		one = start()
	}
	for time.Since(begin) < 10*time.Minute {
		time.Sleep(10 * time.Second)
		for _, r := range []**running{&one, &two} { // a supervisor restarts the stuck
			select {
			case <-(*r).done:
				if !errors.Is((*r).err, worker.ErrStuck) {
					fault("got the error %v from Run, want at most ErrStuck", (*r).err)
				}
				*r = start()
			default:
			}
		}
	}
	for _, r := range []*running{one, two} {
		if s := r.Stats(); s.Pending+s.Running+s.Abandoned != 0 {
			fault("got %+v at the end, want nothing left", s)
		}
		if err := r.stop(); err != nil {
			fault("got the error %v from the last stop", err)
		}
	}
	synctest.Wait()
	for i, id := range ids {
		checkEnd(b, fault, id, stories[i], cast.crashed)
	}
	return faults
}

func checkEnd(b *bed, fault func(string, ...any), id int64, s story, crashed bool) {
	want, failures := s.end()
	j := b.find(id)
	log := b.outcomes(id)
	lost := s.maxAttempts == 1 && crashed && j.DeadReason == later.DeadLost // at most one start was asked for
	if lost {
		return
	}
	if !strings.HasSuffix(log, string(want)) || (j.State == later.StateDead) != (want == later.OutcomeDead) {
		fault("job %d of %v: got %s after %q, want it to end %s", id, s, j.State, log, want)
		return
	}
	retries := strings.Count(log, "retry")
	if want == later.OutcomeDead {
		failures-- // the last is the death
	}
	if retries != failures {
		fault("job %d of %v: got %d retries in %q, want %d: each failed attempt counts once", id, s, retries, log, failures)
	}
	if n := strings.Count(log, "done") + strings.Count(log, "dead"); n != 1 {
		fault("job %d of %v: got %d ends in %q, want 1", id, s, n, log)
	}
}

// cast plays the handlers.
type cast struct {
	b       *bed
	byID    map[int64]story
	fault   func(string, ...any)
	crashed bool

	mu      sync.Mutex
	snoozed map[int64]bool
}

func (c *cast) play(ctx context.Context, j *later.Job[task]) error {
	s := c.byID[j.ID]
	c.mu.Lock()
	failures := j.Failures
	if failures < 0 || failures >= len(s.steps) {
		c.fault("job %d of %v: got an attempt after %d failures", j.ID, s, failures)
		failures = len(s.steps) - 1
	}
	st := s.steps[failures]
	snoozed := c.snoozed[j.ID]
	c.snoozed[j.ID] = true
	c.mu.Unlock()

	boom := errors.New("boom")
	switch st {
	case fails:
		return boom
	case failsSlowly:
		time.Sleep(1500 * time.Millisecond)
		return boom
	case panics:
		panic(boom)
	case exits:
		runtime.Goexit()
	case retryAfter:
		return later.RetryAfter(boom, 300*time.Millisecond)
	case times:
		return obedient(ctx, time.Hour)
	case hangs:
		time.Sleep(20 * time.Second)
		return boom
	case rollsBack:
		j.MarkSettled()
		return nil
	case commits, commitsErr:
		// As in a transaction: when the lease is lost, so is the job.
		refused, err := c.b.store.Store.Settle(context.Background(), []later.Settlement{{Lease: j.HeldLease(), Outcome: later.OutcomeDone}})
		if err != nil || len(refused) > 0 {
			return later.ErrLeaseLost
		}
		j.MarkSettled()
		if st == commitsErr {
			return boom
		}
	case gives:
		return later.Permanent(boom)
	case snoozes:
		if !snoozed {
			return later.Snooze(700 * time.Millisecond)
		}
	}
	return nil
}

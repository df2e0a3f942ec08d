package why

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

var (
	testNow = time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	queueQ  = later.Scope{Of: later.ScopeQueue, Name: "q"}
	kindK   = later.Scope{Of: later.ScopeKind, Name: "k"}
	acme    = later.Scope{Of: later.ScopeTenant, Name: "acme & co"}
)

// dueJob is job 7 of the three scopes, due for 3 s.
func dueJob() *later.JobInfo {
	return &later.JobInfo{State: later.StateReady, Now: testNow, Record: later.Record{
		ID: 7, Queue: "q", Kind: "k", Tenant: "acme & co", RunAt: testNow.Add(-3 * time.Second), MaxAttempts: 5}}
}

func pauseOf(scope later.Scope) later.Pause {
	return later.Pause{Scope: scope, Since: testNow.Add(-time.Hour), By: "ann", Reason: "no mail"}
}

func capOf(n int) later.Limit { return later.Limit{MaxRunning: &n} }

var (
	perMinute = later.Limit{Rate: later.Rate{N: 100, Period: time.Minute}}
	ordered   = later.Limit{Ordered: true}
	blocking  = later.Limit{Ordered: true, OnDead: later.DeadBlocks}
)

// free are workers that could take the job.
func freeWorkers() []later.WorkerInfo {
	return []later.WorkerInfo{{Name: "w1", Queues: []string{"q"}, Kinds: []string{"k"}, Slots: 4, SeenAt: testNow}}
}

func TestHeldBack(t *testing.T) {
	gate := func(scope later.Scope, limit later.Limit, running ...int64) Gate {
		return Gate{Scope: scope, Standing: later.Standing{Limit: limit, Running: running}}
	}
	head := func(state later.State, change func(*later.JobInfo)) Gate {
		g := gate(acme, ordered, 5)
		g.Head = dueJob()
		g.Head.ID, g.Head.State = 5, state
		if change != nil {
			change(g.Head)
		}
		g.HeadWhy = Of(g.Head, Facts{Workers: freeWorkers()})
		return g
	}
	soon := gate(kindK, perMinute)
	soon.Standing.NextStart = testNow.Add(12 * time.Second)
	past := gate(kindK, perMinute)
	past.Standing.NextStart = testNow.Add(-time.Second)
	for _, c := range []struct {
		name  string
		job   *later.JobInfo // nil: dueJob
		facts Facts          // Workers nil: freeWorkers
		code  Code
		words []string // of text and next
		jobs  []string
	}{
		{name: "a paused tenant and a paused queue", facts: Facts{Pauses: []later.Pause{
			pauseOf(later.Scope{Of: later.ScopeKind, Name: "other"}), pauseOf(later.Scope{Of: later.ScopeQueue, Name: "k"}), pauseOf(acme), pauseOf(queueQ)}},
			code: Paused, words: []string{`due 3s ago, but tenant "acme & co" has been paused for 1h, by ann (no mail), and queue "q" has`,
				"to let it go on: later resume tenant 'acme & co'"}},
		{name: "a pause of something else", facts: Facts{Pauses: []later.Pause{pauseOf(later.Scope{Of: later.ScopeTenant, Name: "q"})}}, code: Waiting},
		{name: "a limit that has room", facts: Facts{Gates: []Gate{gate(queueQ, capOf(3), 1, 2), past}}, code: Waiting},
		{name: "a full limit names the jobs that fill it", facts: Facts{Gates: []Gate{gate(queueQ, capOf(3), 1, 2, 3)}},
			code: Full, words: []string{`queue "q" runs 3 jobs of at most 3: 1, 2, 3`, "later limit queue q --max-running 4"}, jobs: []string{"1", "2", "3"}},
		// Case 130: a limit that was lowered below what runs.
		{name: "a limit below what runs names ten of them", facts: Facts{Gates: []Gate{gate(acme, capOf(1), 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)}},
			code: Full, words: []string{"runs 12 jobs of at most 1: 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 and 2 more", "tenant 'acme & co' --max-running 13"}},
		{name: "a limit of none", facts: Facts{Gates: []Gate{gate(kindK, capOf(0))}},
			code: Full, words: []string{`the limit of kind "k" lets none run`, "later limit kind k --max-running 1"}},
		{name: "a limit of none that is new", facts: Facts{Gates: []Gate{gate(kindK, capOf(0), 4)}}, code: Full, words: []string{"1 job began before it: 4"}},
		{name: "a rate", facts: Facts{Gates: []Gate{soon}}, code: Rate,
			words: []string{`kind "k" lets 100 start in 1m, and the next one in 12s (2030-01-31T08:00:12Z)`}},
		{name: "all that holds it back is named", facts: Facts{Pauses: []later.Pause{pauseOf(queueQ)}, Gates: []Gate{gate(queueQ, capOf(1), 2), soon}},
			code: Paused, words: []string{"has been paused", "runs 1 job of at most 1: 2", "in 12s", "later resume queue q"}, jobs: []string{"2"}},
		{name: "without a worker a limit is named as well", facts: Facts{Workers: []later.WorkerInfo{}, Gates: []Gate{gate(queueQ, capOf(1), 2)}},
			code: NoWorker, words: []string{`but no worker is alive, and queue "q" runs 1 job of at most 1: 2; start one: later work`}, jobs: []string{"2"}},
		{name: "a suspect under a full limit", job: func() *later.JobInfo { j := dueJob(); j.Crashes = 2; return j }(),
			facts: Facts{Gates: []Gate{gate(queueQ, capOf(1), 2)}}, code: Full},
		{name: "a suspect under a limit with room", job: func() *later.JobInfo { j := dueJob(); j.Crashes = 2; return j }(),
			facts: Facts{Gates: []Gate{gate(queueQ, capOf(2), 2)}}, code: Suspect},
		{name: "a job that is not due", job: func() *later.JobInfo { j := dueJob(); j.RunAt = testNow.Add(time.Hour); return j }(),
			facts: Facts{Pauses: []later.Pause{pauseOf(queueQ)}, Gates: []Gate{gate(queueQ, capOf(1), 2)}}, code: Scheduled},

		{name: "the first of an ordered scope", facts: Facts{Gates: []Gate{gate(acme, ordered, 7)}}, code: Waiting},
		{name: "an ordered scope in which none has begun", facts: Facts{Gates: []Gate{gate(acme, ordered)}}, code: Waiting},
		{name: "behind one of which nothing is known", facts: Facts{Gates: []Gate{gate(acme, ordered, 5)}}, code: Behind,
			words: []string{`tenant "acme & co" is ordered, and job 5 comes first`}, jobs: []string{"5"}},
		{name: "behind one that runs", facts: Facts{Gates: []Gate{head(later.StateRunning, func(j *later.JobInfo) {
			j.Worker, j.ClaimedAt, j.LeaseUntil = "w1", testNow.Add(-time.Minute), testNow.Add(time.Minute)
		})}}, code: Behind, words: []string{"job 5 comes first, which has been running on worker w1 for 1m"}},
		{name: "behind one whose worker is gone", facts: Facts{Gates: []Gate{head(later.StateRunning, func(j *later.JobInfo) {
			j.Worker, j.ClaimedAt, j.LeaseUntil = "w9", testNow.Add(-time.Minute), testNow.Add(time.Minute)
		})}}, code: Behind, words: []string{"on worker w9 for 1m and whose worker is not heard of"}},
		// Case 128: what waits behind a failed and a dead job says behind which.
		{name: "behind one that is tried again", facts: Facts{Gates: []Gate{head(later.StateRetry, func(j *later.JobInfo) {
			j.RunAt, j.Attempt = testNow.Add(40*time.Second), 2
			j.Errors = []later.AttemptError{{Attempt: 2, Error: "connection refused"}}
		})}}, code: Behind, words: []string{"job 5 comes first: retry at 2030-01-31T08:00:40Z (in 40s), after attempt 2 failed: connection refused", "later retry 5"}},
		{name: "behind a dead one", facts: Facts{Gates: []Gate{head(later.StateDead, func(j *later.JobInfo) { j.DiedAt = testNow.Add(-time.Hour) })}},
			code: Behind, words: []string{"job 5 comes first, which has been dead for 1h", "later retry 5", "later delete 5"}, jobs: []string{"5"}},
		{name: "behind a lost one", facts: Facts{Gates: []Gate{head(later.StateLost, func(j *later.JobInfo) { j.Worker, j.LeaseUntil = "w9", testNow.Add(-time.Second) })}},
			code: Behind, words: []string{"job 5 comes first: its worker w9 was lost"}},
		{name: "behind one that has just ended", facts: Facts{Gates: []Gate{head(later.StateEnded, nil)}}, code: Behind, words: []string{"has just ended"}},
		{name: "a dead one that others wait for", job: func() *later.JobInfo {
			j := dueJob()
			j.State, j.DiedAt, j.DeadReason = later.StateDead, testNow.Add(-time.Hour), later.DeadFailed
			return j
		}(), facts: Facts{Gates: []Gate{gate(acme, blocking, 7)}}, code: Dead,
			words: []string{`dead for 1h: out of attempts; tenant "acme & co" is ordered, and none of its jobs runs before this one is retried or deleted`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			job, facts := c.job, c.facts
			if job == nil {
				job = dueJob()
			}
			if facts.Workers == nil {
				facts.Workers = freeWorkers()
			}
			got := Of(job, facts)
			if got.Code != c.code {
				t.Errorf("got %q (%s), want %q", got.Code, got.Text, c.code)
			}
			for _, words := range c.words {
				if !strings.Contains(got.Text+"; "+got.Next, words) {
					t.Errorf("got %q and %q, want %q in one of them", got.Text, got.Next, words)
				}
			}
			if c.jobs != nil && !slices.Equal(got.Jobs, c.jobs) {
				t.Errorf("got the jobs %q, want %q", got.Jobs, c.jobs)
			}
		})
	}
}

func TestWords(t *testing.T) {
	three, none := 3, 0
	for _, c := range []struct {
		limit later.Limit
		want  string
	}{
		{later.Limit{}, "no limit"},
		{later.Limit{MaxRunning: &three}, "at most 3 at once"},
		{later.Limit{MaxRunning: &none}, "none runs"},
		{later.Limit{Ordered: true}, "one after the other"},
		{later.Limit{Ordered: true, OnDead: later.DeadBlocks}, "one after the other, and none behind a dead one"},
		{later.Limit{Rate: later.Rate{N: 1, Period: 36 * time.Hour}}, "1 starts in 36h"},
		{later.Limit{MaxRunning: &three, Rate: later.Rate{N: 100, Period: time.Minute, Burst: 20}, Weight: 5},
			"at most 3 at once, 100 start in 1m (bursts of 20), weight 5"},
		{later.Limit{Rate: later.Rate{N: 2, Period: 1500 * time.Millisecond, Burst: 1}}, "2 start in 1.5s"},
		{later.Limit{Rate: later.Rate{N: 2, Period: 48 * time.Hour}}, "2 start in 2d"},
	} {
		if got := LimitText(c.limit); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

func testSettle(t *testing.T, open Open) {
	for _, outcome := range []later.Outcome{later.OutcomeDone, later.OutcomeCancelled, later.OutcomeExpired} {
		// kept: these, and no others, take the job out of the store.
		t.Run("a job settled as "+string(outcome)+" leaves the table and its attempt is in the log", func(t *testing.T) {
			w := newWorld(t, open)
			id := w.enqueue(later.Options{})
			w.settle(end(w.claimOne(), outcome))
			w.gone(id)
			w.claimNone()
			equal(t, "state", w.find(id).State, later.StateEnded)
			equalSlices(t, "outcomes", w.outcomes(id), []later.Outcome{outcome})
		})
	}

	// kept, counted.
	t.Run("a failed job waits for its delay and keeps its errors", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		s := end(c, later.OutcomeRetry)
		s.Delay = long
		before := w.find(id)
		w.settle(s)
		info := w.state(id, later.StateRetry)
		between(t, "run_at", info.RunAt, before.Now.Add(long), info.Now.Add(long))
		want := c.Record
		want.RunAt, want.Errors, want.Failures = info.RunAt, s.Errors, 1
		sameRecord(t, "record", info.Record, want)
		w.noLease(info)
		w.claimNone()
	})

	// counted.
	t.Run("a failed job without a delay is claimed as the next attempt", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		for attempt := range 5 {
			c := w.claimOne()
			equal(t, "attempt", c.Attempt, attempt+1)
			equal(t, "errors", len(c.Errors), attempt)
			equal(t, "crashes", c.Crashes, 0)
			w.settle(end(c, later.OutcomeRetry))
		}
	})

	// counted.
	t.Run("a snoozed job waits for its delay and is charged nothing", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		w.settle(end(w.claimOne(), later.OutcomeRetry))
		c := w.claimOne()
		s := end(c, later.OutcomeSnoozed)
		s.Delay = long
		before := w.find(id)
		w.settle(s)
		info := w.state(id, later.StateRetry)
		between(t, "run_at", info.RunAt, before.Now.Add(long), info.Now.Add(long))
		want := c.Record
		want.RunAt, want.Attempt = info.RunAt, 1
		sameRecord(t, "record", info.Record, want)
		w.noLease(info)
		w.claimNone()
	})

	// counted.
	t.Run("a released job is due as before and is charged nothing", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		before := w.find(id)
		w.pass(id, before.RunAt.Add(10*clockStep)) // so that a new run_at would show
		w.settle(end(w.claimOne(), later.OutcomeReleased))
		info := w.state(id, later.StateReady)
		sameRecord(t, "record", info.Record, before.Record)
		w.noLease(info)
		equal(t, "log entries", len(info.Log), 0)
	})

	// kept: the dead keep everything until a person acts.
	t.Run("a dead job keeps everything and runs no more", func(t *testing.T) {
		for _, reason := range []later.DeadReason{
			later.DeadFailed, later.DeadPermanent, later.DeadUndecodable, later.DeadTimeout, later.DeadExpired, later.DeadLost,
		} {
			t.Run(string(reason), func(t *testing.T) {
				w := newWorld(t, open)
				id := w.enqueue(later.Options{Tenant: "acme", Headers: map[string]string{"trace": "1"}})
				c := w.claimOne()
				s := end(c, later.OutcomeDead)
				s.Reason = reason
				before := w.find(id)
				w.settle(s)
				info := w.state(id, later.StateDead)
				equal(t, "reason", info.DeadReason, reason)
				between(t, "died at", info.DiedAt, before.Now, info.Now)
				want := c.Record
				want.Errors = s.Errors
				if reason != later.DeadLost {
					want.Failures = 1
				}
				sameRecord(t, "record", info.Record, want)
				w.claimNone()
				w.sweepNone(true)
			})
		}
	})

	// counted. Case 89: a count goes past one byte, in both directions.
	t.Run("300 failures and 300 snoozes are counted right", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{MaxAttempts: later.UnlimitedAttempts})
		for range 300 {
			w.settle(end(w.claimOne(), later.OutcomeRetry))
		}
		for range 300 {
			w.settle(end(w.claimOne(), later.OutcomeSnoozed))
		}
		equal(t, "attempt", w.find(id).Attempt, 300)
		equal(t, "next attempt", w.claimOne().Attempt, 301)
	})

	t.Run("one call settles many attempts with any outcomes", func(t *testing.T) {
		w := newWorld(t, open)
		const each = 30
		w.enqueueMany(each*len(everyOutcome), raw(`{}`), later.Options{})
		var ends []later.Settlement
		jobs := w.claim(each * len(everyOutcome))
		for i, c := range jobs {
			s := end(c, everyOutcome[i%len(everyOutcome)])
			s.Delay = long
			ends = append(ends, s)
		}
		w.settle(ends...)
		for i, c := range jobs {
			switch everyOutcome[i%len(everyOutcome)] {
			case later.OutcomeRetry:
				w.state(c.ID, later.StateRetry)
			case later.OutcomeSnoozed:
				w.state(c.ID, later.StateScheduled)
			case later.OutcomeReleased:
				w.state(c.ID, later.StateReady)
			case later.OutcomeDead:
				w.state(c.ID, later.StateDead)
			default:
				w.gone(c.ID)
			}
		}
	})

	t.Run("no settlements are nothing to do", func(t *testing.T) {
		w := newWorld(t, open)
		equal(t, "refused", len(w.trySettle()), 0)
	})

	// shown.
	t.Run("the log says who did what when", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{Tenant: "acme"})
		outcomes := []later.Outcome{later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased, later.OutcomeRetry, later.OutcomeDone}
		var want []later.LogEntry
		for _, outcome := range outcomes {
			c := w.claimOne()
			info := w.find(id)
			s := end(c, outcome)
			w.settle(s)
			if outcome != later.OutcomeReleased {
				want = append(want, later.LogEntry{
					JobID: id, Attempt: c.Attempt, Queue: queue, Kind: kind, Tenant: "acme",
					Outcome: outcome, Worker: worker, StartedAt: info.ClaimedAt, Error: s.Error,
				})
			}
		}
		info := w.state(id, later.StateEnded)
		equal(t, "queue", info.Queue, queue)
		equal(t, "kind", info.Kind, kind)
		equal(t, "tenant", info.Tenant, "acme")
		equal(t, "entries", len(info.Log), len(want))
		for i, got := range info.Log {
			between(t, "finished at", got.FinishedAt, got.StartedAt, info.Now)
			equalTimes(t, "started at", got.StartedAt, want[i].StartedAt)
			got.StartedAt, got.FinishedAt, want[i].StartedAt = want[i].FinishedAt, want[i].FinishedAt, want[i].FinishedAt
			equal(t, fmt.Sprintf("entry %d", i), got, want[i])
		}
	})

	testErrorTexts(t, open)
}

// noLease fails when a waiting job shows anything of a lease.
func (w *world) noLease(info *later.JobInfo) {
	w.t.Helper()
	equal(w.t, "worker", info.Worker, "")
	equal(w.t, "claimed at is zero", info.ClaimedAt.IsZero(), true)
	equal(w.t, "lease until is zero", info.LeaseUntil.IsZero(), true)
}

// errorTexts are what handlers return (case 2).
var errorTexts = []string{
	"boom\x00tail", "caf\xe9", "é€"[:4], "\xff\xfe\xfd", strings.Repeat("x", 5<<20), strings.Repeat("€", 5<<10),
	`\u0000`, `a\`, `"quoted"`, "it's", "line\r\nline\ttab", "\x1b[31mred\x01", "\u2028 \u202e 😀", "$1 %s ?", "", " ",
	strings.Repeat("\x00", 10_000), strings.Repeat("\xff", 10_000), `</script><img src=x>`, "\ufffd", "\U0010ffff",
}

func testErrorTexts(t *testing.T, open Open) {
	// kept. Case 2: whatever a handler returns, its failure is recorded: the
	// store takes every text that CleanText makes.
	t.Run("any error text is recorded with its attempt", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{MaxAttempts: later.UnlimitedAttempts})
		var want []later.AttemptError
		for i, text := range errorTexts {
			c := w.claimOne()
			equal(t, "attempt", c.Attempt, i+1)
			s := end(c, later.OutcomeRetry)
			s.Error, s.Errors = later.CleanText(text, later.MaxErrorBytes), appendError(c, text)
			want = s.Errors
			w.settle(s)
			info := w.find(id)
			if got := info.Log[len(info.Log)-1].Error; got != s.Error {
				t.Errorf("logged: got %s, want %s", clip([]byte(got)), clip([]byte(s.Error)))
			}
			sameRecord(t, "with "+clip([]byte(s.Error)), info.Record, later.Record{
				ID: id, Queue: queue, Kind: kind, Payload: []byte(`{}`), RunAt: info.RunAt, Attempt: i + 1, Failures: i + 1,
				MaxAttempts: later.UnlimitedAttempts, Timeout: later.DefaultTimeout, CreatedAt: info.CreatedAt, Errors: want,
			})
		}
	})

	// Case 103: the history is bounded, and a full one is kept whole.
	t.Run("a full history of the longest errors is kept", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		c := w.claimOne()
		s := end(c, later.OutcomeRetry)
		s.Errors = nil
		for i := range 10_000 {
			s.Errors = later.AppendError(s.Errors, later.AttemptError{Attempt: i + 1, At: c.CreatedAt, Worker: worker, Error: strings.Repeat("€", 64<<10/3)})
		}
		equal(t, "entries", len(s.Errors), later.MaxAttemptErrors)
		w.settle(s)
		c = w.claimOne()
		want := c.Record
		want.Errors = s.Errors
		sameRecord(t, "claimed", c.Record, want)
		w.settle(later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDead, Reason: later.DeadFailed, Error: s.Errors[7].Error, Errors: s.Errors})
		want.Failures++
		sameRecord(t, "dead", w.find(id).Record, want)
	})
}

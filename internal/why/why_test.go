package why

import (
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func TestOf(t *testing.T) {
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	worker := func(name string, running, slots int, seen time.Duration, queue string, kinds ...string) later.WorkerInfo {
		return later.WorkerInfo{Name: name, Queues: []string{queue}, Kinds: kinds, Running: running, Slots: slots, SeenAt: ago(seen)}
	}
	only := func(tenants ...string) []later.WorkerInfo {
		w := worker("w1", 0, 4, 0, "q", "k")
		w.Tenants = tenants
		return []later.WorkerInfo{w}
	}
	able := []later.WorkerInfo{worker("w1", 1, 4, time.Second, "q", "k")}
	job := func(state later.State, change func(*later.JobInfo)) *later.JobInfo {
		j := &later.JobInfo{State: state, Now: now, Record: later.Record{
			ID: 7, Queue: "q", Kind: "k", RunAt: ago(3 * time.Second), CreatedAt: ago(time.Hour), MaxAttempts: 5}}
		if change != nil {
			change(j)
		}
		return j
	}
	leased := func(j *later.JobInfo) {
		j.Worker, j.ClaimedAt, j.LeaseUntil, j.Attempt = "w1", ago(12*time.Second), now.Add(48*time.Second), 2
	}
	lost := func(j *later.JobInfo) {
		j.Worker, j.ClaimedAt, j.LeaseUntil, j.Attempt = "w1", ago(2*time.Minute), ago(5*time.Second), 1
	}
	for _, c := range []struct {
		name    string
		job     *later.JobInfo
		workers []later.WorkerInfo
		code    Code
		words   []string // of text and next
	}{
		{"due, and a worker is free", job(later.StateReady, nil), able, Waiting, []string{"due 3s ago", "1 worker can take it"}},
		{"due for long behind others", job(later.StateReady, func(j *later.JobInfo) { j.RunAt = ago(time.Hour) }), able, Waiting, []string{"better priority"}},
		{"scheduled", job(later.StateScheduled, func(j *later.JobInfo) { j.RunAt = now.Add(3 * time.Minute) }), able, Scheduled,
			[]string{"in 3m", "2030-01-31T08:03:00Z", "later retry 7"}},
		{"snoozed: tried before, but nothing failed", job(later.StateRetry, func(j *later.JobInfo) { j.RunAt, j.Attempt = now.Add(time.Minute), 1 }), able, Scheduled, nil},
		{"failed", job(later.StateRetry, func(j *later.JobInfo) {
			j.RunAt, j.Attempt = now.Add(40*time.Second), 2
			j.Errors = []later.AttemptError{{Attempt: 1, Error: "old"}, {Attempt: 2, Error: "connection refused\nstack"}}
		}), able, Retry, []string{"in 40s", "attempt 2 failed: connection refused"}},
		{"no worker at all", job(later.StateReady, nil), nil, NoWorker, []string{"no worker is alive", "later work --queue q --exec k=COMMAND"}},
		{"only a silent worker", job(later.StateReady, nil), []later.WorkerInfo{worker("w1", 0, 4, 2*time.Minute, "q", "k")}, NoWorker, nil},
		// Case 142: jobs of a kind that nobody registers are not invisible.
		{"nobody serves the queue", job(later.StateReady, nil), []later.WorkerInfo{worker("w1", 0, 4, 0, "other", "k")}, NoQueue, []string{`queue "q"`}},
		{"nobody knows the kind", job(later.StateReady, nil), []later.WorkerInfo{worker("w1", 0, 4, 0, "q", "other")}, NoKind, []string{`kind "k"`}},
		{"queue and kind, but of different workers", job(later.StateReady, nil),
			[]later.WorkerInfo{worker("w1", 0, 4, 0, "q", "other"), worker("w2", 0, 4, 0, "other", "k")}, NoKind, nil},
		{"nobody runs the tenant's jobs", job(later.StateReady, func(j *later.JobInfo) { j.Tenant = "acme" }), only("zeta"), NoTenant, []string{`runs jobs of the tenant "acme"`}},
		{"nobody runs jobs without a tenant", job(later.StateReady, nil), only("zeta"), NoTenant, []string{"runs jobs without a tenant"}},
		{"somebody runs the tenant's jobs", job(later.StateReady, func(j *later.JobInfo) { j.Tenant = "acme" }), only("zeta", "acme"), Waiting, nil},
		{"all slots are taken", job(later.StateReady, nil), []later.WorkerInfo{worker("w1", 4, 4, 0, "q", "k"), worker("w2", 2, 2, 0, "q", "k")}, Busy,
			[]string{"all 6 slots of 2 workers"}},
		{"running", job(later.StateRunning, leased), able, Running, []string{"on worker w1 for 12s", "attempt 2", "heard of 1s ago", "in 48s"}},
		// Case 190: a job that is running by a worker that is gone.
		{"its worker is silent", job(later.StateRunning, leased), []later.WorkerInfo{worker("w1", 1, 4, 90*time.Second, "q", "k")}, Silent,
			[]string{"last heard of 1m30s ago", "in 48s"}},
		{"its worker is gone", job(later.StateRunning, leased), nil, Silent, []string{"not among the live ones"}},
		{"running, and cancelled", job(later.StateRunning, func(j *later.JobInfo) { leased(j); j.CancelAt = ago(2 * time.Second) }), able, Cancelling,
			[]string{"w1 was asked 2s ago"}},
		{"lost", job(later.StateLost, lost), able, Lost, []string{"worker w1 was lost", "5s ago", "next claim"}},
		{"lost, and nobody there to take it", job(later.StateLost, lost), nil, NoWorker, nil},
		{"lost for the second time", job(later.StateLost, func(j *later.JobInfo) { lost(j); j.Crashes = 1 }), able, Suspect, []string{"2 times", "sweep"}},
		{"lost twice, released since", job(later.StateReady, func(j *later.JobInfo) { j.Crashes = 2 }), able, Suspect, nil},
		{"lost twice, and put off", job(later.StateRetry, func(j *later.JobInfo) { j.Crashes, j.RunAt = 2, now.Add(time.Minute) }), able, Scheduled, nil},
		{"lost too often", job(later.StateLost, func(j *later.JobInfo) { lost(j); j.Crashes = later.CrashLimit - 1 }), able, LostTooMuch, []string{"5 times", "dead"}},
		{"lost in its only attempt", job(later.StateLost, func(j *later.JobInfo) { lost(j); j.MaxAttempts = 1 }), able, LostTooMuch, []string{"only attempt"}},
		{"cancelled, its worker gone", job(later.StateLost, func(j *later.JobInfo) { lost(j); j.CancelAt = ago(time.Minute) }), able, Cancelled, []string{"1m ago", "sweep"}},
		{"expired", job(later.StateReady, func(j *later.JobInfo) { j.ExpiresAt = ago(time.Minute) }), able, Expired, []string{"1m ago", "without running"}},
		{"not expired yet", job(later.StateReady, func(j *later.JobInfo) { j.ExpiresAt = now.Add(time.Minute) }), able, Waiting, nil},
		{"dead", job(later.StateDead, func(j *later.JobInfo) { j.DiedAt, j.DeadReason = ago(time.Hour), later.DeadPermanent }), able, Dead,
			[]string{"dead for 1h", "no retry can help", "later retry 7", "later delete 7"}},
		{"dead for a reason of a newer program", job(later.StateDead, func(j *later.JobInfo) { j.DeadReason = "odd" }), able, Dead, []string{"odd"}},
		{"ended", job(later.StateEnded, func(j *later.JobInfo) {
			j.Log = []later.LogEntry{{Attempt: 1, Outcome: later.OutcomeRetry}, {Attempt: 2, Outcome: later.OutcomeDone, Worker: "w9", FinishedAt: ago(time.Minute)}}
		}), able, Ended, []string{"done 1m ago", "attempt 2 on worker w9"}},
		{"expired before it ran", job(later.StateEnded, func(j *later.JobInfo) {
			j.Log = []later.LogEntry{{Outcome: later.OutcomeExpired, Worker: "w9", FinishedAt: ago(time.Minute)}}
		}), able, Ended, []string{"expired 1m ago while waiting, never ran"}},
		{"ended, the log is off", job(later.StateEnded, nil), able, Ended, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Of(c.job, Facts{Workers: c.workers})
			if got.Code != c.code {
				t.Errorf("got %q (%s), want %q", got.Code, got.Text, c.code)
			}
			for _, words := range c.words {
				if !strings.Contains(got.Text+"; "+got.Next, words) {
					t.Errorf("got %q and %q, want %q in one of them", got.Text, got.Next, words)
				}
			}
			if got.Text == "" {
				t.Error("got no text")
			}
		})
	}
}

func TestDeadTextsAreComplete(t *testing.T) {
	for _, reason := range []later.DeadReason{later.DeadFailed, later.DeadPermanent, later.DeadUndecodable, later.DeadTimeout, later.DeadExpired, later.DeadLost} {
		if deadTexts[reason] == "" {
			t.Errorf("the reason %q has no text", reason)
		}
	}
}

// Package why says why a job is not running.
package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/age"
)

// Code is a reason as programs read it.
type Code string

// The reasons, in the order in which they are looked for.
const (
	Ended       Code = "ended"          // only the log knows the job
	Dead        Code = "dead"           // waits for a person
	Cancelling  Code = "cancelling"     // running, and its worker has been asked to stop
	Silent      Code = "silent"         // running by its lease, but its worker is not heard of
	Running     Code = "running"        // its lease holds
	Cancelled   Code = "cancelled"      // the next sweep ends it
	Expired     Code = "expired"        // the next sweep ends it
	LostTooMuch Code = "lost_too_often" // the next claim or sweep ends it as dead
	Retry       Code = "retry"          // failed, and not due yet
	Scheduled   Code = "scheduled"      // not due yet
	Paused      Code = "paused"         // with its queue, kind or tenant
	NoWorker    Code = "no_worker"      // no worker is alive
	NoQueue     Code = "no_queue"       // no worker serves its queue
	NoKind      Code = "no_kind"        // no worker of its queue knows its kind
	NoTenant    Code = "no_tenant"      // those that could take it run other tenants' jobs only
	Full        Code = "full"           // as many run under a limit as may
	Behind      Code = "behind"         // another job of an ordered scope comes first
	Rate        Code = "rate"           // a limit lets the next one start later
	Suspect     Code = "suspect"        // may be what kills its workers
	Lost        Code = "lost"           // its worker was lost
	Busy        Code = "busy"           // all slots of its workers are taken
	Waiting     Code = "waiting"        // a worker takes it at its next claim
)

// Reason is why a job is where it is.
type Reason struct {
	Code Code   `json:"code"`
	Text string `json:"text"` // one sentence
	// Next is what a person can do about it; empty when there is nothing to do.
	Next string `json:"next"`
	// Jobs are the ids of those that it waits for: that fill a limit, or the one ahead of it.
	Jobs []string `json:"jobs,omitempty"`
}

func say(code Code, text, next string) Reason { return Reason{Code: code, Text: text, Next: next} }

// Facts are what a store knows around a job.
type Facts struct {
	Workers []later.WorkerInfo
	Pauses  []later.Pause
	Gates   []Gate // of its queue, its kind and its tenant, as far as they have a limit
}

// SilentAfter is how long a worker may be silent before it does not count as
// alive: four of the beats that a worker makes every 15 seconds.
const SilentAfter = time.Minute

// Of returns the reason for job. The time is job.Now.
func Of(job *later.JobInfo, facts Facts) Reason {
	now, workers := job.Now, facts.Workers
	switch job.State {
	case later.StateEnded:
		return ended(job)
	case later.StateDead:
		return dead(job, facts.Gates)
	case later.StateRunning:
		return running(job, workers)
	}
	lost := job.State == later.StateLost
	crashes := job.Crashes
	if lost {
		crashes++ // counted by the claim that takes the job
	}
	switch {
	case !job.CancelAt.IsZero():
		return say(Cancelled, fmt.Sprintf("cancelled %s; the next sweep of any worker ends it", age.Relative(job.CancelAt, now)), "")
	case !job.ExpiresAt.IsZero() && !job.ExpiresAt.After(now):
		return say(Expired, fmt.Sprintf("expired %s; the next sweep of any worker ends it without running it", age.Relative(job.ExpiresAt, now)), "")
	case lost && job.MaxAttempts == 1:
		return say(LostTooMuch, fmt.Sprintf("its worker %s was lost in its only attempt; the next claim of its kind makes it dead", job.Worker), "")
	case crashes >= later.CrashLimit:
		return say(LostTooMuch, fmt.Sprintf("its workers were lost %d times; the next sweep of any worker makes it dead", crashes), "")
	case !lost && job.RunAt.After(now):
		return notDue(job)
	}
	paused, limited := paused(job, facts.Pauses), limited(job, facts.Gates)
	if len(paused) > 0 {
		return because(job, append(paused, limited...))
	}
	if reason := nobody(job, workers); reason.Code != "" {
		return reason.with(limited, ", and ")
	}
	if len(limited) > 0 {
		return because(job, limited)
	}
	able := serving(job, workers)
	switch {
	case crashes >= later.SuspectCrashes:
		return say(Suspect, fmt.Sprintf("its workers were lost %d times, so it may be what kills them; "+
			"such jobs wait for a sweep, which runs one at a time", crashes), "")
	case lost:
		return say(Lost, fmt.Sprintf("its worker %s was lost: the lease ended %s; the next claim of %s takes it",
			job.Worker, age.Relative(job.LeaseUntil, now), plural(len(able), "worker", "workers")), "")
	case free(able) == 0:
		slots := 0
		for _, w := range able {
			slots += w.Slots
		}
		return say(Busy, fmt.Sprintf("due %s, but all %s of %s are taken",
			age.Relative(job.RunAt, now), plural(slots, "slot", "slots"), plural(len(able), "worker", "workers")),
			"wait, or start another worker")
	}
	text := fmt.Sprintf("due %s; %s can take it at the next claim", age.Relative(job.RunAt, now), plural(len(able), "worker", "workers"))
	if now.Sub(job.RunAt) > SilentAfter {
		text += ", after the jobs of better priority or earlier run_at in its queue"
	}
	return say(Waiting, text, "")
}

func ended(job *later.JobInfo) Reason {
	if len(job.Log) == 0 {
		return say(Ended, "it has ended", "")
	}
	last := job.Log[len(job.Log)-1]
	at := age.Relative(last.FinishedAt, job.Now)
	if last.Attempt == 0 { // no attempt was counted, and whatever worker ended it only found it so
		return say(Ended, fmt.Sprintf("%s %s while waiting, never ran", last.Outcome, at), "")
	}
	text := fmt.Sprintf("ended as %s %s", last.Outcome, at)
	if last.Worker != "" {
		text += fmt.Sprintf(", in attempt %d on worker %s", last.Attempt, last.Worker)
	}
	return say(Ended, text, "")
}

var deadTexts = map[later.DeadReason]string{
	later.DeadFailed:      "out of attempts",
	later.DeadPermanent:   "its handler said that no retry can help",
	later.DeadUndecodable: "out of attempts, and its payload does not decode",
	later.DeadTimeout:     "out of attempts, and the last one timed out",
	later.DeadExpired:     "it failed, and the retry would have come after its expiry",
	later.DeadLost:        "its workers were lost too often",
}

func dead(job *later.JobInfo, gates []Gate) Reason {
	text := deadTexts[job.DeadReason]
	if text == "" {
		text = string(job.DeadReason)
	}
	text = fmt.Sprintf("dead for %s: %s", age.Short(job.Now.Sub(job.DiedAt)), text)
	for _, g := range gates {
		if g.Standing.Limit.OnDead == later.DeadBlocks && slices.Contains(g.Standing.Running, job.ID) {
			text += fmt.Sprintf("; %v is ordered, and none of its jobs runs before this one is retried or deleted", g.Scope)
		}
	}
	return Reason{Code: Dead, Text: text,
		Next: fmt.Sprintf("once the cause is mended: later retry %d; or for good: later delete %d", job.ID, job.ID)}
}

func running(job *later.JobInfo, workers []later.WorkerInfo) Reason {
	now := job.Now
	if !job.CancelAt.IsZero() {
		return say(Cancelling, fmt.Sprintf("worker %s was asked %s to stop it", job.Worker, age.Relative(job.CancelAt, now)), "")
	}
	lease := age.Relative(job.LeaseUntil, now)
	i := slices.IndexFunc(workers, func(w later.WorkerInfo) bool { return w.Name == job.Worker })
	switch {
	case i < 0:
		return say(Silent, fmt.Sprintf("leased to worker %s, which is not among the live ones; "+
			"unless it renews the lease, that ends %s and another worker takes the job", job.Worker, lease), "")
	case !isAlive(workers[i], now):
		return say(Silent, fmt.Sprintf("leased to worker %s, which was last heard of %s; "+
			"unless it renews the lease, that ends %s and another worker takes the job",
			job.Worker, age.Relative(workers[i].SeenAt, now), lease), "")
	}
	return say(Running, fmt.Sprintf("running on worker %s for %s (attempt %d); the worker was heard of %s, the lease ends %s if it is not renewed",
		job.Worker, age.Short(now.Sub(job.ClaimedAt)), job.Attempt, age.Relative(workers[i].SeenAt, now), lease), "")
}

func notDue(job *later.JobInfo) Reason {
	due := fmt.Sprintf("%s (%s)", job.RunAt.UTC().Format(time.RFC3339), age.Relative(job.RunAt, job.Now))
	next := fmt.Sprintf("to run it now: later retry %d", job.ID)
	if job.Attempt > 0 && len(job.Errors) > 0 {
		last := job.Errors[len(job.Errors)-1]
		line, _, _ := strings.Cut(last.Error, "\n")
		return say(Retry, fmt.Sprintf("retry at %s, after attempt %d failed: %s", due, last.Attempt, later.ClipText(line, 200)), next)
	}
	return say(Scheduled, "scheduled for "+due, next)
}

// nobody is the reason when no live worker can ever take the job.
func nobody(job *later.JobInfo, workers []later.WorkerInfo) Reason {
	start := fmt.Sprintf("start one: later work --queue %s --exec %s=COMMAND", job.Queue, job.Kind)
	live, queue, kind, tenant := 0, 0, 0, 0
	for _, w := range workers {
		if !isAlive(w, job.Now) {
			continue
		}
		live++
		if slices.Contains(w.Queues, job.Queue) {
			queue++
			if slices.Contains(w.Kinds, job.Kind) {
				kind++
				if Serves(w, job) {
					tenant++
				}
			}
		}
	}
	due := "due " + age.Relative(job.RunAt, job.Now)
	switch {
	case live == 0:
		return say(NoWorker, due+", but no worker is alive", start)
	case queue == 0:
		return say(NoQueue, fmt.Sprintf("%s, but %s serves the queue %q", due, noneOf(live, ""), job.Queue), start)
	case kind == 0:
		return say(NoKind, fmt.Sprintf("%s, but %s has a handler for the kind %q", due,
			noneOf(queue, fmt.Sprintf(" of queue %q", job.Queue)), job.Kind), start)
	case tenant == 0:
		of := fmt.Sprintf("of the tenant %q", job.Tenant)
		if job.Tenant == "" {
			of = "without a tenant"
		}
		return say(NoTenant, fmt.Sprintf("%s, but %s runs jobs %s", due,
			noneOf(kind, fmt.Sprintf(" of queue %q and kind %q", job.Queue, job.Kind)), of), start)
	}
	return Reason{}
}

// noneOf is the subject of what no live worker does, with their number.
func noneOf(live int, of string) string {
	if live == 1 {
		return "no live worker" + of + " (there is 1)"
	}
	return fmt.Sprintf("none of %d live workers%s", live, of)
}

// Serves reports whether a worker runs jobs of this queue, kind and tenant.
func Serves(w later.WorkerInfo, job *later.JobInfo) bool {
	return slices.Contains(w.Queues, job.Queue) && slices.Contains(w.Kinds, job.Kind) &&
		(w.Tenants == nil || slices.Contains(w.Tenants, job.Tenant))
}

func serving(job *later.JobInfo, workers []later.WorkerInfo) []later.WorkerInfo {
	var able []later.WorkerInfo
	for _, w := range workers {
		if isAlive(w, job.Now) && Serves(w, job) {
			able = append(able, w)
		}
	}
	return able
}

func free(workers []later.WorkerInfo) int {
	n := 0
	for _, w := range workers {
		n += max(0, w.Slots-w.Running)
	}
	return n
}

func isAlive(w later.WorkerInfo, now time.Time) bool { return now.Sub(w.SeenAt) <= SilentAfter }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

package main

import (
	"fmt"
	"sort"
	"time"

	"github.com/later-queue/later"
)

// history is all that is known when a run has ended.
type history struct {
	lease  time.Duration
	events []event
	// acked are the jobs whose enqueue was acknowledged, by id, with their n.
	acked map[int64]int64
	// unsure are the n of jobs whose enqueue failed in a way that leaves open
	// whether they were stored.
	unsure map[int64]bool
	// inTx are the n of jobs whose effect shares the transaction of their end.
	inTx map[int64]bool
	// revived counts how often the operator may have brought a job back from
	// the dead, by id.
	revived map[int64]int
	truth   truth
}

// truth is what the store's tables say at the end.
type truth struct {
	waiting int
	log     []later.LogEntry
	dead    map[int64]later.JobInfo
	// effects counts the rows that handlers wrote in the transaction of the
	// job's end, by id.
	effects map[int64]int
}

// violation is one broken promise.
type violation struct {
	promise string
	detail  string
}

func (v violation) String() string { return v.promise + ": " + v.detail }

// check returns every broken promise that the history proves. Where two events
// cannot be ordered for sure, it says nothing.
func (h *history) check() []violation {
	var found []violation
	report := func(promise, format string, args ...any) {
		found = append(found, violation{promise, fmt.Sprintf(format, args...)})
	}
	if h.truth.waiting > 0 {
		report("every job ends", "%d jobs are still in the table", h.truth.waiting)
	}
	h.checkEnds(report)
	h.checkDead(report)
	h.checkEffects(report)
	for id, claims := range h.claimsByJob() {
		h.checkLeases(id, claims, report)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].String() < found[j].String() })
	return found
}

type reportFunc func(promise, format string, args ...any)

// checkEnds: every acknowledged job ended exactly once, and no attempt twice.
// A job that an operator brought back from the dead ended once more for that.
func (h *history) checkEnds(report reportFunc) {
	type attempt struct {
		id     int64
		number int
	}
	ends, deaths, settled := map[int64]int{}, map[int64]int{}, map[attempt]int{}
	for _, entry := range h.truth.log {
		switch entry.Outcome {
		case later.OutcomeDone, later.OutcomeCancelled, later.OutcomeExpired, later.OutcomeDeleted:
			ends[entry.JobID]++
		case later.OutcomeDead:
			deaths[entry.JobID]++
		}
		// A snooze gives its attempt's number back. A cancel by an operator and
		// the loss of a worker are nobody's settle, and carry the number of an
		// attempt that may have one.
		switch entry.Outcome {
		case later.OutcomeDone, later.OutcomeRetry, later.OutcomeDead:
			settled[attempt{entry.JobID, entry.Attempt}]++
		}
	}
	for id := range h.jobs() {
		_, dead := h.truth.dead[id]
		switch {
		case ends[id] > 1 || deaths[id] > 1+h.revived[id]:
			report("every job ends exactly once", "job %d ended %d times and died %d times", id, ends[id], deaths[id])
		case ends[id] == 0 && !dead:
			report("no job is lost", "job %d neither ended nor is dead", id)
		case ends[id] == 1 && dead:
			report("every job ends exactly once", "job %d ended and is dead", id)
		}
	}
	for a, count := range settled {
		if count > 1+h.revived[a.id] {
			report("an attempt is settled once", "attempt %d of job %d was settled %d times", a.number, a.id, count)
		}
	}
}

// jobs are the ids that were acknowledged or claimed: a job whose enqueue went
// unanswered must end all the same once anybody has seen it.
func (h *history) jobs() map[int64]bool {
	ids := map[int64]bool{}
	for id := range h.acked {
		ids[id] = true
	}
	for _, e := range h.events {
		if e.kind == evClaim {
			ids[e.id] = true
		}
	}
	return ids
}

// checkDead: every dead job says why.
func (h *history) checkDead(report reportFunc) {
	for id, job := range h.truth.dead {
		if job.DeadReason == "" {
			report("a dead job has its reasons", "job %d has none", id)
		}
		if len(job.Errors) == 0 {
			report("a dead job has its reasons", "job %d (%s) has no errors", id, job.DeadReason)
		}
		for _, e := range job.Errors {
			if e.Error == "" {
				report("a dead job has its reasons", "job %d has an empty error for attempt %d", id, e.Attempt)
			}
		}
	}
}

// checkEffects: done means that the effect happened; in one transaction with
// the end, exactly once; and nothing ran that nobody enqueued.
func (h *history) checkEffects(report reportFunc) {
	happened, phantom := map[int64]bool{}, map[int64]bool{}
	known := map[int64]bool{}
	for _, n := range h.acked {
		known[n] = true
	}
	for _, e := range h.events {
		switch e.kind {
		case evEffect:
			happened[e.id] = true
		case evBegin:
			if !known[e.number] && !h.unsure[e.number] && !phantom[e.number] {
				phantom[e.number] = true
				report("only what was enqueued runs", "n %d of job %d was never enqueued", e.number, e.id)
			}
		}
	}
	done := map[int64]bool{}
	for _, entry := range h.truth.log {
		if entry.Outcome == later.OutcomeDone {
			done[entry.JobID] = true
		}
	}
	for id, n := range h.acked {
		inTx := h.inTx[n]
		switch {
		case inTx && done[id] && h.truth.effects[id] != 1:
			report("an effect in the job's transaction happens exactly once", "job %d is done with %d effects", id, h.truth.effects[id])
		case inTx && !done[id] && h.truth.effects[id] != 0:
			report("an effect in the job's transaction happens exactly once", "job %d is not done, with %d effects", id, h.truth.effects[id])
		case !inTx && done[id] && !happened[id]:
			report("done means that the effect happened", "job %d is done without one", id)
		}
	}
}

// claim is one lease and what happened to it.
type claim struct {
	event
	valid   int64 // the lease holds for sure from reply until here
	settles []event
	maybe   int64 // when the first settle was sent; 0: none
}

// claimsByJob gathers each job's claims with their renewals and settles.
func (h *history) claimsByJob() map[int64][]*claim {
	byLease := map[later.Lease]*claim{}
	byJob := map[int64][]*claim{}
	for _, e := range h.events {
		if e.kind != evClaim {
			continue
		}
		c := &claim{event: e, valid: e.sent + int64(h.lease)}
		byLease[later.Lease{ID: e.id, Token: e.token}] = c
		byJob[e.id] = append(byJob[e.id], c)
	}
	for _, e := range h.events {
		c := byLease[later.Lease{ID: e.id, Token: e.token}]
		if c == nil {
			continue
		}
		switch e.kind {
		case evRenew:
			c.valid = max(c.valid, e.sent+int64(h.lease))
		case evSend:
			if c.maybe == 0 || e.sent < c.maybe {
				c.maybe = e.sent
			}
		case evAccept:
			c.settles = append(c.settles, e)
		}
	}
	return byJob
}

// checkLeases: no claim while another lease held, no result of a lease that was
// lost, no lease settled twice.
func (h *history) checkLeases(id int64, claims []*claim, report reportFunc) {
	for _, first := range claims {
		if len(first.settles) > 1 {
			report("an attempt is settled once", "job %d: lease %d was settled %d times", id, first.token, len(first.settles))
		}
		for _, second := range claims {
			if first == second || second.sent < first.reply {
				continue // not after it for sure
			}
			if first.token == second.token {
				report("a token is never used again", "job %d: %d", id, first.token)
			}
			if second.reply < first.valid && (first.maybe == 0 || first.maybe > second.reply) {
				report("no claim while a lease holds", "job %d: %s claimed it %v before the lease of %s ended", id,
					second.worker, time.Duration(first.valid-second.reply), first.worker)
			}
			for _, settle := range first.settles {
				if settle.sent > second.reply {
					report("no stale result is accepted", "job %d: %s of %s, which %s had claimed %v before", id,
						settle.word, first.worker, second.worker, time.Duration(settle.sent-second.reply))
				}
			}
		}
	}
}

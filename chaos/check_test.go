package main

import (
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// quiet is a history of one job that was claimed, run and settled as it should
// be: the tests break it.
func quiet() *history {
	return &history{
		lease: time.Second,
		acked: map[int64]int64{7: 70},
		inTx:  map[int64]bool{},
		events: []event{
			{kind: evClaim, sent: 100, reply: 200, id: 7, token: 1, number: 1, worker: "a"},
			{kind: evBegin, sent: 210, id: 7, token: 1, number: 70, worker: "a"},
			{kind: evEffect, sent: 220, id: 7, token: 1, number: 70, worker: "a"},
			{kind: evSend, sent: 230, id: 7, token: 1, word: "done", worker: "a"},
			{kind: evAccept, sent: 230, reply: 240, id: 7, token: 1, word: "done", worker: "a"},
		},
		truth: truth{
			log:     []later.LogEntry{{JobID: 7, Attempt: 1, Outcome: later.OutcomeDone}},
			dead:    map[int64]later.JobInfo{},
			effects: map[int64]int{},
		},
	}
}

func TestCheck(t *testing.T) {
	t.Run("says nothing of a history that keeps every promise", func(t *testing.T) {
		if got := quiet().check(); len(got) != 0 {
			t.Fatalf("got %v, want nothing", got)
		}
	})

	second := int64(time.Second)
	for _, broken := range []struct {
		name string
		edit func(h *history)
		want string
	}{
		{"a job is still there", func(h *history) { h.truth.waiting = 1 }, "every job ends"},
		{"a job vanished", func(h *history) { h.truth.log = nil }, "no job is lost"},
		{"a revived job vanished", func(h *history) {
			h.truth.log[0].Outcome = later.OutcomeDead
			h.revived = map[int64]int{7: 1}
		}, "no job is lost"},
		{"a job is done twice", func(h *history) {
			h.truth.log = append(h.truth.log, later.LogEntry{JobID: 7, Attempt: 2, Outcome: later.OutcomeDone})
		}, "every job ends exactly once"},
		{"a job is done and dead", func(h *history) {
			h.truth.dead[7] = later.JobInfo{
				DeadReason: later.DeadFailed, Record: later.Record{Errors: []later.AttemptError{{Error: "x"}}}}
		}, "every job ends exactly once"},
		{"an attempt failed and was done", func(h *history) {
			h.truth.log = append(h.truth.log, later.LogEntry{JobID: 7, Attempt: 1, Outcome: later.OutcomeRetry})
		}, "an attempt is settled once"},
		{"a lease was settled twice", func(h *history) { h.events = append(h.events, h.events[4]) }, "an attempt is settled once"},
		{"a dead job has no reason", func(h *history) {
			h.truth.log[0].Outcome = later.OutcomeDead
			h.truth.dead[7] = later.JobInfo{Record: later.Record{Errors: []later.AttemptError{{Error: "x"}}}}
		}, "a dead job has its reasons"},
		{"a dead job has no errors", func(h *history) {
			h.truth.log[0].Outcome = later.OutcomeDead
			h.truth.dead[7] = later.JobInfo{DeadReason: later.DeadFailed}
		}, "a dead job has its reasons"},
		{"done without an effect", func(h *history) { h.events = append(h.events[:2], h.events[3:]...) }, "done means that the effect happened"},
		{"done in a transaction without its effect", func(h *history) { h.inTx[70] = true }, "an effect in the job's transaction"},
		{"done in a transaction with two effects", func(h *history) { h.inTx[70] = true; h.truth.effects[7] = 2 }, "an effect in the job's transaction"},
		{"dead with an effect in a transaction", func(h *history) {
			h.inTx[70] = true
			h.truth.effects[7] = 1
			h.truth.log[0].Outcome = later.OutcomeCancelled
		}, "an effect in the job's transaction"},
		{"something ran that nobody enqueued", func(h *history) {
			h.events = append(h.events, event{kind: evBegin, sent: 300, id: 8, token: 9, number: 80})
		}, "only what was enqueued runs"},
		{"a second claim came while the first lease held", func(h *history) {
			h.events = append(h.events[:3:3], event{kind: evClaim, sent: second / 2, reply: second/2 + 1, id: 7, token: 2, worker: "b"})
		}, "no claim while a lease holds"},
		{"a second claim came while the renewed lease held", func(h *history) {
			h.events = append(h.events[:3:3],
				event{kind: evRenew, sent: second / 2, reply: second/2 + 1, id: 7, token: 1, worker: "a"},
				event{kind: evClaim, sent: second + second/4, reply: second + second/4 + 1, id: 7, token: 2, worker: "b"})
		}, "no claim while a lease holds"},
		{"a stale result was accepted", func(h *history) {
			h.events[3].sent, h.events[4].sent, h.events[4].reply = 3*second, 3*second, 3*second+1
			h.events = append(h.events, event{kind: evClaim, sent: 2 * second, reply: 2*second + 1, id: 7, token: 2, worker: "b"})
		}, "no stale result is accepted"},
		{"a token came twice", func(h *history) {
			h.events = append(h.events, event{kind: evClaim, sent: 2 * second, reply: 2*second + 1, id: 7, token: 1, worker: "b"})
		}, "a token is never used again"},
	} {
		t.Run("finds that "+broken.name, func(t *testing.T) {
			h := quiet()
			broken.edit(h)
			for _, v := range h.check() {
				if strings.HasPrefix(v.promise, broken.want) {
					return
				}
			}
			t.Fatalf("got %v, want %q among them", h.check(), broken.want)
		})
	}
}

func TestParseEvents(t *testing.T) {
	const whole = "E 1 0 38930 4753 3 -\n"
	t.Run("leaves out what a killed process did not finish", func(t *testing.T) {
		got, err := parseEvents(whole + "E 1 0 38930 47")
		if err != nil || len(got) != 1 || got[0].id != 38930 {
			t.Errorf("got %v, %v, want the first event alone", got, err)
		}
	})
	t.Run("refuses a line that is broken in the middle", func(t *testing.T) {
		if got, err := parseEvents("E 1 0 38\n" + whole); err == nil {
			t.Errorf("got %v, want an error", got)
		}
	})
}

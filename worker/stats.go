package worker

import (
	"maps"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// Stats is a snapshot of a worker. The counters begin at 0 with New and never
// go down.
type Stats struct {
	Name  string
	Slots int
	// Running counts the handlers that run, without abandoned ones.
	Running int
	// Waiting counts the jobs that were claimed ahead and wait for a slot.
	Waiting int
	// Abandoned counts the handlers that did not return in time and still hold
	// their slots. More than a few call for a restart.
	Abandoned int
	// Pending counts finished jobs whose settle has not been committed.
	Pending int
	// LastClaim is when the store last answered a claim, with jobs or without;
	// zero if never. One that is old while the worker runs means that it cannot
	// work.
	LastClaim time.Time

	Claimed int64
	// Outcomes counts the stored outcomes.
	Outcomes map[later.Outcome]int64
	// Refused counts the results that the store did not take because the lease
	// was lost.
	Refused int64
	// Unclear counts those refused after an earlier try had ended without an
	// answer: that try may have been stored. It also counts handlers that failed
	// after DoneTx when it is not known whether their transaction was committed.
	Unclear int64
	// LostLeases counts the jobs, running or waiting for a slot, whose lease was
	// lost or could no longer be shown to hold.
	LostLeases int64
	// AbandonedTotal counts all handlers that were ever abandoned.
	AbandonedTotal int64
}

// Summary is what one Drain did.
type Summary struct {
	// Claimed counts the jobs that were claimed, those of the sweep included.
	Claimed int64
	// Outcomes counts the stored outcomes.
	Outcomes map[later.Outcome]int64
	// Refused counts the results that the store did not take; Unclear is the
	// part of Stats with that name.
	Refused int64
	Unclear int64
	// Empty says that no job was due any more, but for what a pause or a limit
	// holds back. Otherwise the time was over first, and more work may be waiting.
	Empty bool
}

// counters are the part of Stats that only grows.
type counters struct {
	mu sync.Mutex
	s  Stats
}

func (c *counters) add(change func(s *Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s.Outcomes == nil {
		c.s.Outcomes = map[later.Outcome]int64{}
	}
	change(&c.s)
}

// tally counts the outcomes of one settle, so that the counters are locked once
// for all of them.
type tally []outcomeCount

type outcomeCount struct {
	outcome later.Outcome
	n       int64
}

func (t tally) add(outcome later.Outcome) tally {
	for i := range t {
		if t[i].outcome == outcome {
			t[i].n++
			return t
		}
	}
	return append(t, outcomeCount{outcome, 1})
}

func (c *counters) addOutcomes(t tally) {
	c.add(func(s *Stats) {
		for _, o := range t {
			s.Outcomes[o.outcome] += o.n
		}
	})
}

func (c *counters) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.s
	s.Outcomes = maps.Clone(s.Outcomes)
	if s.Outcomes == nil {
		s.Outcomes = map[later.Outcome]int64{}
	}
	return s
}

// since returns what was counted after before was taken.
func (s Stats) since(before Stats) Summary {
	sum := Summary{
		Claimed:  s.Claimed - before.Claimed,
		Refused:  s.Refused - before.Refused,
		Unclear:  s.Unclear - before.Unclear,
		Outcomes: map[later.Outcome]int64{},
	}
	for outcome, n := range s.Outcomes {
		if n -= before.Outcomes[outcome]; n > 0 {
			sum.Outcomes[outcome] = n
		}
	}
	return sum
}

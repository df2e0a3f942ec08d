package worker

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

// How many jobs under limits a claim asks for: see later.ClaimRequest.Free.
func TestAsking(t *testing.T) {
	// queue returns the shares of one queue of 10 slots that has run many jobs of 20 ms: so 50
	// jobs may wait for a slot, 5 of them under limits. So many wait already.
	queue := func(waiting, limited int) *shares {
		s := newShares([]Queue{{Name: "q", Share: 1}}, 10)
		s.queues[0].pace = pace{proven: maxAhead, took: 20 * time.Millisecond}
		for i := range waiting {
			c := &later.Claimed{Record: later.Record{Queue: "q"}, Limited: i < limited}
			s.push(&attempt{claimed: c})
		}
		return s
	}
	for _, c := range []struct {
		behaviour        string
		waiting, limited int
		free             int
		ahead            bool
		total, want      int
	}{
		{"all slots are free, and none may wait", 0, 0, 10, false, 10, 0},
		{"all slots are free", 0, 0, 10, true, 60, 15},
		{"no slot is free", 0, 0, 0, true, 50, 5},
		{"no slot is free, and some that are limited wait", 10, 2, 0, true, 40, 3},
		{"no slot is free, and enough that are limited wait", 10, 5, 0, true, 40, -1},
		{"no slot is free, and more that are limited wait", 10, 8, 0, true, 40, -1},
		{"more slots than jobs that wait are free", 4, 4, 7, true, 53, 4},
		{"slots are free for those that wait only", 4, 4, 4, true, 50, 1},
		{"nothing is asked for", 50, 5, 0, true, 0, 0},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			ask := queue(c.waiting, c.limited).divide(c.free, 1000, c.ahead)
			if got := ask.free(); got != c.want || ask.total != c.total {
				t.Errorf("got %d jobs asked for with Free %d, want %d with %d", ask.total, got, c.total, c.want)
			}
		})
	}

	t.Run("what was cut short is asked for again as far as it may wait", func(t *testing.T) {
		s := queue(0, 0)
		jobs := make([]*later.Claimed, 15)
		for i := range jobs {
			jobs[i] = &later.Claimed{Record: later.Record{Queue: "q"}, Limited: true}
		}
		s.learn(s.divide(10, 1000, true), jobs) // 60 asked for, and 15 of these at most
		if !s.anyMore() {
			t.Fatal("got the queue taken for empty, want more of those under limits")
		}
		ask := s.divide(0, 1000, true)
		if got := ask.free(); ask.total != 5 || got != 0 {
			t.Errorf("got %d jobs asked for with Free %d, want the 5 that may wait, without a bound", ask.total, got)
		}
		s.learn(ask, jobs[:4])
		if s.anyMore() {
			t.Error("got the queue taken for one with more, want it empty: all were allowed")
		}
	})

	t.Run("fewer may wait where tenants take turns", func(t *testing.T) {
		s := queue(0, 0)
		for _, c := range []struct {
			tenant string
			want   int // so many of 20 ms each last so long with 10 slots
		}{{"acme", 10}, {"", 50}} {
			s.learn(s.divide(10, 1000, true), []*later.Claimed{{Record: later.Record{Queue: "q"}}, {Record: later.Record{Queue: "q", Tenant: c.tenant}}})
			s.queues[0].pace.proven, s.queues[0].more = maxAhead, true
			if got := s.divide(0, 1000, true).total; got != c.want {
				t.Errorf("after a job of tenant %q: got %d jobs asked for, want %d", c.tenant, got, c.want)
			}
		}
	})

	t.Run("fewer than were allowed are all there are", func(t *testing.T) {
		s := queue(0, 0)
		s.learn(s.divide(10, 1000, true), []*later.Claimed{{Record: later.Record{Queue: "q"}, Limited: true}})
		if s.anyMore() {
			t.Error("got the queue taken for one with more, want it empty")
		}
	})

	t.Run("when others come again, many may wait again", func(t *testing.T) {
		s := queue(0, 0)
		s.queues[0].cut = true
		ask := s.divide(0, 1000, true)
		s.learn(ask, five())
		if ask = s.divide(0, 1000, true); ask.total != 50 {
			t.Errorf("got %d jobs asked for, want 50", ask.total)
		}
	})
}

// five are jobs that no limit holds for.
func five() (jobs []*later.Claimed) {
	for range 5 {
		jobs = append(jobs, &later.Claimed{Record: later.Record{Queue: "q"}})
	}
	return jobs
}

package postgres

import (
	"math"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// What a look has found is not lost when a claim that was under way moves its mark on, nor
// when the marks were begun anew meanwhile.
func TestLookBesideClaims(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	runAt, id := now.Add(-time.Hour), int64(5)
	found := []lookedLevel{{Priority: 0, RunAt: &runAt, ID: &id, Now: now, Elapsed: 1}, {Priority: 3, Now: now, Elapsed: 1}}
	key := laneKey{"work", "default"}
	req := claimRequest(2)
	begin := func() *marks {
		m := &marks{now: func() time.Time { return now }}
		for range 2 {
			m.after(req, []bool{true}, seen{
				nrs: []int32{1}, priorities: []int32{0}, asked: []int32{2}, picked: []int32{0}, now: now, elapsed: time.Second,
			}, nil)
		}
		now = now.Add(time.Minute)
		if got := m.toLook(req); len(got) != 1 {
			t.Fatalf("got %v to be looked through, want the queue", got)
		}
		if got := m.toLook(req); len(got) != 0 {
			t.Errorf("got %v while a look is under way, want none", got)
		}
		return m
	}

	m := begin()
	_, head := m.before(req) // a claim begins, and ends after the look
	m.looked(req.Kinds, "default", found, nil, time.Second)
	m.after(req, head, seen{
		nrs: []int32{1}, priorities: []int32{0}, asked: []int32{2}, picked: []int32{2}, now: now, elapsed: time.Millisecond,
	}, []*later.Claimed{{Record: later.Record{ID: 9, Queue: "default", RunAt: now.Add(-time.Second)}}})
	if _, head := m.before(req); head[0] {
		t.Error("the next claim looks from the head")
	}
	levels := m.lanes[key].levels
	if got, want := levels[0], (position{runAt, 4}); got != want {
		t.Errorf("got a claim from %v, want from in front of what was found, %v", got, want)
	}
	if got := levels[3]; got.id != math.MaxInt64 {
		t.Errorf("a new level: got %v, want a mark", got)
	}

	m = begin()
	m.lanes[key] = &lane{}
	m.looked(req.Kinds, "default", found, nil, time.Second)
	if m.lanes[key].levels != nil {
		t.Error("a look has made marks of an earlier time hold on")
	}
}

package postgres

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// marked is a store with marks over a queue in which 100,000 running jobs are in
// front, and a clock for them.
func marked(t *testing.T) (s *Store, now *time.Time) {
	t.Helper()
	s, conn := planStore(t)
	execute(t, s, conn, `
		insert into {schema}.job (kind, lease_until, lease_token, lease_holder, claimed_at)
		select k, now() + interval '1 hour', 1, 'x', now() from unnest(array['work', 'other']) k, generate_series(1, 100000)`)
	execute(t, s, conn, "insert into {schema}.job (kind) select 'other' from generate_series(1, 5)")
	execute(t, s, conn, "insert into {schema}.job (kind) select 'work' from generate_series(1, 20)")
	clock := time.Now()
	s.marks.now = func() time.Time { return clock }
	for range 2 {
		if got := len(claimSome(t, s, 5)); got != 5 {
			t.Fatalf("Claim: got %d jobs, want 5", got)
		}
	}
	if arrays, head := s.marks.before(claimRequest(5)); head[0] || len(arrays.nrs) != 1 {
		t.Fatalf("got no mark after two slow looks: %+v", arrays)
	}
	lastLook(s, 10*time.Millisecond)
	return s, &clock
}

// lastLook has the store believe that its last look from the head took so long.
func lastLook(s *Store, took time.Duration) {
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	s.marks.lanes[laneKey{"work", "default"}].took = took
}

func claimSome(t *testing.T, s *Store, limit int) []*later.Claimed {
	t.Helper()
	jobs, err := s.Claim(t.Context(), claimRequest(limit))
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func TestMarks(t *testing.T) {
	t.Run("claims go on where the last one ended, and find what is new", func(t *testing.T) {
		s, _ := marked(t)
		seen := map[int64]bool{}
		for range 3 {
			for _, c := range claimSome(t, s, 5) {
				seen[c.ID] = true
			}
		}
		if got, want := len(seen), 10; got != want {
			t.Errorf("got %d jobs, want the %d that were left", got, want)
		}
		done, err := s.Enqueue(t.Context(), later.RawArgs{JobKind: "work", Payload: []byte(`{}`)}, later.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if jobs := claimSome(t, s, 5); len(jobs) != 1 || jobs[0].ID != done.ID {
			t.Errorf("got %v, want the new job", jobs)
		}
		// A level that no claim has seen.
		done, err = s.Enqueue(t.Context(), later.RawArgs{JobKind: "work", Payload: []byte(`{}`)}, later.Options{Priority: -7})
		if err != nil {
			t.Fatal(err)
		}
		if jobs := claimSome(t, s, 5); len(jobs) != 1 || jobs[0].ID != done.ID {
			t.Errorf("got %v, want the job of better priority", jobs)
		}
	})

	t.Run("what comes in behind a mark is found when it is time to look from the head", func(t *testing.T) {
		s, now := marked(t)
		claimSome(t, s, 100)
		conn := connect(t)
		execute(t, s, conn, "insert into {schema}.job (kind, run_at) values ('work', now() - interval '1 hour')") // as a late commit
		if jobs := claimSome(t, s, 5); len(jobs) != 0 {
			t.Fatalf("got %d jobs, want none: there is no mark", len(jobs))
		}
		*now = now.Add(time.Minute)
		if jobs := claimSome(t, s, 5); len(jobs) != 1 {
			t.Errorf("got %d jobs, want the one behind the mark", len(jobs))
		}
	})

	t.Run("a look that takes long is made beside the claims, which find what it has found", func(t *testing.T) {
		s, now := marked(t)
		claimSome(t, s, 100)
		lastLook(s, time.Second)
		conn := connect(t)
		execute(t, s, conn, "insert into {schema}.job (kind, run_at) values ('work', now() - interval '1 hour')")
		if jobs := claimSome(t, s, 5); len(jobs) != 0 {
			t.Fatalf("got %d jobs, want none: there is no mark", len(jobs))
		}
		*now = now.Add(time.Minute)
		if _, head := s.marks.before(claimRequest(5)); head[0] {
			t.Fatal("a claim would make the long look itself")
		}
		found := 0
		for deadline := time.Now().Add(20 * time.Second); found == 0 && time.Now().Before(deadline); {
			found += len(claimSome(t, s, 5))
		}
		if found != 1 {
			t.Errorf("got %d jobs, want the one behind the mark", found)
		}
	})

	t.Run("what is enqueued before a claim and committed after it is found by the next", func(t *testing.T) {
		s, _ := marked(t)
		claimSome(t, s, 100)
		conn := connect(t)
		execute(t, s, conn, "begin; insert into {schema}.job (kind) values ('work')")
		if jobs := claimSome(t, s, 5); len(jobs) != 0 {
			t.Fatalf("got %d jobs before the commit", len(jobs))
		}
		execute(t, s, conn, "commit")
		if jobs := claimSome(t, s, 5); len(jobs) != 1 {
			t.Errorf("got %d jobs, want the one that was committed late", len(jobs))
		}
	})

	t.Run("what this process gives back is found at once", func(t *testing.T) {
		s, _ := marked(t)
		jobs := claimSome(t, s, 100)
		if _, err := s.Settle(t.Context(), []later.Settlement{{Lease: jobs[0].Lease, Outcome: later.OutcomeReleased}}); err != nil {
			t.Fatal(err)
		}
		if again := claimSome(t, s, 5); len(again) != 1 || again[0].ID != jobs[0].ID {
			t.Errorf("got %v, want the job that was given back", again)
		}
	})

	t.Run("a look from the head that is given up does not keep the next claims from going on behind the marks", func(t *testing.T) {
		s, now := marked(t)
		late := func() {
			t.Helper()
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second)) // no look is as quick
			defer cancel()
			if _, err := s.Claim(ctx, claimRequest(5)); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want the bound", err)
			}
		}
		*now = now.Add(time.Hour)
		if _, head := s.marks.before(claimRequest(5)); !head[0] {
			t.Fatal("it is not time to look from the head: the test shows nothing")
		}
		began := *now
		s.marks.now = func() time.Time { // the claim takes a second
			*now = now.Add(500 * time.Millisecond)
			return *now
		}
		late()
		s.marks.now = func() time.Time { return *now }
		if _, head := s.marks.before(claimRequest(5)); head[0] {
			t.Error("the next claim looks from the head again")
		}
		s.marks.forget()
		if got := len(claimSome(t, s, 5)); got != 5 {
			t.Errorf("got %d jobs behind the marks, want 5", got)
		}
		*now = began.Add(time.Minute)
		if _, head := s.marks.before(claimRequest(5)); !head[0] {
			t.Error("a minute later no claim looks from the head")
		}
	})

	t.Run("another set of kinds has marks of its own", func(t *testing.T) {
		s, _ := marked(t)
		req := claimRequest(5)
		req.Kinds = []string{"work", "other"}
		jobs, err := s.Claim(t.Context(), req)
		if err != nil || len(jobs) != 5 || jobs[0].Kind != "other" {
			t.Errorf("got %v, %v, want the jobs in front", jobs, err)
		}
	})
}

// The bookkeeping by itself.
func TestMarksAreKeptOnlyWhereLookingIsSlow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &marks{now: func() time.Time { return now }}
	req := claimRequest(10)
	look := func(elapsed time.Duration, priorities ...int32) (fromHead, blind bool, levels int) {
		arrays, head := m.before(req)
		s := seen{now: now, elapsed: elapsed}
		for _, p := range priorities {
			s.nrs, s.priorities, s.asked, s.picked = append(s.nrs, 1), append(s.priorities, p), append(s.asked, 10), append(s.picked, 0)
		}
		m.after(req, head, s, nil)
		return head[0], arrays.blind[0], len(arrays.nrs)
	}
	expect := func(what string, fromHead, blind bool, levels int, wantHead, wantBlind bool, wantLevels int) {
		t.Helper()
		if fromHead != wantHead || blind != wantBlind || levels != wantLevels {
			t.Errorf("%s: got head %v, blind %v, %d marks, want head %v, blind %v, %d marks",
				what, fromHead, blind, levels, wantHead, wantBlind, wantLevels)
		}
	}
	const quick, slow = time.Millisecond, 15 * time.Millisecond // not so slow that it is made beside the claims
	check := func(what string, elapsed time.Duration, priorities []int32, wantHead, wantBlind bool, wantLevels int) {
		t.Helper()
		fromHead, blind, levels := look(elapsed, priorities...)
		expect(what, fromHead, blind, levels, wantHead, wantBlind, wantLevels)
	}
	check("first", quick, []int32{0}, true, false, 0)
	check("after a quick look", slow, []int32{0}, true, false, 0)
	check("after one slow look", quick, []int32{0}, true, false, 0)
	check("after a quick one", slow, []int32{0, 5}, true, false, 0)
	check("after one slow look again", slow, []int32{0, 5}, true, false, 0)
	check("after two slow looks", quick, []int32{0, 5}, false, false, 2)
	check("with a level that is new", quick, []int32{0, 3, 5}, false, false, 2)
	check("a moment later", slow, []int32{0, 3, 5}, false, false, 3)
	check("after a slow look behind the marks", quick, []int32{0, 3, 5}, false, true, 3)
	now = now.Add(headPause*slow - time.Millisecond)
	check("just before the pause ends", quick, []int32{0, 3, 5}, false, true, 3)
	now = now.Add(2 * time.Millisecond)
	check("when it has ended", slow, []int32{5}, true, false, 0)
	check("with levels that have nothing any more", quick, []int32{5}, false, false, 3)
	now = now.Add(time.Hour)
	check("much later", quick, []int32{0}, true, false, 0)
	check("after a quick look from the head", quick, []int32{0}, true, false, 0)
	if got := m.lanes[laneKey{"work", "default"}]; got != nil {
		t.Errorf("got %+v, want no marks left", got)
	}
	for range 2 {
		look(slow, 0)
	}
	m.forget()
	check("after forgetting", quick, []int32{0}, true, false, 0)
}

// What is hidden behind marks is hidden for a bounded time.
func TestPauseAfterALook(t *testing.T) {
	for _, test := range []struct{ elapsed, want time.Duration }{
		{10 * time.Millisecond, 200 * time.Millisecond},
		{time.Second, 5 * time.Second},
		{10 * time.Second, 10 * time.Second},
	} {
		if got := pauseAfter(test.elapsed); got != test.want {
			t.Errorf("after %v: got %v, want %v", test.elapsed, got, test.want)
		}
	}
}

func TestMarkOfALevel(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &marks{now: func() time.Time { return now }}
	req := claimRequest(2)
	jobs := []*later.Claimed{
		{Record: later.Record{ID: 7, Queue: "default", RunAt: now.Add(-time.Hour)}},
		{Record: later.Record{ID: 9, Queue: "default", RunAt: now.Add(-time.Minute)}},
	}
	for range 2 {
		m.after(req, []bool{true}, seen{
			nrs: []int32{1, 1, 1}, priorities: []int32{-32769, 0, 4}, asked: []int32{0, 2, 1}, picked: []int32{0, 2, 0}, now: now, elapsed: time.Second,
		}, jobs)
	}
	got := m.lanes[laneKey{"work", "default"}].levels
	if want := (position{jobs[1].RunAt, 9}); got[0] != want {
		t.Errorf("a level that has more: got %v, want %v", got[0], want)
	}
	if want := (position{now.Add(-300 * time.Millisecond), math.MaxInt64}); got[4] != want {
		t.Errorf("a level that had less than asked for: got %v, want %v", got[4], want)
	}
	if len(got) != 2 {
		t.Errorf("got %d levels, want 2", len(got))
	}

	jobs[1].RunAt = now.Add(-time.Millisecond)
	m.after(req, []bool{true}, seen{nrs: []int32{1}, priorities: []int32{0}, asked: []int32{2}, picked: []int32{2}, now: now, elapsed: time.Second}, jobs)
	if got, want := m.lanes[laneKey{"work", "default"}].levels[0], (position{now.Add(-300 * time.Millisecond), math.MaxInt64}); got != want {
		t.Errorf("a level whose last job is of just now: got %v, want %v, since others may be committed yet", got, want)
	}
}

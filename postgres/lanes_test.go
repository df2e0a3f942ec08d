package postgres

import (
	"context"
	"crypto/rand"
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
	s.rotations.now = func() time.Time { return clock }
	for range 2 {
		if got := len(claimSome(t, s, 5)); got != 5 {
			t.Fatalf("Claim: got %d jobs, want 5", got)
		}
	}
	if q := s.rotations.begin(claimRequest(5))[0]; q.head || len(q.lanes) != 1 {
		t.Fatalf("got no mark after two slow looks: %+v", q)
	}
	lastLook(s, 10*time.Millisecond)
	return s, &clock
}

// lastLook has the store believe that its last look from the head took so long.
func lastLook(s *Store, took time.Duration) {
	s.rotations.mu.Lock()
	defer s.rotations.mu.Unlock()
	s.rotations.all[rotationKey{"work", "default"}].took = took
}

// looksFromTheHeads reports whether the next claim does.
func looksFromTheHeads(s *Store) bool { return s.rotations.begin(claimRequest(5))[0].head }

// hide has one of the jobs in front given back, as by another process, behind the mark.
func hide(t *testing.T, s *Store) {
	t.Helper()
	execute(t, s, connect(t, s), `
		update {schema}.job
		set lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
		where id = (select min(id) from {schema}.job where kind = 'work')`)
	if jobs := claimSome(t, s, 5); len(jobs) != 0 {
		t.Fatalf("got %d jobs, want none: there is no mark", len(jobs))
	}
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

	t.Run("jobs of new tenants are found by the next claim", func(t *testing.T) {
		s, _ := marked(t)
		claimSome(t, s, 100)
		for range 3 {
			done, err := s.Enqueue(t.Context(), later.RawArgs{JobKind: "work", Payload: []byte(`{}`)}, later.Options{Tenant: "new" + rand.Text()})
			if err != nil {
				t.Fatal(err)
			}
			if jobs := claimSome(t, s, 5); len(jobs) != 1 || jobs[0].ID != done.ID {
				t.Errorf("got %v, want the job of the new tenant", jobs)
			}
		}
	})

	t.Run("a job of a new tenant that was put off is found when its time has come", func(t *testing.T) {
		s, _ := marked(t)
		claimSome(t, s, 100)
		done, err := s.Enqueue(t.Context(), later.RawArgs{JobKind: "work", Payload: []byte(`{}`)}, later.Options{Tenant: "new", Delay: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var jobs []*later.Claimed
		for deadline := time.Now().Add(20 * time.Second); len(jobs) == 0 && time.Now().Before(deadline); {
			jobs = claimSome(t, s, 5)
		}
		if len(jobs) != 1 || jobs[0].ID != done.ID {
			t.Errorf("got %v, want the job whose time has come", jobs)
		}
	})

	t.Run("what comes in behind a mark is found when it is time to look from the head", func(t *testing.T) {
		s, now := marked(t)
		claimSome(t, s, 100)
		hide(t, s)
		*now = now.Add(time.Minute)
		if jobs := claimSome(t, s, 5); len(jobs) != 1 {
			t.Errorf("got %d jobs, want the one behind the mark", len(jobs))
		}
	})

	t.Run("a look that takes long is made beside the claims, which find what it has found", func(t *testing.T) {
		s, now := marked(t)
		claimSome(t, s, 100)
		lastLook(s, time.Second)
		hide(t, s)
		*now = now.Add(time.Minute)
		if looksFromTheHeads(s) {
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
		conn := connect(t, s)
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
		if !looksFromTheHeads(s) {
			t.Fatal("it is not time to look from the head: the test shows nothing")
		}
		began := *now
		s.rotations.now = func() time.Time { // the claim takes a second
			*now = now.Add(500 * time.Millisecond)
			return *now
		}
		late()
		s.rotations.now = func() time.Time { return *now }
		if looksFromTheHeads(s) {
			t.Error("the next claim looks from the head again")
		}
		s.rotations.forget()
		if got := len(claimSome(t, s, 5)); got != 5 {
			t.Errorf("got %d jobs behind the marks, want 5", got)
		}
		*now = began.Add(time.Minute)
		if !looksFromTheHeads(s) {
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

// turnOf is a claim's queue "default" from the heads, with so many lanes of work, which took so
// long.
func turnOf(elapsed time.Duration, lanes ...*turnLane) *turnQueue {
	return &turnQueue{
		name: "default", nr: 1, head: true, complete: true, seen: lanes,
		took: elapsed, slow: isSlow(elapsed, 0, len(lanes)+1),
	}
}

// The bookkeeping by itself.
func TestMarksAreKeptOnlyWhereLookingIsSlow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &rotations{now: func() time.Time { return now }}
	req := claimRequest(10)
	const quick, slow = time.Millisecond, 15 * time.Millisecond // not so slow that it is made beside the claims
	check := func(what string, elapsed time.Duration, priorities []int32, wantHead bool, wantLanes int) {
		t.Helper()
		q := m.begin(req)[0]
		if q.head != wantHead || len(q.lanes) != wantLanes {
			t.Errorf("%s: got head %v, %d lanes, want head %v, %d lanes", what, q.head, len(q.lanes), wantHead, wantLanes)
		}
		var lanes []*turnLane
		for _, p := range priorities {
			lanes = append(lanes, &turnLane{lane: lane{p, ""}, drained: true, visited: true})
		}
		end := turnOf(elapsed, lanes...)
		end.head = q.head
		m.end(req, &turnClaim{set: &gateSet{}, queues: []*turnQueue{end}, now: now, lookedAt: now})
	}
	check("first", quick, []int32{0}, true, 0)
	check("after a quick look", slow, []int32{0}, true, 0)
	check("after one slow look", quick, []int32{0}, true, 0)
	check("after a quick one", slow, []int32{0, 5}, true, 0)
	check("after one slow look again", slow, []int32{0, 5}, true, 0)
	check("after two slow looks", quick, []int32{0, 5}, false, 2)
	check("with a level that is new", quick, []int32{0, 3, 5}, false, 2)
	check("a moment later", slow, []int32{0, 3, 5}, false, 3)
	now = now.Add(headPause*slow - time.Millisecond)
	check("just before the pause ends", quick, []int32{0, 3, 5}, false, 3)
	now = now.Add(2 * time.Millisecond)
	check("when it has ended", slow, []int32{5}, true, 0)
	check("with levels that have nothing any more", quick, []int32{5}, false, 3)
	now = now.Add(time.Hour)
	check("much later", quick, []int32{0}, true, 0)
	check("after a quick look from the head", quick, []int32{0}, true, 0)
	if got := m.all[rotationKey{"work", "default"}]; got != nil {
		t.Errorf("got %+v, want nothing left", got)
	}
	for range 2 {
		check("again", slow, []int32{0}, true, 0)
	}
	m.forget()
	check("after forgetting", quick, []int32{0}, true, 0)
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

func TestMarkOfALane(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	edge := position{now.Add(-300 * time.Millisecond), math.MaxInt64}
	long, just := position{now.Add(-time.Minute), 9}, position{now.Add(-time.Millisecond), 9}
	for _, test := range []struct {
		what string
		lane turnLane
		want position
	}{
		{"a lane that has more", turnLane{rounds: 1, from: long}, long},
		{"a lane that had less than asked for", turnLane{rounds: 1, from: long, drained: true}, edge},
		{"a lane whose last job is of just now, since others may be committed yet", turnLane{rounds: 1, from: just}, edge},
		{"a lane that was found and not visited", turnLane{from: just}, just},
	} {
		if got := test.lane.mark(now); got != test.want {
			t.Errorf("%s: got %v, want %v", test.what, got, test.want)
		}
	}
}

// What a look has found is not lost when a claim that was under way moves its mark on, nor
// when the marks were begun anew meanwhile.
func TestLookBesideClaims(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	runAt, id := now.Add(-time.Hour), int64(5)
	found := []lookedLane{{Nr: 1, RunAt: &runAt, ID: &id, Now: now, Elapsed: 1}, {Nr: 1, Priority: 3, Tenant: "acme", Now: now, Elapsed: 1}}
	key := rotationKey{"work", "default"}
	req := claimRequest(2)
	begin := func() (*rotations, *turnQueue) {
		m := &rotations{now: func() time.Time { return now }}
		for range 2 {
			m.end(req, &turnClaim{set: &gateSet{}, queues: []*turnQueue{turnOf(time.Second, &turnLane{drained: true, visited: true})}, now: now})
		}
		now = now.Add(time.Minute)
		looks := m.toLook(req)
		if len(looks) != 1 {
			t.Fatalf("got %v to be looked through, want the queue", looks)
		}
		if got := m.toLook(req); len(got) != 0 {
			t.Errorf("got %v while a look is under way, want none", got)
		}
		return m, looks[0]
	}

	m, look := begin()
	q := m.begin(req)[0] // a claim begins, and ends after the look
	m.looked(req, look, found, nil, time.Second)
	q.seen[0].rounds, q.seen[0].visited, q.seen[0].from = 1, true, position{now.Add(-time.Second), 9}
	m.end(req, &turnClaim{set: &gateSet{}, queues: []*turnQueue{q}, now: now})
	q = m.begin(req)[0]
	if q.head {
		t.Error("the next claim looks from the head")
	}
	if len(q.lanes) != 2 {
		t.Fatalf("got %d lanes, want the known one and the new one", len(q.lanes))
	}
	if got, want := q.lanes[0].from, (position{runAt, 4}); got != want {
		t.Errorf("got a claim from %v, want from in front of what was found, %v", got, want)
	}
	if got := q.lanes[1]; got.tenant != "acme" || got.from.id != math.MaxInt64 {
		t.Errorf("a new lane: got %v, want a mark", got)
	}

	m, look = begin()
	m.all[key] = &rotation{}
	m.looked(req, look, found, nil, time.Second)
	if m.all[key].marks != nil {
		t.Error("a look has made marks of an earlier time hold on")
	}
}

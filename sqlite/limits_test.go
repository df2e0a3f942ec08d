package sqlite_test

import (
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

func setLimit(t *testing.T, s *sqlite.Store, scope later.Scope, l later.Limit) {
	t.Helper()
	if err := s.SetLimit(t.Context(), scope, l, "me"); err != nil {
		t.Fatal(err)
	}
}

func atMost(n int) later.Limit { return later.Limit{MaxRunning: &n} }

var defaultQueue = later.Scope{Of: later.ScopeQueue, Name: later.DefaultQueue}

// Case 118: a cap holds over all processes, at each instant, and is reached.
func TestCapOfProcesses(t *testing.T) {
	const jobs, most = 400, 3
	s, path := fileWithJobs(t, jobs)
	setLimit(t, s, defaultQueue, atMost(most))
	var wg sync.WaitGroup
	for range 3 {
		c := startChild(t, path, time.Hour, 0)
		wg.Go(func() { c.wait(t) })
	}
	seen := 0
	for left := jobs; left > 0; left = one[int](t, s.DB(), `select count(*) from later_job`) {
		running := one[int](t, s.DB(), `select count(*) from later_job where lease_until is not null`)
		if running > most {
			t.Fatalf("%d jobs run at once, want at most %d", running, most)
		}
		seen = max(seen, running)
	}
	wg.Wait()
	if seen != most {
		t.Errorf("at most %d jobs ran at once, want %d at some time", seen, most)
	}
	if got := one[int](t, s.DB(), `select count(*) from later_job_log where outcome = 'done' and attempt = 1`); got != jobs {
		t.Errorf("%d jobs were done at the first attempt, want %d", got, jobs)
	}
}

// Case 119: the places of processes that were killed become free when their leases end.
func TestCapOfTheKilled(t *testing.T) {
	const jobs, most = 60, 2
	s, path := fileWithJobs(t, jobs)
	setLimit(t, s, defaultQueue, atMost(most))
	for range 3 {
		startChild(t, path, time.Second, 2).kill(t, jobs)
	}
	startChild(t, path, time.Second, 0).wait(t)
	if got := one[int](t, s.DB(), `select count(*) from later_job`); got != 0 {
		t.Errorf("%d jobs are left, want none", got)
	}
	standing, err := s.Standing(t.Context(), defaultQueue)
	if err != nil || len(standing.Running) != 0 {
		t.Errorf("Standing: %+v, %v, want nothing running", standing, err)
	}
}

// Two stores on one file are two processes: what one lets in counts for the other, and a limit
// that one sets holds for the other's next claim.
func TestCapOfTwoStores(t *testing.T) {
	path := tempFile(t)
	a, b := openStore(t, path, sqlite.Config{}), openStore(t, path, sqlite.Config{})
	for range 10 {
		enqueue(t, a, later.Options{})
	}
	if got := len(claim(t, b, 2)); got != 2 {
		t.Fatalf("claimed %d jobs, want 2", got)
	}
	setLimit(t, a, defaultQueue, atMost(3)) // those that run count
	if got := len(claim(t, b, 9)); got != 1 {
		t.Errorf("the other store claims %d jobs, want 1", got)
	}
	if got := len(claim(t, a, 9)); got != 0 {
		t.Errorf("and then this one claims %d, want none", got)
	}
	if err := b.RemoveLimit(t.Context(), defaultQueue); err != nil {
		t.Fatal(err)
	}
	if got := len(claim(t, a, 9)); got != 7 {
		t.Errorf("without the limit: claimed %d jobs, want the 7 that are left", got)
	}
}

// A limit and a pause of a scope are one row, and do not end each other.
func TestLimitAndPause(t *testing.T) {
	s := openStore(t, ":memory:", sqlite.Config{})
	count := func() [2]int {
		t.Helper()
		pauses, err1 := s.Pauses(t.Context())
		limits, err2 := s.Limits(t.Context())
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		return [2]int{len(pauses), len(limits)}
	}
	pause := func() {
		t.Helper()
		if err := s.Pause(t.Context(), defaultQueue, "me", "why"); err != nil {
			t.Fatal(err)
		}
	}
	setLimit(t, s, defaultQueue, atMost(3))
	pause()
	if got, want := count(), [2]int{1, 1}; got != want {
		t.Errorf("pauses and limits: %v, want %v", got, want)
	}
	if err := s.Resume(t.Context(), defaultQueue); err != nil {
		t.Fatal(err)
	}
	if got, want := count(), [2]int{0, 1}; got != want {
		t.Errorf("pauses and limits after Resume: %v, want %v", got, want)
	}
	wantError(t, s.Resume(t.Context(), defaultQueue), later.ErrNotFound)
	pause()
	if err := s.RemoveLimit(t.Context(), defaultQueue); err != nil {
		t.Fatal(err)
	}
	if got, want := count(), [2]int{1, 0}; got != want {
		t.Errorf("pauses and limits after RemoveLimit: %v, want %v", got, want)
	}
	wantError(t, s.RemoveLimit(t.Context(), defaultQueue), later.ErrNotFound)
	if err := s.Resume(t.Context(), defaultQueue); err != nil {
		t.Fatal(err)
	}
	if got := one[int](t, s.DB(), `select count(*) from later_gate`); got != 0 {
		t.Errorf("%d rows are left, want none", got)
	}
}

// A limit that was written by hand holds from the next claim on.
func TestLimitByHand(t *testing.T) {
	s := openStore(t, ":memory:", sqlite.Config{})
	for range 5 {
		enqueue(t, s, later.Options{Tenant: "acme"})
	}
	claim(t, s, 1)
	mustExec(t, s.DB(), `
insert into later_gate (scope, name, max_running, set_at, set_by) values ('tenant', 'acme', 2, 0, 'ann')`)
	if got := len(claim(t, s, 9)); got != 2 {
		t.Errorf("claimed %d jobs, want 2: the one that ran before is not known", got)
	}
	mustExec(t, s.DB(), `update later_gate set max_running = 3`)
	if got := len(claim(t, s, 9)); got != 1 {
		t.Errorf("claimed %d jobs, want 1 more", got)
	}
	mustExec(t, s.DB(), `delete from later_gate`)
	if got := len(claim(t, s, 9)); got != 1 {
		t.Errorf("claimed %d jobs, want the last one", got)
	}
}

// The table refuses what no worker could go by, and nothing that the library accepts.
func TestLimitConstraints(t *testing.T) {
	s := openStore(t, ":memory:", sqlite.Config{})
	for _, bad := range []string{
		`insert into later_gate (scope, name, max_running) values ('queue', 'a', 1)`,
		`insert into later_gate (scope, name, max_running, set_at, set_by) values ('queue', 'a', -1, 0, 'me')`,
		`insert into later_gate (scope, name, max_running, ordered, set_at, set_by) values ('queue', 'a', 2, 1, 0, 'me')`,
		`insert into later_gate (scope, name, on_dead, set_at, set_by) values ('queue', 'a', 'blocks', 0, 'me')`,
		`insert into later_gate (scope, name, weight, set_at, set_by) values ('queue', 'a', 2, 0, 'me')`,
		`insert into later_gate (scope, name, rate_n, set_at, set_by) values ('queue', 'a', 2, 0, 'me')`,
		`insert into later_gate (scope, name, rate_n, rate_period_us, set_at, set_by) values ('queue', 'a', 2000, 1999, 0, 'me')`,
		`insert into later_gate (scope, name, rate_n, rate_period_us, rate_burst, set_at, set_by) values ('queue', 'a', 1, 31536000000000, 2, 0, 'me')`,
		`insert into later_gate (scope, name, max_running, set_at, set_by) values ('tenants', 'a', 1, 0, 'me')`,
		`insert into later_gate (scope, name, paused_at, paused_by) values ('tenants', '', 0, 'me')`,
		`insert into later_gate_state (scope, name, running) values ('queue', 'a', 'x')`,
	} {
		if _, err := s.DB().Exec(bad); err == nil {
			t.Errorf("%s succeeded", bad)
		}
	}
	most, none := later.MaxCap, 0
	longest := 365 * 24 * time.Hour
	for i, l := range []later.Limit{
		{MaxRunning: &most}, {MaxRunning: &none}, {Ordered: true, OnDead: later.DeadBlocks}, {Weight: later.MaxWeight},
		{Rate: later.Rate{N: 1, Period: time.Millisecond}}, {Rate: later.Rate{N: 1_000_000, Period: longest, Burst: 1_000_000}},
		{Rate: later.Rate{N: 1, Period: longest, Burst: 1}}, {Rate: later.Rate{N: 1000, Period: time.Millisecond + 1}},
		{Rate: later.Rate{N: 1000, Period: time.Millisecond, Burst: 1_000_000}},
	} {
		scope := later.Scope{Of: later.ScopeTenant, Name: "tenant"}
		if err := s.SetLimit(t.Context(), scope, l, "me"); err != nil {
			t.Errorf("limit %d: %v", i, err)
		}
		list, err := s.Limits(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("Limits: %v, %v", list, err)
		}
		if got := list[0].Limit; got.Rate.Every() != l.Rate.Every() || got.Ordered != l.Ordered || got.Weight != l.Weight {
			t.Errorf("limit %d is stored as %+v, want %+v", i, got, l)
		}
	}
}

// What was let in is forgotten when it says nothing any more.
func TestMaintainGates(t *testing.T) {
	s := openStore(t, ":memory:", sqlite.Config{})
	states := func(behaviour string, want int) {
		t.Helper()
		if err := s.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := one[int](t, s.DB(), `select count(*) from later_gate_state`); got != want {
			t.Errorf("%s: %d states, want %d", behaviour, got, want)
		}
	}
	setLimit(t, s, defaultQueue, later.Limit{Ordered: true, OnDead: later.DeadBlocks})
	setLimit(t, s, later.Scope{Of: later.ScopeKind, Name: "work"}, atMost(1))
	setLimit(t, s, later.Scope{Of: later.ScopeTenant, Name: "acme"}, later.Limit{Rate: later.Rate{N: 1, Period: time.Hour}})
	enqueue(t, s, later.Options{Tenant: "acme", MaxAttempts: 2})
	c := claimOne(t, s)
	states("while it runs", 3)
	settle(t, s, later.Settlement{Lease: c.Lease, Outcome: later.OutcomeRetry})
	states("while it waits for its next attempt", 2) // the order, and the rate
	if err := s.RemoveLimit(t.Context(), later.Scope{Of: later.ScopeTenant, Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	states("without the rate", 1)
	settle(t, s, later.Settlement{Lease: claimOne(t, s).Lease, Outcome: later.OutcomeDead, Reason: later.DeadFailed})
	states("while it is dead", 1)
	if err := s.Delete(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	states("when it is gone", 0)
}

// What is given again to a claim whose answer was lost has its place: it takes that of no worker
// that is late.
func TestGivenAgainFencesNobody(t *testing.T) {
	s := openStore(t, ":memory:", sqlite.Config{})
	setLimit(t, s, defaultQueue, atMost(3))
	for range 3 {
		enqueue(t, s, later.Options{})
	}
	late, unseen := claim(t, s, 1)[0], claim(t, s, 2)
	mustExec(t, s.DB(), `update later_job set lease_until = 1000 where id = ?`, late.ID)
	setLimit(t, s, defaultQueue, atMost(1))
	req := request(9)
	req.Unanswered = []int64{unseen[0].Lease.Token}
	if again, err := s.Claim(t.Context(), req); err != nil || len(again) != 2 {
		t.Fatalf("claimed %d jobs, %v, want the two of the lost answer", len(again), err)
	}
	settle(t, s, later.Settlement{Lease: late.Lease, Outcome: later.OutcomeDone})
}

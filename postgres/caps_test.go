package postgres

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// Case 118: eight claimers in four stores, random work, caps of a tenant, a kind and a queue: at no
// instant do more run than each allows, and each is reached.
func TestCapsHoldAcrossProcesses(t *testing.T) {
	first, conn := planStore(t)
	execute(t, first, conn, `
		insert into {schema}.job (kind, tenant) select (array['a', 'b'])[1 + i % 2], 'tenant_' || i % 20 from generate_series(1, 6000) i`)
	for scope, limit := range map[later.Scope]later.Limit{
		{Of: later.ScopeTenants}:                {MaxRunning: new(3)},
		{Of: later.ScopeKind, Name: "a"}:        {MaxRunning: new(7)},
		{Of: later.ScopeQueue, Name: "default"}: {MaxRunning: new(10)},
	} {
		if err := first.SetLimit(t.Context(), scope, limit, "test"); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	running, peak, done := map[string]int{}, map[string]int{}, 0
	count := func(job *later.Claimed, by int) {
		for _, key := range []string{"tenants", "kind " + job.Kind, "queue " + job.Queue} {
			of := key
			if key == "tenants" {
				of = "tenant " + job.Tenant
			}
			running[of] += by
			peak[key] = max(peak[key], running[of])
		}
	}
	var group sync.WaitGroup
	for range 4 {
		s, err := New(first.pool, first.config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		for range 2 {
			group.Go(func() {
				deadline := time.Now().Add(2 * time.Minute)
				for time.Now().Before(deadline) {
					mu.Lock()
					all := done == 6000
					mu.Unlock()
					if all {
						return
					}
					req := claimRequest(1 + rand.IntN(10))
					req.Kinds = []string{"a", "b"}
					jobs, err := s.Claim(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, job := range jobs {
						count(job, 1)
					}
					mu.Unlock()
					pause(t.Context(), time.Millisecond)
					ends := make([]later.Settlement, len(jobs))
					mu.Lock()
					for i, job := range jobs { // before it is free for others
						ends[i] = later.Settlement{Lease: job.Lease, Outcome: later.OutcomeDone}
						count(job, -1)
					}
					done += len(jobs)
					mu.Unlock()
					if refused, err := s.Settle(t.Context(), ends); err != nil || len(refused) > 0 {
						t.Errorf("settle: %v, refused %v", err, refused)
					}
				}
			})
		}
	}
	group.Wait()
	if done != 6000 {
		t.Errorf("got %d jobs done, want 6000", done)
	}
	for key, want := range map[string]int{"tenants": 3, "kind a": 7, "queue default": 10} {
		if peak[key] > want {
			t.Errorf("%s: got %d at once, want at most %d", key, peak[key], want)
		}
		if peak[key] < want {
			t.Errorf("%s: got %d at once, the cap %d is not reached", key, peak[key], want)
		}
	}
	t.Logf("peaks: %v", peak)
}

// A process that is stopped in the middle of a claim holds up a limit for seconds only.
func TestStoppedAdmission(t *testing.T) {
	s, conn := planStore(t)
	execute(t, s, conn, `insert into {schema}.job (kind) values ('work')`)
	scope := later.Scope{Of: later.ScopeQueue, Name: "default"}
	if err := s.SetLimit(t.Context(), scope, later.Limit{MaxRunning: new(1)}, "test"); err != nil {
		t.Fatal(err)
	}
	set, err := s.gateSet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopped, err := s.admit(t.Context(), set, []later.Scope{scope}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.end(t.Context())
	other, err := New(s.pool, s.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	began := time.Now()
	for {
		jobs, err := other.Claim(t.Context(), claimRequest(1))
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 1 {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatal("got no job while another process says nothing, want one when the server has given it up")
		}
		pause(t.Context(), 50*time.Millisecond)
	}
	if err := stopped.commit(t.Context()); err == nil {
		t.Error("what was stopped goes on and commits, want an error")
	}
}

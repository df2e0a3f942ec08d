package storetest

import (
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// scopesOf are the scopes of a job of the tenant "acme" that enqueue makes.
func scopesOf() []later.Scope {
	return []later.Scope{
		{Of: later.ScopeKind, Name: kind},
		{Of: later.ScopeQueue, Name: later.DefaultQueue},
		{Of: later.ScopeTenant, Name: "acme"},
	}
}

func testPause(t *testing.T, open Open) {
	for _, scope := range scopesOf() {
		t.Run("jobs of a paused "+string(scope.Of)+" do not start until it is resumed", func(t *testing.T) {
			w := newWorld(t, open)
			w.claimNone()
			w.pause(scope, "for a test")
			id := w.enqueue(later.Options{Tenant: "acme"})
			before := w.find(id)
			w.claimNone()
			w.sweepNone(true)
			sameInfo(t, "job", w.find(id), before) // case 122: no attempt, no delay
			w.resume(scope)
			equal(t, "id", w.claimOne().ID, id)
		})

		t.Run("a "+string(scope.Of)+" that is paused after claims have begun holds back the next claim", func(t *testing.T) {
			w := newWorld(t, open)
			ids := w.enqueueMany(5, raw(`{}`), later.Options{Tenant: "acme"})
			equalSlices(t, "first", idsOf(w.claimWith(ask(1))), ids[:1])
			w.pause(scope, "")
			w.claimNone()
			w.resume(scope)
			w.claimInOrder(ids[1:]...)
		})

		// Case 125: what is held back hides nothing.
		t.Run("others run beside a paused "+string(scope.Of), func(t *testing.T) {
			w := newWorld(t, open)
			w.enqueueMany(1000, raw(`{}`), later.Options{Tenant: "acme"})
			w.pause(scope, "")
			var id int64
			req := ask(10)
			req.Kinds = append(req.Kinds, "other")
			switch scope.Of {
			case later.ScopeKind:
				id = w.enqueueArgs(later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}, later.Options{Tenant: "acme"})
			case later.ScopeQueue:
				id = w.enqueue(later.Options{Tenant: "acme", Queue: "other"})
				req.Queues = append(req.Queues, later.QueueLimit{Queue: "other", Limit: 10})
			case later.ScopeTenant:
				id = w.enqueue(later.Options{Tenant: "zeta"})
			}
			equalSlices(t, "ids", idsOf(w.claimWith(req)), []int64{id})
		})

		t.Run("a job that runs when its "+string(scope.Of)+" is paused goes on", func(t *testing.T) {
			w := newWorld(t, open)
			id := w.enqueue(later.Options{Tenant: "acme"})
			c := w.claimOne()
			w.pause(scope, "")
			if renewed := w.renew(long, c.Lease); len(renewed.Lost)+len(renewed.Cancelled) > 0 {
				t.Errorf("Renew: got %+v, want nothing lost", renewed)
			}
			w.settle(end(c, later.OutcomeDone))
			w.gone(id)
		})

		t.Run("a suspect of a paused "+string(scope.Of)+" is not run", func(t *testing.T) {
			w := newWorld(t, open)
			id := w.enqueue(later.Options{Tenant: "acme"})
			for range later.SuspectCrashes {
				w.endLease(w.claimThis(id))
			}
			w.pause(scope, "")
			w.sweepNone(true)
			w.resume(scope)
			equal(t, "id", w.sweepOne(true, later.DoomNone).ID, id)
		})

		t.Run("what is to be ended ends in a paused "+string(scope.Of), func(t *testing.T) {
			w := newWorld(t, open)
			w.pause(scope, "")
			w.expired(later.Options{Tenant: "acme"})
			w.sweepOne(true, later.DoomExpired)
		})
	}

	t.Run("a claim of many takes all that is not paused", func(t *testing.T) {
		w := newWorld(t, open)
		want := map[string]int{}
		for _, tenant := range []string{"", "a", "b", "c", "d"} {
			w.enqueueMany(20, raw(`{}`), later.Options{Tenant: tenant})
			want[tenant] = 20
		}
		for _, tenant := range []string{"a", "d"} {
			w.pause(later.Scope{Of: later.ScopeTenant, Name: tenant}, "")
			delete(want, tenant)
		}
		got := map[string]int{}
		for _, c := range w.claimWith(ask(1000)) {
			got[c.Tenant]++
		}
		if len(got) != len(want) {
			t.Errorf("got jobs of %v, want of %v", got, want)
		}
		for tenant, n := range want {
			equal(t, "jobs of "+tenant, got[tenant], n)
		}
	})

	t.Run("a pause tells since when, by whom and why", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		before := w.find(id).Now
		scopes := scopesOf()
		for _, scope := range []later.Scope{scopes[2], scopes[0], scopes[1]} {
			w.pause(scope, "first")
		}
		list := w.pauses()
		equal(t, "paused", len(list), len(scopes))
		for i, p := range list {
			equal(t, "scope", p.Scope, scopes[i])
			equal(t, "by", p.By, "somebody")
			equal(t, "reason", p.Reason, "first")
			between(t, "since", p.Since, before, w.find(id).Now)
		}
		if err := w.store.Pause(w.ctx, scopes[0], "somebody else", "second"); err != nil {
			t.Fatal(err)
		}
		again := w.pauses()[0]
		want := list[0]
		want.Reason = "second"
		if !again.Since.Equal(want.Since) || again.By != want.By || again.Reason != want.Reason {
			t.Errorf("paused twice: got %+v, want %+v", again, want)
		}
		for _, scope := range scopes {
			w.resume(scope)
		}
		equal(t, "paused at last", len(w.pauses()), 0)
	})

	t.Run("a pause that makes no sense is refused", func(t *testing.T) {
		w := newWorld(t, open)
		for _, bad := range []struct {
			scope      later.Scope
			by, reason string
		}{
			{later.Scope{}, "me", ""},
			{later.Scope{Of: "team", Name: "a"}, "me", ""},
			{later.Scope{Of: later.ScopeQueue}, "me", ""},
			{later.Scope{Of: later.ScopeKind, Name: "a b"}, "me", ""},
			{later.Scope{Of: later.ScopeTenant}, "me", ""},
			{scopesOf()[0], "", ""},
			{scopesOf()[0], "a\nb", ""},
			{scopesOf()[0], "me", strings.Repeat("x", later.MaxReasonBytes+1)},
			{scopesOf()[0], "me", "\xff"},
		} {
			isError(t, "Pause", w.store.Pause(w.ctx, bad.scope, bad.by, bad.reason), later.ErrInvalid)
		}
		equal(t, "paused", len(w.pauses()), 0)
		isError(t, "Resume", w.store.Resume(w.ctx, scopesOf()[0]), later.ErrNotFound)
		isError(t, "Resume", w.store.Resume(w.ctx, later.Scope{}), later.ErrInvalid)
	})
}

func (w *world) pause(scope later.Scope, reason string) {
	w.t.Helper()
	if err := w.store.Pause(w.ctx, scope, "somebody", reason); err != nil {
		w.t.Fatalf("Pause: %v", err)
	}
}

func (w *world) resume(scope later.Scope) {
	w.t.Helper()
	if err := w.store.Resume(w.ctx, scope); err != nil {
		w.t.Fatalf("Resume: %v", err)
	}
}

func (w *world) pauses() []later.Pause {
	w.t.Helper()
	list, err := w.store.Pauses(w.ctx)
	if err != nil {
		w.t.Fatalf("Pauses: %v", err)
	}
	return list
}

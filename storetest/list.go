package storetest

import (
	"slices"
	"testing"

	"github.com/later-queue/later"
)

func testList(t *testing.T, open Open) {
	// shown: every state that the words have, and each job in one of them.
	t.Run("a job is listed, found and counted in the state that it is in", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.oneOfEachState()
		for state, id := range ids {
			info := w.state(id, state)
			infos := w.list(later.Filter{State: state})
			equalSlices(t, "listed as "+string(state), listed(infos), []int64{id})
			info.Log = nil // only Find fills it
			sameInfo(t, "listed as "+string(state), infos[0], info)
			equal(t, "now is zero", infos[0].Now.IsZero(), false)
		}
		equal(t, "listed as ended", len(w.list(later.Filter{State: later.StateEnded})), 0)

		rows := w.status()
		equal(t, "status rows", len(rows), len(ids))
		for _, row := range rows {
			equal(t, "queue", row.Queue, queue)
			equal(t, "jobs "+string(row.State), row.Count, 1)
			waits := row.State == later.StateReady || row.State == later.StateLost
			equal(t, "oldest is zero of "+string(row.State), row.Oldest.IsZero(), !waits)
			if waits {
				equalTimes(t, "oldest "+string(row.State), row.Oldest, w.find(ids[row.State]).RunAt)
			}
		}
	})

	t.Run("an empty store lists and counts nothing", func(t *testing.T) {
		w := newWorld(t, open)
		equal(t, "status rows", len(w.status()), 0)
		equal(t, "jobs", len(w.list(later.Filter{})), 0)
	})

	// Case 142 and K1: the count of a queue that nobody serves is there too.
	t.Run("the status counts by queue and state and knows the oldest", func(t *testing.T) {
		w := newWorld(t, open)
		first := w.enqueue(later.Options{Queue: "mail", Priority: 9})
		w.pass(first, w.find(first).RunAt.Add(clockStep))
		w.enqueueMany(4, raw(`{}`), later.Options{Queue: "mail"})
		w.enqueueMany(3, raw(`{}`), later.Options{Queue: "abandoned", Delay: long})
		w.enqueueMany(2, raw(`{}`), later.Options{})
		w.claim(2)
		counts := map[string]int64{}
		for _, row := range w.status() {
			counts[row.Queue+" "+string(row.State)] = row.Count
			if row.Queue == "mail" {
				equalTimes(t, "oldest", row.Oldest, w.find(first).RunAt)
			}
		}
		equal(t, "rows", len(counts), 3)
		equal(t, "mail", counts["mail ready"], 5)
		equal(t, "abandoned", counts["abandoned scheduled"], 3)
		equal(t, "default", counts["default running"], 2)
	})

	t.Run("a job of each state is selected by every field", func(t *testing.T) {
		w := newWorld(t, open)
		acme, nobody := "acme", ""
		a := w.enqueue(later.Options{Tenant: acme})
		b := w.enqueue(later.Options{Queue: "mail"})
		c := w.enqueueArgs(later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}, later.Options{Queue: "mail", Tenant: acme, Delay: long})
		d := w.die(raw(`{}`), later.Options{Queue: "mail", Priority: -1}, later.DeadFailed, "no route")
		for _, f := range []struct {
			name   string
			filter later.Filter
			want   []int64
		}{
			{"nothing", later.Filter{}, []int64{d, c, b, a}},
			{"queue", later.Filter{Queue: "mail"}, []int64{d, c, b}},
			{"kind", later.Filter{Kind: "other"}, []int64{c}},
			{"tenant", later.Filter{Tenant: &acme}, []int64{c, a}},
			{"no tenant", later.Filter{Tenant: &nobody}, []int64{d, b}},
			{"state", later.Filter{State: later.StateReady}, []int64{b, a}},
			{"queue and state", later.Filter{Queue: "mail", State: later.StateReady}, []int64{b}},
			{"error", later.Filter{ErrorLike: "route"}, []int64{d}},
			{"error and another state", later.Filter{ErrorLike: "route", State: later.StateReady}, nil},
			{"reason", later.Filter{Reason: later.DeadFailed}, []int64{d}},
			{"another reason", later.Filter{Reason: later.DeadLost}, nil},
			{"ids", later.Filter{IDs: []int64{a, d, a, 1 << 40}}, []int64{d, a}},
			{"ids and queue", later.Filter{IDs: []int64{a, d}, Queue: "mail"}, []int64{d}},
			{"before", later.Filter{Before: c}, []int64{b, a}},
			{"limit", later.Filter{Limit: 2}, []int64{d, c}},
			{"before and limit", later.Filter{Before: d, Limit: 1}, []int64{c}},
			{"a queue that is not there", later.Filter{Queue: "none"}, nil},
		} {
			equalSlices(t, "selected by "+f.name, listed(w.list(f.filter)), f.want)
		}
	})

	t.Run("a list without payloads has everything else", func(t *testing.T) {
		// Case 193: a list of large jobs must not read them.
		w := newWorld(t, open)
		w.enqueue(later.Options{Tenant: "acme"})
		w.die(raw(`{"big":1}`), later.Options{}, later.DeadFailed, "boom")
		for _, info := range w.list(later.Filter{NoPayload: true}) {
			if info.Payload != nil || info.Checkpoint != nil {
				t.Errorf("job %d: got the payload %s, want none", info.ID, info.Payload)
			}
			if info.Kind == "" || info.CreatedAt.IsZero() {
				t.Errorf("got %+v, want all other fields", info)
			}
		}
	})

	t.Run("pages of waiting and dead jobs meet without a gap", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(230, raw(`{}`), later.Options{})
		for i, c := range w.claim(230) {
			if i%3 == 0 {
				w.settle(end(c, later.OutcomeDead))
			}
		}
		slices.Reverse(ids)
		var got []int64
		for before := int64(0); ; before = got[len(got)-1] {
			page := w.list(later.Filter{Before: before})
			if len(page) == 0 || len(got) > len(ids) {
				break
			}
			equal(t, "page is too long", len(page) > later.DefaultListLimit, false)
			got = append(got, listed(page)...)
		}
		equalSlices(t, "ids", got, ids)
	})

	// shown: the log of one job is bounded, and the newest attempts are in it.
	t.Run("a job that was found shows its last 100 attempts, oldest first", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{MaxAttempts: later.UnlimitedAttempts})
		for range 103 {
			w.settle(end(w.claimOne(), later.OutcomeRetry))
		}
		log := w.find(id).Log
		equal(t, "entries", len(log), 100)
		for i, entry := range log {
			equal(t, "attempt", entry.Attempt, i+4)
		}
	})
}

// oneOfEachState makes a job in every state that a row can be in.
func (w *world) oneOfEachState() map[later.State]int64 {
	w.t.Helper()
	ids := map[later.State]int64{}
	ids[later.StateDead] = w.die(raw(`{}`), later.Options{}, later.DeadFailed, "it failed")
	ids[later.StateRetry] = w.enqueue(later.Options{})
	s := end(w.claimOne(), later.OutcomeRetry)
	s.Delay = long
	w.settle(s)
	ids[later.StateLost] = w.enqueue(later.Options{})
	lost := w.claimOne()
	ids[later.StateRunning] = w.enqueue(later.Options{})
	w.claimOne()
	ids[later.StateReady] = w.enqueue(later.Options{})
	ids[later.StateScheduled] = w.enqueue(later.Options{Delay: long})
	w.endLease(lost)
	return ids
}

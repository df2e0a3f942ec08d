package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/later-queue/later"
)

func testDead(t *testing.T, open Open) {
	acme, nobody := "acme", ""
	filters := []struct {
		name   string
		filter later.Filter
		want   []int // of the jobs below
	}{
		{"all", later.Filter{}, []int{0, 1, 2, 3}},
		{"by state, which is ignored", later.Filter{State: later.StateReady}, []int{0, 1, 2, 3}},
		{"by queue", later.Filter{Queue: "mail"}, []int{1, 3}},
		{"by kind", later.Filter{Kind: "other"}, []int{2, 3}},
		{"by tenant", later.Filter{Tenant: &acme}, []int{0, 3}},
		{"by no tenant", later.Filter{Tenant: &nobody}, []int{1, 2}},
		{"by reason", later.Filter{Reason: later.DeadPermanent}, []int{2}},
		{"by error", later.Filter{ErrorLike: "no route"}, []int{0, 2}},
		{"by queue and tenant", later.Filter{Queue: "mail", Tenant: &nobody}, []int{1}},
		{"by nothing that is there", later.Filter{Queue: "none"}, nil},
	}
	populate := func(w *world) []int64 {
		other := later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}
		ids := []int64{
			w.die(raw(`{}`), later.Options{Tenant: acme}, later.DeadFailed, "dial: no route to host"),
			w.die(raw(`{}`), later.Options{Queue: "mail"}, later.DeadFailed, "bounced"),
			w.die(other, later.Options{}, later.DeadPermanent, "no route"),
			w.die(other, later.Options{Queue: "mail", Tenant: acme}, later.DeadTimeout, "timed out"),
		}
		w.enqueue(later.Options{Delay: long})
		w.enqueue(later.Options{Delay: long, Queue: "mail", Tenant: acme})
		return ids
	}
	pick := func(ids []int64, which []int) []int64 {
		var picked []int64
		for _, i := range which {
			picked = append(picked, ids[i])
		}
		return picked
	}
	for _, f := range filters {
		t.Run("dead jobs are listed, retried and dropped "+f.name, func(t *testing.T) {
			for _, verb := range []string{"retry", "drop"} {
				w := newWorld(t, open)
				ids := populate(w)
				want := pick(ids, f.want)

				filter := f.filter
				filter.State = later.StateDead
				got := listed(w.list(filter))
				slices.Reverse(got)
				equalSlices(t, "listed", got, want)

				act := w.store.RetryDead
				if verb == "drop" {
					act = w.store.DropDead
				}
				n, err := act(w.ctx, f.filter)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "changed by "+verb, n, len(want))
				for _, id := range ids {
					switch {
					case !slices.Contains(want, id):
						w.state(id, later.StateDead)
					case verb == "drop":
						w.gone(id)
					default:
						equal(t, "generation", w.state(id, later.StateReady).Generation, 1)
					}
				}
				equal(t, "scheduled", len(w.list(later.Filter{State: later.StateScheduled})), 2)
				n, err = act(w.ctx, f.filter)
				if n != 0 || err != nil {
					t.Errorf("second %s: got %d, %v, want 0", verb, n, err)
				}
			}
		})
	}

	t.Run("dead jobs are taken by id and page by page, the oldest first", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(130, raw(`{}`), later.Options{})
		var ends []later.Settlement
		for _, c := range w.claim(130) {
			ends = append(ends, end(c, later.OutcomeDead))
		}
		w.settle(ends...)
		n, err := w.store.RetryDead(w.ctx, later.Filter{IDs: []int64{ids[7], ids[3], 1 << 40}})
		if n != 2 || err != nil {
			t.Fatalf("RetryDead by id: got %d, %v, want 2", n, err)
		}
		equalSlices(t, "revived", listed(w.list(later.Filter{State: later.StateReady})), []int64{ids[7], ids[3]})
		n, err = w.store.DropDead(w.ctx, later.Filter{Limit: 10})
		if n != 10 || err != nil {
			t.Fatalf("DropDead with a limit: got %d, %v, want 10", n, err)
		}
		w.gone(ids[11])
		w.state(ids[12], later.StateDead)
		for _, want := range []int{later.DefaultListLimit, 130 - 12 - later.DefaultListLimit, 0} {
			n, err := w.store.DropDead(w.ctx, later.Filter{})
			if n != want || err != nil {
				t.Fatalf("DropDead: got %d, %v, want %d", n, err, want)
			}
		}
	})

	t.Run("an operation on a dead job that another has taken is refused", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.die(raw(`{}`), later.Options{}, later.DeadFailed, "it failed")
		w.retry(id)
		c := w.claimOne()
		if err := errors.Join(w.store.Retry(w.ctx, id), w.store.Delete(w.ctx, id)); !errors.Is(err, later.ErrRunning) {
			t.Errorf("got %v, want it refused as running", err)
		}
		n, err := w.store.DropDead(w.ctx, later.Filter{IDs: []int64{id}})
		if n != 0 || err != nil {
			t.Errorf("DropDead: got %d, %v, want 0", n, err)
		}
		w.settle(end(c, later.OutcomeDone))
	})
}

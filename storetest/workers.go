package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func testWorkers(t *testing.T, open Open) {
	// shown.
	t.Run("a worker that beats is shown with all that it says", func(t *testing.T) {
		w := newWorld(t, open)
		want := later.WorkerInfo{
			Name: "host-1/42/abc", Host: "host-1", PID: 42, Version: "v1.2.3 (dirty)",
			Queues: []string{"mail", "default"}, Kinds: []string{"a", "b:c"},
			Tenants: []string{"", "it's", "ä"}, Slots: 50, Running: 3,
		}
		w.beat(want)
		got := w.workers()
		if len(got) != 1 {
			t.Fatalf("got %d workers, want 1", len(got))
		}
		sameWorker(t, got[0], want)
		equal(t, "seen at is zero", got[0].SeenAt.IsZero(), false)
		equalTimes(t, "started at", got[0].StartedAt, got[0].SeenAt)
	})

	t.Run("a later beat brings what has changed and keeps the start", func(t *testing.T) {
		w := newWorld(t, open)
		w.beat(later.WorkerInfo{Name: "a", Running: 1, StartedAt: time.Now().Add(-long)})
		first := w.workers()[0]
		var last later.WorkerInfo
		w.eventually("a beat is seen later than the first", func() bool {
			w.beat(later.WorkerInfo{Name: "a", Running: 7, Kinds: []string{"new"}})
			last = w.workers()[0]
			return last.SeenAt.After(first.SeenAt.Add(10 * clockStep))
		})
		sameWorker(t, last, later.WorkerInfo{Name: "a", Running: 7, Kinds: []string{"new"}})
		equalTimes(t, "started at", last.StartedAt, first.StartedAt)
	})

	t.Run("workers are shown by name, and one that leaves is not", func(t *testing.T) {
		w := newWorld(t, open)
		names := append(slices.Clone(oddNames), "worker-10", "worker-2", "Worker-2")
		for _, name := range names {
			w.beat(later.WorkerInfo{Name: name, Host: name, Version: name})
		}
		shown := func() []string {
			var list []string
			for _, info := range w.workers() {
				equal(t, "host", info.Host, info.Name)
				list = append(list, info.Name)
			}
			return list
		}
		slices.Sort(names)
		equalSlices(t, "names", shown(), names)
		for len(names) > 0 {
			if err := w.store.Leave(w.ctx, names[0]); err != nil {
				t.Fatal(err)
			}
			names = names[1:]
			equalSlices(t, "names", shown(), names)
		}
	})

	t.Run("a worker that was never there leaves without an error", func(t *testing.T) {
		w := newWorld(t, open)
		if err := w.store.Leave(w.ctx, "nobody"); err != nil {
			t.Error(err)
		}
	})

	// Case 190: housekeeping forgets the gone, not those that are alive.
	t.Run("a worker that beats survives the housekeeping", func(t *testing.T) {
		w := newWorld(t, open)
		w.beat(later.WorkerInfo{Name: "a"})
		w.maintain()
		equal(t, "workers", len(w.workers()), 1)
	})
}

func testMaintain(t *testing.T, open Open) {
	// kept. Case 98: what has not run is not history, however old it gets; nor
	// are the dead.
	t.Run("housekeeping removes no job that has not ended", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.oneOfEachState()
		ids["far"] = w.enqueue(later.Options{Delay: 30 * 24 * time.Hour})
		ids["expired"] = w.expired(later.Options{Queue: "other"})
		before := map[int64]*later.JobInfo{}
		for _, id := range ids {
			before[id] = w.find(id)
		}
		for range 3 {
			w.maintain()
		}
		for id, want := range before {
			sameInfo(t, fmt.Sprintf("job %d (%s)", id, want.State), w.find(id), want)
		}
	})

	t.Run("housekeeping keeps the history that is new", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		w.settle(end(w.claimOne(), later.OutcomeDone))
		w.maintain()
		equalSlices(t, "outcomes", w.outcomes(id), []later.Outcome{later.OutcomeDone})
	})

	t.Run("a migration of a store that is up to date changes nothing", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		before := w.find(id)
		for range 2 {
			if err := w.store.Migrate(w.ctx); err != nil {
				t.Fatalf("Migrate: %v", err)
			}
			if err := w.store.CheckSchema(w.ctx); err != nil {
				t.Fatalf("CheckSchema: %v", err)
			}
		}
		sameInfo(t, "job", w.find(id), before)
	})
}

func (w *world) beat(info later.WorkerInfo) {
	w.t.Helper()
	if err := w.store.Beat(w.ctx, info); err != nil {
		w.t.Fatalf("Beat: %v", err)
	}
}

func (w *world) workers() []later.WorkerInfo {
	w.t.Helper()
	list, err := w.store.Workers(w.ctx)
	if err != nil {
		w.t.Fatalf("Workers: %v", err)
	}
	return list
}

func (w *world) maintain() {
	w.t.Helper()
	if err := w.store.Maintain(w.ctx); err != nil {
		w.t.Fatalf("Maintain: %v", err)
	}
}

// sameWorker compares what a worker says of itself.
func sameWorker(t failer, got, want later.WorkerInfo) {
	t.Helper()
	equal(t, "name", got.Name, want.Name)
	equal(t, "host", got.Host, want.Host)
	equal(t, "pid", got.PID, want.PID)
	equal(t, "version", got.Version, want.Version)
	equalSlices(t, "queues", got.Queues, want.Queues)
	equalSlices(t, "kinds", got.Kinds, want.Kinds)
	equalSlices(t, "tenants", got.Tenants, want.Tenants)
	equal(t, "all tenants", got.Tenants == nil, want.Tenants == nil)
	equal(t, "slots", got.Slots, want.Slots)
	equal(t, "running", got.Running, want.Running)
}

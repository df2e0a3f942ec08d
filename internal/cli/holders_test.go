package cli

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
)

func beat(t *testing.T, store later.Store, name string, queues, kinds []string) {
	t.Helper()
	err := store.Beat(context.Background(), later.WorkerInfo{Name: name, Host: "h", PID: 7, Queues: queues, Kinds: kinds, Slots: 4})
	if err != nil {
		t.Fatal(err)
	}
}

// Case 190: what is said of the workers agrees with the leases.
func TestFleetLines(t *testing.T) {
	a := new(App)
	a.complete()
	for _, c := range []struct {
		name  string
		fleet fleetView
		want  []string
	}{
		{"nobody", fleetView{}, []string{"no worker is alive: start one with later work"}},
		{"alive", fleetView{alive: 2, slots: 8}, []string{"2 workers alive, with 8 slots"}},
		{"a lease of nobody", fleetView{unlisted: 1}, []string{"1 job is running on workers that are not listed (lost, or cut off)"}},
		{"leases of the silent", fleetView{silent: 3}, []string{"3 jobs are running on workers that are silent (lost, or cut off)"}},
		{"all of them", fleetView{alive: 1, slots: 1, unlisted: 2, silent: 1, capped: true}, []string{
			"1 worker alive, with 1 slot", "2 jobs are running on workers that are not listed (lost, or cut off)",
			"1 job is running on workers that are silent (lost, or cut off)", "10000 running jobs were looked at; there are more",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.fleet.lines(a, 80); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWorkersByLeases(t *testing.T) {
	for name, s := range map[string]*shell{"sqlite": newShell(t), "postgres": postgresShell(t)} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.ok("migrate", "up")
			for range 3 {
				s.ok("enqueue", "k", "1")
			}
			store := s.store()
			const nobody, ghost = "no worker is alive: start one with later work", "2 jobs are running on workers that are not listed (lost, or cut off)"
			for _, command := range []string{"status", "workers"} {
				if out := s.ok(command); !strings.Contains(out, nobody) {
					t.Errorf("got %q, want %q", out, nobody)
				}
			}
			claim(t, store, "k", 2) // by w1, which has not beaten
			for _, command := range []string{"status", "workers"} {
				if out := s.ok(command); strings.Contains(out, "no worker is alive") || !strings.Contains(out, ghost) {
					t.Errorf("got %q, want %q", out, ghost)
				}
			}
			beat(t, store, "w1", []string{"default"}, []string{"k"})
			for _, command := range []string{"status", "workers"} {
				if out := s.ok(command); strings.Contains(out, "not listed") || !strings.Contains(out, "2/4") {
					t.Errorf("got %q, want 2/4 beside w1, which told of none", out)
				}
			}
			if v := decode[statusView](t, s.ok("status", "--json")); v.Workers[0].Running != 2 || v.RunningElsewhere != 0 {
				t.Errorf("got %+v", v)
			}
		})
	}
}

func TestWorkersSilentHold(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "k", "1")
	store := s.store()
	beat(t, store, "w1", []string{"default"}, []string{"k"})
	claim(t, store, "k", 1)
	s.change = func(a *App) { // as if the beat were two minutes old
		a.Open = wrapOpen(open.StoreWith, func(store later.Store) later.Store { return silentStore{store} })
	}
	if out := s.ok("status"); strings.Contains(out, "alive") || !strings.Contains(out, "1 job is running on workers that are silent") {
		t.Errorf("got %q", out)
	}
}

// silentStore tells of workers that were last seen two minutes before.
type silentStore struct{ later.Store }

func (s silentStore) Workers(ctx context.Context) ([]later.WorkerInfo, error) {
	workers, err := s.Store.Workers(ctx)
	for i := range workers {
		workers[i].SeenAt = workers[i].SeenAt.Add(-2 * time.Minute)
	}
	return workers, err
}

// Case 142: jobs of a kind that nobody registers are not invisible.
func TestUnserved(t *testing.T) {
	for name, s := range map[string]*shell{"sqlite": newShell(t), "postgres": postgresShell(t)} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.ok("migrate", "up")
			s.ok("enqueue", "served", "1")
			s.ok("enqueue", "later", "1", "--in", "1h")
			store := s.store()
			beat(t, store, "w1", []string{"default", "b"}, []string{"served"})
			if out := s.ok("status"); strings.Contains(out, "without a worker") {
				t.Errorf("got %q", out)
			}
			s.ok("enqueue", "raw", "1")
			s.ok("enqueue", "raw", "1", "--queue", "b")
			if out, want := s.ok("status"), "\n2 ready jobs of kinds without a worker: raw\n"; !strings.Contains(out, want) {
				t.Errorf("got %q, want %q", out, want)
			}
			s.ok("enqueue", "served", "1", "--queue", "c")
			if out, want := s.ok("status"), "3 ready jobs of kinds without a worker: raw, served (queue c)\n"; !strings.Contains(out, want) {
				t.Errorf("got %q, want %q", out, want)
			}
			got := decode[statusView](t, s.ok("status", "--json")).Unserved
			if want := (unservedView{Count: 3, Kinds: []string{"raw", "served (queue c)"}, Complete: true}); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			s.ok("enqueue", "served", "1", "--queue", "c", "--tenant", "acme")
			s.ok("enqueue", "served", "1", "--queue", "c", "--tenant", "zeta")
			if err := store.Beat(t.Context(), later.WorkerInfo{Name: "w2", Queues: []string{"c"}, Kinds: []string{"served"}, Tenants: []string{"acme"}}); err != nil {
				t.Fatal(err)
			}
			if out, want := s.ok("status"), "4 ready jobs of kinds without a worker: raw, served (tenant zeta), served (without a tenant)\n"; !strings.Contains(out, want) {
				t.Errorf("got %q, want %q", out, want)
			}
			if out := s.ok("workers"); !strings.Contains(out, "acme") || !strings.Contains(out, "all") {
				t.Errorf("got %q, want the tenants in it", out)
			}
		})
	}
	for _, c := range []struct {
		found unservedView
		want  string
	}{
		{unservedView{Complete: true}, ""},
		{unservedView{Count: 1, Kinds: []string{"a"}, Complete: true}, "1 ready job of a kind without a worker: a"},
		{unservedView{Count: 12, Kinds: strings.Fields("a b c d e f g h i j k l")}, "12 ready jobs of kinds without a worker: a, b, c, d, e, f, g, h, i, j and 2 more (of the newest 1000 ready jobs)"},
	} {
		if got := c.found.line(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

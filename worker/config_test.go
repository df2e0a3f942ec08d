package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
	"github.com/later-queue/later/worker"
)

func noop(context.Context, *later.Job[task]) error { return nil }

func TestConfig(t *testing.T) {
	// Case 65: what cannot work is refused at the start, with the values.
	for _, c := range []struct {
		name   string
		config worker.Config
		want   []string // in the error; none: accepted
	}{
		{"the zero value works", worker.Config{}, nil},
		{"a lease under 1s", worker.Config{Lease: 200 * time.Millisecond}, []string{"Lease 200ms", "1s"}},
		{"a negative lease", worker.Config{Lease: -time.Second}, []string{"Lease -1s", "negative"}},
		{"renewals as rare as the lease", worker.Config{Lease: 90 * time.Second, RenewEvery: 90 * time.Second}, []string{"RenewEvery 1m30s", "Lease 1m30s"}},
		{"renewals rarer than a third of the lease", worker.Config{Lease: 90 * time.Second, RenewEvery: 31 * time.Second}, []string{"RenewEvery 31s", "Lease 1m30s"}},
		{"renewals every third of the lease", worker.Config{Lease: 90 * time.Second, RenewEvery: 30 * time.Second}, nil},
		{"negative renewals", worker.Config{RenewEvery: -1}, []string{"RenewEvery -1ns"}},
		{"renewals without a pause", worker.Config{RenewEvery: 1}, []string{"RenewEvery 1ns"}},
		{"a negative poll", worker.Config{Poll: -time.Second}, []string{"Poll -1s"}},
		{"polling without a pause", worker.Config{Poll: 1}, []string{"Poll 1ns"}},
		{"a negative grace", worker.Config{Grace: -1}, []string{"Grace -1ns"}},
		{"a negative drain timeout", worker.Config{DrainTimeout: -1}, []string{"DrainTimeout -1ns"}},
		{"negative slots", worker.Config{Concurrency: -3}, []string{"Concurrency -3"}},
		{"too many slots", worker.Config{Concurrency: 10_001}, []string{"Concurrency 10001", "10000"}},
		{"a queue without a name", worker.Config{Queues: []worker.Queue{{}}}, []string{"Queues[0].Name", "empty"}},
		{"a queue with a bad name", worker.Config{Queues: []worker.Queue{{Name: "a b"}}}, []string{"Queues[0].Name", `"a b"`}},
		{"a queue twice", worker.Config{Queues: []worker.Queue{{Name: "a"}, {Name: "a"}}}, []string{`"a" twice`}},
		{"a negative share", worker.Config{Queues: []worker.Queue{{Name: "a", Share: -1}}}, []string{"Queues[0].Share -1"}},
		{"a huge share", worker.Config{Queues: []worker.Queue{{Name: "a", Share: 2_000_000}}}, []string{"Share 2000000"}},
		{"no tenant at all", worker.Config{Tenants: []string{}}, []string{"Tenants is empty", "nil is all"}},
		{"jobs without a tenant only", worker.Config{Tenants: []string{""}}, nil},
		{"a bad tenant", worker.Config{Tenants: []string{"acme", " x"}}, []string{"Tenants[1]", "tenant begins or ends with a space"}},
		{"a tenant twice", worker.Config{Tenants: []string{"a", "", "a"}}, []string{`Tenants names "a" twice`}},
		{"slots for a kind", worker.Config{KindSlots: map[string]int{"task": 1}}, nil},
		{"more slots for a kind than there are", worker.Config{KindSlots: map[string]int{"task": 100}}, nil},
		{"slots for an unknown kind", worker.Config{KindSlots: map[string]int{"task": 1, "tsak": 1}}, []string{`KindSlots has the kind "tsak"`, "no handler"}},
		{"no slots for a kind", worker.Config{KindSlots: map[string]int{"task": 0}}, []string{`KindSlots["task"] 0 is under 1`}},
		{"fewer than none", worker.Config{KindSlots: map[string]int{"task": -2}}, []string{`KindSlots["task"] -2 is under 1`}},
		{"a claim from the lowest priority never", worker.Config{LowestEvery: -1}, nil},
		{"always", worker.Config{LowestEvery: 1}, nil},
		{"a bad name", worker.Config{Name: "a'b"}, []string{"Name", `"a'b"`}},
		{"a long name", worker.Config{Name: strings.Repeat("a", 91)}, []string{"Name has 91 bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := worker.New(memory.New(), handle(noop), c.config)
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("got the error %v, want one that has %q", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got the error %q, want %q in it", err, want)
				}
			}
		})
	}

	t.Run("a worker without handlers is refused", func(t *testing.T) {
		if _, err := worker.New(memory.New(), later.NewHandlers(), worker.Config{}); err == nil {
			t.Error("got no error, want one")
		}
		if _, err := worker.New(memory.New(), nil, worker.Config{}); err == nil {
			t.Error("got no error for nil handlers, want one")
		}
	})

	t.Run("a worker without a store is refused", func(t *testing.T) {
		if _, err := worker.New(nil, handle(noop), worker.Config{}); err == nil {
			t.Error("got no error, want one")
		}
	})

	t.Run("a timeout longer than the lease is fine, for leases are renewed", func(t *testing.T) {
		// Case 65, the other half.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{Timeout: 120 * time.Second})[0]
			r := b.run(handle(func(ctx context.Context, _ *later.Job[task]) error { return obedient(ctx, 100*time.Second) }),
				worker.Config{Lease: 5 * time.Second})
			time.Sleep(110 * time.Second)
			b.wantOutcomes(id, "done")
			r.stopped()
		})
	})
}

func TestName(t *testing.T) {
	t.Run("one name for two workers is two names", func(t *testing.T) {
		// Case 68: a restarted pod has its predecessor's name.
		names := map[string]bool{}
		for range 100 {
			w, err := worker.New(memory.New(), handle(noop), worker.Config{Name: "worker-0"})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(w.Name(), "worker-0-") {
				t.Fatalf("got the name %q, want worker-0 and a nonce", w.Name())
			}
			names[w.Name()] = true
		}
		if len(names) != 100 {
			t.Errorf("got %d names for 100 workers, want 100", len(names))
		}
	})

	t.Run("the default name can be stored everywhere", func(t *testing.T) {
		w, err := worker.New(memory.New(), handle(noop), worker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := later.CheckName("name", w.Name()); err != nil {
			t.Errorf("got %v for %q, want a valid name", err, w.Name())
		}
	})
}

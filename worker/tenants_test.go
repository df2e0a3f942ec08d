package worker_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestTenants(t *testing.T) {
	// ran returns handlers and a function that says of which tenants jobs were run.
	ran := func() (*later.Handlers, func() string) {
		var mu sync.Mutex
		of := map[string]int{}
		h := handle(func(_ context.Context, j *later.Job[task]) error {
			mu.Lock()
			defer mu.Unlock()
			of[j.Tenant]++
			return nil
		})
		return h, func() string {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(of)
		}
	}
	enqueue := func(b *bed, opts later.Options) (ids map[string]int64) {
		ids = map[string]int64{}
		for _, tenant := range []string{"", "acme", "bank", "cafe"} {
			opts.Tenant = tenant
			ids[tenant] = b.tasks(1, opts)[0]
		}
		return ids
	}

	for _, c := range []struct {
		tenants []string
		want    string
	}{
		{nil, "map[:1 acme:1 bank:1 cafe:1]"},
		{[]string{"acme", "cafe"}, "map[acme:1 cafe:1]"},
		{[]string{"bank", ""}, "map[:1 bank:1]"},
		{[]string{"nobody"}, "map[]"},
	} {
		t.Run(fmt.Sprintf("a worker for the tenants %q runs no other's jobs", c.tenants), func(t *testing.T) {
			bubble(t, func(b *bed) {
				enqueue(b, later.Options{})
				h, got := ran()
				r := b.run(h, worker.Config{Tenants: c.tenants})
				b.sleep(time.Minute)
				if said := b.store.called("beat")[0].arg.(later.WorkerInfo).Tenants; !reflect.DeepEqual(said, c.tenants) {
					t.Errorf("got a beat for the tenants %q, want %q", said, c.tenants)
				}
				if got() != c.want {
					t.Errorf("got %s run, want %s", got(), c.want)
				}
				r.stopped()
			})
		})

		t.Run(fmt.Sprintf("nor suspects: %q", c.tenants), func(t *testing.T) {
			bubble(t, func(b *bed) {
				enqueue(b, later.Options{})
				b.loseAll(later.SuspectCrashes)
				h, got := ran()
				r := b.run(h, worker.Config{Tenants: c.tenants, Lease: 4 * time.Second})
				b.sleep(time.Minute)
				if got() != c.want {
					t.Errorf("got %s run, want %s", got(), c.want)
				}
				r.stopped()
			})
		})
	}

	t.Run("it ends what is not to be run, whosever it is", func(t *testing.T) {
		bubble(t, func(b *bed) {
			ids := enqueue(b, later.Options{ExpiresIn: time.Second})
			b.sleep(2 * time.Second)
			h, got := ran()
			r := b.run(h, worker.Config{Tenants: []string{"acme"}, Lease: 4 * time.Second})
			b.sleep(10 * time.Second)
			for _, id := range ids {
				b.wantOutcomes(id, "expired")
			}
			if got() != "map[]" {
				t.Errorf("got %s run, want none", got())
			}
			r.stopped()
		})
	})

	t.Run("a change of the caller's slice changes nothing", func(t *testing.T) {
		bubble(t, func(b *bed) {
			enqueue(b, later.Options{})
			h, got := ran()
			tenants := []string{"acme"}
			w := b.worker(h, worker.Config{Tenants: tenants})
			tenants[0] = "bank"
			if _, err := w.Drain(b.Context()); err != nil {
				b.Fatal(err)
			}
			if got() != "map[acme:1]" {
				t.Errorf("got %s run, want acme's", got())
			}
		})
	})

	t.Run("jobs of others that become due make few claims", func(t *testing.T) {
		// The store says when they are due, whose they are it does not.
		bubble(t, func(b *bed) {
			for i := range 1000 {
				b.enqueue(task{}, later.Options{Tenant: "bank", Delay: 10*time.Second + time.Duration(i)*10*time.Millisecond})
			}
			mine := b.enqueue(task{}, later.Options{Tenant: "acme", Delay: 15 * time.Second})
			var late time.Duration
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				late = time.Since(j.RunAt)
				return nil
			}), worker.Config{Tenants: []string{"acme"}})
			b.sleep(10 * time.Second)
			before := b.store.statements()
			b.sleep(10 * time.Second)
			if n := b.store.statements() - before; n > 10*40+20 {
				t.Errorf("got %d statements in 10 s, want at most 20 claims and as many questions a second", n)
			}
			b.wantOutcomes(mine, "done")
			if late > 100*time.Millisecond {
				t.Errorf("got the own job started %v late, want at most 100 ms", late)
			}
			r.stopped()
		})
	})
}

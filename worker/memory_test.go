package worker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// TestMemory holds the budget of a worker process: 64 MiB with 1,000 running
// jobs, whose handlers look at their contexts, and as many waiting as may. What
// the process has besides (the store's connections, the program) is not in it.
func TestMemory(t *testing.T) {
	const slots = 1000
	store := newEndless(10*slots, 0)
	var running sync.WaitGroup
	running.Add(slots)
	release := make(chan struct{})
	short := int64(5 * slots)
	h := later.NewHandlers()
	later.HandleRaw(h, "task", later.HandlerConfig{}, func(ctx context.Context, j *later.Job[json.RawMessage]) error {
		if j.ID <= short || j.ID > short+slots {
			return nil
		}
		running.Done()
		select {
		case <-ctx.Done():
		case <-release:
		}
		return nil
	})
	w, err := worker.New(store, h, worker.Config{Concurrency: slots, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	before := used()
	go func() { ended <- w.Run(ctx) }()
	running.Wait()
	took := used() - before
	t.Logf("%d KiB for %d running and %d waiting jobs", took>>10, slots, w.Stats().Waiting)
	// A quarter of the budget: the collector lets the heap grow to twice what is
	// in use, and the rest of the process wants some too.
	if took > 16<<20 {
		t.Errorf("got %d KiB in use, want at most 16 MiB", took>>10)
	}
	close(release)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

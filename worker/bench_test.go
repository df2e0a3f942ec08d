//go:build unix

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkNoop measures what a job costs the worker's process that does
// nothing. cpu-ns/op is what counts, since it does not depend on what else the
// machine does.
func BenchmarkNoop(b *testing.B) {
	for _, slots := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			b.ReportAllocs()
			store := newEndless(b.N, 0)
			h := later.NewHandlers()
			later.HandleRaw(h, "task", later.HandlerConfig{}, func(context.Context, *later.Job[json.RawMessage]) error { return nil })
			w, err := worker.New(store, h, worker.Config{Concurrency: slots, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var ended sync.WaitGroup
			runtime.GC()
			b.ResetTimer()
			before := cpu()
			ended.Go(func() { w.Run(ctx) })
			<-store.all
			used := cpu() - before
			b.StopTimer()
			stop()
			ended.Wait()
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)/float64(store.claims.Load()), "jobs/claim")
			b.ReportMetric(float64(b.N)/float64(store.settles.Load()), "jobs/settle")
		})
	}
}

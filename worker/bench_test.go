package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// endless is a store that has as many jobs as were ordered. They cost it next to
// nothing, so that what is measured is the worker.
type endless struct {
	later.Store // nil: what is not here is not called
	left        atomic.Int64
	next        atomic.Int64
	done        atomic.Int64
	all         chan struct{}
	payload     json.RawMessage
	latency     time.Duration

	claims, settles, others atomic.Int64
}

func newEndless(jobs int, latency time.Duration) *endless {
	e := &endless{all: make(chan struct{}), payload: json.RawMessage(`{"n":1}`), latency: latency}
	e.left.Store(int64(jobs))
	e.done.Store(-int64(jobs))
	return e
}

func (e *endless) wait() {
	if e.latency > 0 {
		time.Sleep(e.latency)
	}
}

func (e *endless) CheckSchema(context.Context) error { return nil }

func (e *endless) Claim(_ context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	e.claims.Add(1)
	e.wait()
	n := min(int64(req.Limit), e.left.Load())
	e.left.Add(-n)
	records := make([]later.Claimed, n)
	claimed := make([]*later.Claimed, n)
	for i := range records {
		id := e.next.Add(1)
		records[i] = later.Claimed{
			Record: later.Record{ID: id, Queue: req.Queues[0].Queue, Kind: "task", Payload: e.payload, Attempt: 1, MaxAttempts: 3, Timeout: time.Minute},
			Lease:  later.Lease{ID: id, Token: req.Token},
		}
		claimed[i] = &records[i]
	}
	return claimed, nil
}

func (e *endless) Settle(_ context.Context, s []later.Settlement) ([]later.Lease, error) {
	e.settles.Add(1)
	e.wait()
	if e.done.Add(int64(len(s))) == 0 {
		close(e.all)
	}
	return nil, nil
}

func (e *endless) NextDue(context.Context, []string, []string) (time.Duration, bool, error) {
	e.others.Add(1)
	return 0, false, nil
}

func (e *endless) Sweep(context.Context, later.SweepRequest) ([]*later.Claimed, error) {
	e.others.Add(1)
	return nil, nil
}

func (e *endless) Renew(context.Context, []later.Lease, time.Duration) (later.Renewed, error) {
	e.others.Add(1)
	return later.Renewed{}, nil
}

func (e *endless) CancelRequests(context.Context, []later.Lease) ([]later.Lease, error) {
	e.others.Add(1)
	return nil, nil
}

func (e *endless) Checkpoint(context.Context, later.Lease, json.RawMessage) error { return nil }
func (e *endless) Beat(context.Context, later.WorkerInfo) error                   { return nil }
func (e *endless) Leave(context.Context, string) error                            { return nil }
func (e *endless) Maintain(context.Context) error                                 { return nil }

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

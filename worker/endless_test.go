package worker_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/later-queue/later"
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

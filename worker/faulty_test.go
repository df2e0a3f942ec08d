package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
)

// faulty is a memory store whose operations fail when the test says so, and
// that remembers what it was asked.
type faulty struct {
	*memory.Store
	unheard

	mu     sync.Mutex
	before func(op string, arg any) error // the operation does not happen
	after  func(op string, arg any) error // it happens, and its answer is lost
	hang   func(ctx context.Context, op string, arg any) error
	alter  func(c *later.Claimed) // what a claim returns
	calls  []storeCall
}

// unheard hides the memory store's Watch: these tests are about what a worker
// does that hears nothing. Two embedded methods of one name are none.
type unheard struct{}

func (unheard) Watch() {}

var _ = unheard.Watch // it is not called

type storeCall struct {
	op  string
	at  time.Time
	arg any // the request, settlements or leases
	err error
	got int // how many jobs
}

func newFaulty() *faulty { return &faulty{Store: memory.New(), unheard: unheard{}} }

// failing makes every one of ops fail with err until it is called again; without
// ops everything works.
func (f *faulty) failing(err error, ops ...string) {
	f.set(func(op string, _ any) error {
		for _, o := range ops {
			if o == op {
				return err
			}
		}
		return nil
	}, nil)
}

func (f *faulty) set(before, after func(op string, arg any) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

// hanging calls hang before each operation.
func (f *faulty) hanging(hang func(ctx context.Context, op string, arg any) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hang = hang
}

func (f *faulty) called(op string) []storeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	var calls []storeCall
	for _, c := range f.calls {
		if c.op == op {
			calls = append(calls, c)
		}
	}
	return calls
}

// do runs one operation with the faults that are set.
func (f *faulty) do(ctx context.Context, op string, arg any, operation func() (int, error)) error {
	at := time.Now()
	f.mu.Lock()
	before, after, hang := f.before, f.after, f.hang
	f.mu.Unlock()
	var err error
	got := 0
	if hang != nil {
		err = hang(ctx, op, arg)
	}
	if err == nil && before != nil {
		err = before(op, arg)
	}
	if err == nil {
		got, err = operation()
		if err == nil && after != nil {
			err = after(op, arg)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, storeCall{op, at, arg, err, got})
	return err
}

func (f *faulty) CheckSchema(ctx context.Context) error {
	return f.do(ctx, "check", nil, func() (int, error) { return 0, f.Store.CheckSchema(ctx) })
}

func (f *faulty) Claim(ctx context.Context, req later.ClaimRequest) (jobs []*later.Claimed, err error) {
	err = f.do(ctx, "claim", req, func() (int, error) {
		jobs, err = f.Store.Claim(ctx, req)
		for _, c := range jobs {
			if f.alter != nil {
				f.alter(c)
			}
		}
		return len(jobs), err
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

func (f *faulty) NextDue(ctx context.Context, queues, kinds []string) (in time.Duration, ok bool, err error) {
	err = f.do(ctx, "next due", nil, func() (int, error) {
		in, ok, err = f.Store.NextDue(ctx, queues, kinds)
		return 0, err
	})
	return in, ok, err
}

func (f *faulty) Sweep(ctx context.Context, req later.SweepRequest) (jobs []*later.Claimed, err error) {
	err = f.do(ctx, "sweep", req, func() (int, error) {
		jobs, err = f.Store.Sweep(ctx, req)
		return len(jobs), err
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

func (f *faulty) Settle(ctx context.Context, s []later.Settlement) (refused []later.Lease, err error) {
	ids := map[int64]bool{}
	for _, one := range s {
		if ids[one.Lease.ID] {
			panic(fmt.Sprintf("settle names job %d twice", one.Lease.ID))
		}
		ids[one.Lease.ID] = true
	}
	err = f.do(ctx, "settle", s, func() (int, error) {
		refused, err = f.Store.Settle(ctx, s)
		return len(s) - len(refused), err
	})
	if err != nil {
		return nil, err
	}
	return refused, nil
}

func (f *faulty) Renew(ctx context.Context, leases []later.Lease, d time.Duration) (renewed later.Renewed, err error) {
	err = f.do(ctx, "renew", leases, func() (int, error) {
		renewed, err = f.Store.Renew(ctx, leases, d)
		return len(leases), err
	})
	if err != nil {
		return later.Renewed{}, err
	}
	return renewed, nil
}

func (f *faulty) CancelRequests(ctx context.Context, leases []later.Lease) (wanted []later.Lease, err error) {
	err = f.do(ctx, "cancel requests", leases, func() (int, error) {
		wanted, err = f.Store.CancelRequests(ctx, leases)
		return len(wanted), err
	})
	return wanted, err
}

func (f *faulty) Beat(ctx context.Context, w later.WorkerInfo) error {
	return f.do(ctx, "beat", w, func() (int, error) { return 0, f.Store.Beat(ctx, w) })
}

func (f *faulty) Leave(ctx context.Context, worker string) error {
	return f.do(ctx, "leave", worker, func() (int, error) { return 0, f.Store.Leave(ctx, worker) })
}

func (f *faulty) Maintain(ctx context.Context) error {
	return f.do(ctx, "maintain", nil, func() (int, error) { return 0, f.Store.Maintain(ctx) })
}

// settleInTx does what a store's DoneTx and the commit of its transaction do.
func (f *faulty) settleInTx(t *testing.T, job interface {
	HeldLease() later.Lease
	MarkSettled()
}) {
	t.Helper()
	refused, err := f.Store.Settle(context.Background(), []later.Settlement{{Lease: job.HeldLease(), Outcome: later.OutcomeDone}})
	if err != nil || len(refused) > 0 {
		t.Errorf("got refused %v and the error %v from the handler's transaction, want neither", refused, err)
	}
	job.MarkSettled()
}

// task is the payload of these tests' jobs.
type task struct {
	N int `json:"n"`
}

func (task) Kind() string { return "task" }

func raw(kind, payload string) later.RawArgs {
	return later.RawArgs{JobKind: kind, Payload: json.RawMessage(payload)}
}

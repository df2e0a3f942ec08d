package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"time"

	"github.com/later-queue/later"
)

// The kinds of jobs, and how many of a hundred are of each. Those that hurt
// are rare enough for a run to end.
var mix = []struct {
	kind  string
	share int
}{
	{"plain", 50},      // done at the first try
	{"tx", 25},         // its effect shares the transaction of its end
	{"flaky", 10},      // fails at random
	{"snooze", 5},      // puts itself off twice
	{"slow", 1},        // runs for longer than a lease
	{"panic", 3},       // panics at its first attempt
	{"permanent", 2},   // dead at once
	{"undecodable", 1}, // dead, out of attempts
	{"timeout", 1},     // ignores its timeout for a while
	{"once", 1},        // max attempts 1
	{"failing", 1},     // fails until it is dead
}

// killer is enqueued apart, in small numbers: it ends its process.
const killer = "killer"

type payload struct {
	N int64 `json:"n"`
}

// kindOf chooses the kind of job n.
func kindOf(seed, n int64) string {
	at := int(chance(seed, n, 0) * 100)
	for _, m := range mix {
		if at -= m.share; at < 0 {
			return m.kind
		}
	}
	return mix[0].kind
}

// request is job n.
func request(seed, n int64) later.Request {
	kind := kindOf(seed, n)
	if n%20_000 == 10_000 {
		kind = killer
	}
	data := fmt.Sprintf(`{"n":%d}`, n)
	opts := later.Options{
		Queue:    []string{"default", "bulk"}[n%2],
		Priority: int16(chance(seed, n, 1) * 3),
		Tenant:   fmt.Sprintf("tenant-%d", n%17),
		Timeout:  30 * time.Second,
	}
	switch kind {
	case "undecodable":
		data = fmt.Sprintf(`{"n":"%d"}`, n)
	case "timeout":
		opts.Timeout = 200 * time.Millisecond
	case "once":
		opts.MaxAttempts = 1
	case "flaky":
		opts.MaxAttempts = 20
	}
	if chance(seed, n, 2) < 0.05 {
		opts.Delay = time.Duration(chance(seed, n, 3) * float64(3*time.Second))
	}
	return later.Request{Args: later.RawArgs{JobKind: kind, Payload: json.RawMessage(data)}, Options: opts}
}

// chance is a number in [0, 1) that follows from its arguments alone.
func chance(values ...int64) float64 {
	h := fnv.New64a()
	for _, v := range values {
		fmt.Fprintf(h, "%d.", v)
	}
	return rand.New(rand.NewPCG(h.Sum64(), 1)).Float64()
}

// work is what a worker process knows.
type work struct {
	seed  int64
	lease time.Duration
	eng   *engine
	log   *recorder
}

// backoff is short, so that a run with thousands of failures ends.
var backoff = later.Backoff{Base: 50 * time.Millisecond, Factor: 1.5, Cap: time.Second}

func (w *work) handlers() *later.Handlers {
	handlers := later.NewHandlers()
	for kind, fn := range map[string]func(context.Context, *later.Job[payload]) error{
		"plain": w.effect, "once": w.effect, "undecodable": w.effect,
		"tx": w.inTx, "flaky": w.flaky, "snooze": w.snooze, "slow": w.slow, "panic": w.panics,
		"permanent": w.permanent, "timeout": w.timeout, "failing": w.failing, killer: w.kill,
	} {
		later.HandleRaw(handlers, kind, later.HandlerConfig{Backoff: backoff},
			func(ctx context.Context, raw *later.Job[json.RawMessage]) error {
				job := &later.Job[payload]{Claimed: raw.Claimed}
				if err := json.Unmarshal(raw.Payload, &job.Payload); err != nil {
					return fmt.Errorf("%w: %w", later.ErrPayload, err)
				}
				w.log.add(event{kind: evBegin, sent: now(), id: job.ID, token: job.Lease.Token, number: job.Payload.N})
				return fn(ctx, job)
			})
	}
	return handlers
}

func (w *work) effect(_ context.Context, job *later.Job[payload]) error {
	w.log.add(event{kind: evEffect, sent: now(), id: job.ID, token: job.Lease.Token, number: job.Payload.N})
	return nil
}

func (w *work) inTx(ctx context.Context, job *later.Job[payload]) error {
	err := w.eng.effectAndDone(ctx, job, job.Payload.N, w.log)
	// Some report a failure although the transaction was committed: the job is
	// done all the same.
	if err == nil && chance(w.seed, job.Payload.N, 8) < 0.05 {
		return errors.New("failed after the commit")
	}
	return err
}

func (w *work) flaky(ctx context.Context, job *later.Job[payload]) error {
	if chance(w.seed, job.Payload.N, int64(job.Attempt), 7) < 0.5 {
		return errors.New("flaky\x00 caf\xe9")
	}
	return w.effect(ctx, job)
}

func (w *work) snooze(ctx context.Context, job *later.Job[payload]) error {
	var naps int
	if job.Checkpoint != nil {
		if err := json.Unmarshal(job.Checkpoint, &naps); err != nil {
			return err
		}
	}
	if naps == 2 {
		return w.effect(ctx, job)
	}
	if err := job.SaveCheckpoint(ctx, naps+1); err != nil {
		return err
	}
	return later.Snooze(100 * time.Millisecond)
}

func (w *work) slow(ctx context.Context, job *later.Job[payload]) error {
	select {
	case <-time.After(w.lease + w.lease/4):
		return w.effect(ctx, job)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *work) panics(ctx context.Context, job *later.Job[payload]) error {
	if job.Attempt == 1 {
		panic("first attempt")
	}
	return w.effect(ctx, job)
}

func (w *work) permanent(context.Context, *later.Job[payload]) error {
	return later.Permanent(errors.New("no such address"))
}

func (w *work) failing(context.Context, *later.Job[payload]) error {
	return later.RetryAfter(errors.New("always fails"), 20*time.Millisecond)
}

// timeout outlives its timeout at the first attempt, and ends within the grace.
func (w *work) timeout(ctx context.Context, job *later.Job[payload]) error {
	if job.Attempt == 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	return w.effect(ctx, job)
}

// kill ends its process; it is not caught and not logged, like a segmentation
// fault in a C library.
func (w *work) kill(context.Context, *later.Job[payload]) error {
	os.Exit(42)
	return nil
}

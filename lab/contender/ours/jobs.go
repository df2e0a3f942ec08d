package ours

import (
	"context"
	"log/slog"
	"os"

	"github.com/later-queue/later"
	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/worker"
)

// batch is how many jobs one EnqueueMany gets. Chosen: as many as River's own
// benchmark gives to its InsertMany.
const batch = 5_000

// noop is the payload of the lab's jobs.
type noop contender.Payload

// Kind implements later.Args.
func (noop) Kind() string { return "lab.noop" }

// jobs is what does not depend on the store.
type jobs struct {
	env    contender.Env
	worker worker.Config
	queue  queue
}

// queue is a store with its own methods to enqueue, as an application uses it.
type queue interface {
	later.Store
	Enqueue(ctx context.Context, args later.Args, opts later.Options) (later.Enqueued, error)
	EnqueueMany(ctx context.Context, requests []later.Request) ([]later.Enqueued, error)
}

func newJobs(env contender.Env, cfg worker.Config) jobs {
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return jobs{env: env, worker: cfg}
}

// request is the job with this number.
func (j *jobs) request(seq int64) later.Request {
	return later.Request{Args: noop(j.env.Job(seq)), Options: later.Options{Tenant: j.env.Tenant}}
}

func (j *jobs) Enqueue(ctx context.Context, from, n int64) error {
	for end := from + n; from < end; {
		requests := make([]later.Request, min(batch, end-from))
		for i := range requests {
			requests[i] = j.request(from)
			from++
		}
		if _, err := j.queue.EnqueueMany(ctx, requests); err != nil {
			return err
		}
	}
	return nil
}

func (j *jobs) EnqueueOne(ctx context.Context, seq int64) error {
	request := j.request(seq)
	_, err := j.queue.Enqueue(ctx, request.Args, request.Options)
	return err
}

func (j *jobs) Work(ctx context.Context, ready func(), handle func(contender.Payload)) error {
	handlers := later.NewHandlers()
	later.Handle(handlers, func(_ context.Context, job *later.Job[noop]) error {
		handle(contender.Payload(job.Payload))
		return nil
	})
	w, err := worker.New(j.queue, handlers, j.worker)
	if err != nil {
		return err
	}
	ready()
	return w.Run(ctx)
}

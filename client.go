package later

import (
	"context"
	"fmt"
)

// Inserter stores new jobs: every [Store] is one.
type Inserter interface {
	// Insert stores all jobs or none, in the order given, and returns what became of
	// each. It returns after they are durable. What may have been stored is never
	// tried again by itself: after [ErrUnavailable] the jobs may have been stored.
	//
	// A job with a [Unique] whose key is held is not stored, and the holder is changed
	// as its OnConflict says. Such jobs may be stored after the others and in the order
	// of their keys, so that two calls with the same keys do not block each other; of
	// one key the order given counts.
	Insert(ctx context.Context, jobs []NewJob) ([]Enqueued, error)
}

// Enqueued is what became of a request. Only one with [Options.Unique] can have an
// Outcome other than [Inserted].
type Enqueued struct {
	// ID is the new job or, when another one holds the key, that one.
	ID      int64
	Outcome EnqueueOutcome
	// Holder is the state in which the request found the holder of its key; "" when
	// there was none. [StateEnded] is a job of a window that has left the table.
	Holder State
}

// Client enqueues jobs. It runs nothing, holds no connection of its own, and
// needs no handlers. It is safe for concurrent use. The stores have its methods
// themselves; a Client of one's own is needed only around another [Inserter].
type Client struct {
	store Inserter
}

// NewClient returns a client that inserts into store.
func NewClient(store Inserter) *Client { return &Client{store: store} }

// Enqueue stores one job; when it returns without an error, the job is durable
// and will be run. To enqueue a job together with other changes, in one
// transaction, use the store's EnqueueTx. After an error that matches
// [ErrUnavailable] the job may have been stored or not: enqueueing it again may
// run it twice.
//
// Calls that are made at the same time may share a statement and a commit, so many
// goroutines with a job each are nearly as quick as one EnqueueMany. Each call still
// succeeds, fails, and is cancelled by itself.
func (c *Client) Enqueue(ctx context.Context, args Args, opts Options) (Enqueued, error) {
	done, err := c.EnqueueMany(ctx, []Request{{Args: args, Options: opts}})
	if err != nil {
		return Enqueued{}, err
	}
	return done[0], nil
}

// EnqueueMany stores all jobs or none, and returns their ids in the order of
// the requests. Without requests it does nothing. Of several requests with one key
// ([Unique]) the later ones meet the first.
func (c *Client) EnqueueMany(ctx context.Context, requests []Request) ([]Enqueued, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	jobs, err := BuildMany(requests)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	done, err := c.store.Insert(ctx, jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	if len(done) != len(jobs) {
		return nil, fmt.Errorf("enqueue: the store answered with %d ids for %d jobs; they may have been stored", len(done), len(jobs))
	}
	return done, nil
}

// BuildMany is [Build] for several requests; its error says which one is wrong.
func BuildMany(requests []Request) ([]NewJob, error) {
	jobs := make([]NewJob, len(requests))
	for i, r := range requests {
		job, err := Build(r.Args, r.Options)
		if err != nil && len(requests) > 1 {
			return nil, fmt.Errorf("job %d of %d: %w", i+1, len(requests), err)
		}
		if err != nil {
			return nil, err
		}
		jobs[i] = job
	}
	return jobs, nil
}

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// producer enqueues the jobs of a run and remembers what it was told of each.
type producer struct {
	run *run

	mu      sync.Mutex
	acked   map[int64]int64
	ids     []int64
	unsure  map[int64]bool
	inTx    map[int64]bool
	revived map[int64]int
}

func newProducer(r *run) *producer {
	return &producer{run: r, acked: map[int64]int64{}, unsure: map[int64]bool{}, inTx: map[int64]bool{},
		revived: map[int64]int{}}
}

// batch is how many jobs share one statement.
const batch = 100

// enqueueAll spreads the jobs over the given time, at least as fast as that
// needs, while the database comes and goes.
func (p *producer) enqueueAll(ctx context.Context, store later.Store, over time.Duration) error {
	client := later.NewClient(store)
	batches := (p.run.cfg.jobs + batch - 1) / batch
	tick := time.NewTicker(max(over/time.Duration(batches), time.Millisecond))
	defer tick.Stop()
	for first := int64(0); first < int64(p.run.cfg.jobs); first += batch {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		var requests []later.Request
		for n := first; n < min(first+batch, int64(p.run.cfg.jobs)); n++ {
			requests = append(requests, request(p.run.cfg.seed, n))
		}
		done, err := client.EnqueueMany(ctx, requests)
		if err != nil && !later.IsTransient(err) {
			return err
		}
		p.remember(first, requests, done, err)
	}
	return nil
}

func (p *producer) remember(first int64, requests []later.Request, done []later.Enqueued, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range requests {
		n := first + int64(i)
		if r.Args.Kind() == "tx" {
			p.inTx[n] = true
		}
		if err != nil {
			p.unsure[n] = true
			continue
		}
		p.acked[done[i].ID] = n
		p.ids = append(p.ids, done[i].ID)
	}
}

// operate cancels and retries jobs at random beside the running workers, as an
// operator with a nervous finger would.
func (p *producer) operate(ctx context.Context, store later.Store) {
	random := p.run.random(2)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		if len(p.ids) == 0 {
			p.mu.Unlock()
			continue
		}
		// Mostly among the newest, which are still there.
		back := min(len(p.ids), 2_000)
		id := p.ids[len(p.ids)-1-random.IntN(back)]
		p.mu.Unlock()
		if random.IntN(2) == 0 {
			_, _ = store.Cancel(ctx, id) // refusals and outages are part of it
			continue
		}
		p.retry(ctx, store, id)
	}
}

func (p *producer) retry(ctx context.Context, store later.Store, id int64) {
	err := store.Retry(ctx, id)
	if errors.Is(err, later.ErrNotFound) || errors.Is(err, later.ErrRunning) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revived[id]++ // if it was dead; and perhaps, if the database went away
}

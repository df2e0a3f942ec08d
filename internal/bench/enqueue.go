package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/later-queue/later"
)

// bulk enqueues the jobs of a drain from one caller, many in each call. measured
// says whether that is a phase.
func (b *bench) bulk(ctx context.Context, measured bool) error {
	b.left = true
	enqueue := func(s Step) (took time.Duration, err error) {
		s.Total = int64(b.cfg.Jobs)
		return b.enqueueAll(ctx, b.cfg.Jobs, b.cfg.Batch, b.work.request, s)
	}
	if !measured {
		_, err := enqueue(Step{Name: "enqueueing for " + string(DrainHeld)})
		return err
	}
	err := b.measure(ctx, Bulk, func(r *Result) error {
		took, err := enqueue(Step{Name: "bulk", Phase: Bulk})
		r.Jobs, r.DurationMS = int64(b.cfg.Jobs), ms(took)
		return err
	})
	if err != nil {
		return fmt.Errorf("bulk: %w", err)
	}
	return nil
}

// fillBatch is the number of jobs in each call that fills the table. Chosen: the
// most that goes into one statement on Postgres.
const fillBatch = 10_000

// fill enqueues the jobs that wait beside those of the phases.
func (b *bench) fill(ctx context.Context) error {
	for _, part := range []struct {
		what  string
		jobs  int
		make  func(seq int) later.Request
		count *int64
	}{
		{"ready", b.cfg.Backlog, b.work.waiting, &b.report.Waiting.Ready},
		{"scheduled", b.cfg.Scheduled, b.work.scheduled, &b.report.Waiting.Scheduled},
	} {
		if part.jobs == 0 {
			continue
		}
		s := Step{Name: "enqueueing " + part.what + " jobs", Total: int64(part.jobs)}
		batch := min(fillBatch, max(1, maxCallBytes/b.cfg.Payload))
		if _, err := b.enqueueAll(ctx, part.jobs, batch, part.make, s); err != nil {
			return fmt.Errorf("enqueue %s jobs: %w", part.what, err)
		}
		*part.count = int64(part.jobs)
	}
	return nil
}

// maxCallBytes bounds one call by its payloads. Chosen, for the sake of memory.
const maxCallBytes = 16 << 20

func (b *bench) enqueueAll(ctx context.Context, jobs, batch int, request func(seq int) later.Request, s Step) (took time.Duration, err error) {
	store, err := b.place.store(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	meter := meter{b: b, step: s}
	begin := time.Now()
	requests := make([]later.Request, 0, batch)
	for seq := 0; seq < jobs; {
		requests = requests[:0]
		for ; seq < jobs && len(requests) < batch; seq++ {
			requests = append(requests, request(seq))
		}
		meter.at(int64(seq - len(requests)))
		if _, err := store.EnqueueMany(ctx, requests); err != nil {
			return 0, err
		}
	}
	took = time.Since(begin)
	meter.at(int64(jobs))
	return took, nil
}

// singles enqueues one job in each call, from many callers at once, for a time.
func (b *bench) singles(ctx context.Context) error {
	b.left = true
	return b.measure(ctx, Singles, func(r *Result) (err error) {
		store, err := b.place.store(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var next, done atomic.Int64
		var callers sync.WaitGroup
		calls := make([][]int64, b.cfg.Callers)
		begin := time.Now()
		end := begin.Add(b.cfg.For)
		for c := range calls {
			callers.Go(func() {
				for from := time.Now(); from.Before(end) && ctx.Err() == nil; {
					job := b.work.request(int(next.Add(1) - 1))
					if _, err := store.Enqueue(ctx, job.Args, job.Options); err != nil {
						cancel(err)
						return
					}
					now := time.Now()
					calls[c] = append(calls[c], int64(now.Sub(from)))
					from = now
					done.Add(1)
				}
			})
		}
		b.tick(&callers, Step{Name: "singles", Phase: Singles}, &done)
		r.DurationMS = ms(time.Since(begin))
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var all []int64
		for _, c := range calls {
			all = append(all, c...)
		}
		r.Jobs, r.Call = int64(len(all)), latencyOf(all)
		return nil
	})
}

// tick tells the progress until the goroutines have ended.
func (b *bench) tick(running *sync.WaitGroup, s Step, done *atomic.Int64) {
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	meter := meter{b: b, step: s}
	ticks := time.NewTicker(progressEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			meter.at(done.Load())
		case <-ended:
			return
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

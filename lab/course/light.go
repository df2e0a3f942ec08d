package course

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/data"
)

// lightAfterwards is how long workers go on after the last of the light tenant's jobs. Chosen:
// above the poll intervals of those that take part.
const lightAfterwards = 2 * time.Second

// Light enqueues a light tenant's jobs at a rate while the workers are busy with FillJobs jobs
// that a heavy tenant has enqueued before, or with nothing where that is 0, and takes the time
// from each enqueue's answer to the start of its handler. The light tenant's first job comes
// when the workers have run for Lead. Rate and the costs are those of all jobs together.
func Light(ctx context.Context, t *Track, r *data.Round) error {
	if err := t.setup(ctx); err != nil {
		return err
	}
	if r.Backlog = t.FillJobs; r.Backlog > 0 {
		t.Launcher.Env.Tenant = contender.Heavy
		if err := t.enqueue(ctx, r.Backlog, r); err != nil {
			return err
		}
		if err := t.Server.Tidy(ctx, t.Launcher.Env.URL); err != nil {
			return err
		}
	}
	t.Launcher.Env.Tenant = contender.Light
	files := files{t.Launcher.Env.Dir, t.Launcher.Env.Processes}
	before, err := t.read(ctx)
	if err != nil {
		return err
	}
	crew, err := t.Launcher.StartCrew(ctx, "work", files.started)
	if err != nil {
		return err
	}
	start := crew.ReadyAt()
	// Nothing ends this but the deadline, or a worker that ends by itself.
	_, err = crew.Wait(ctx, math.MaxInt64, start.Add(t.Lead))
	enqueued := int64(0)
	if err == nil {
		enqueued, _, err = t.produce(ctx, files.acked())
	}
	if err == nil {
		// Without a heavy tenant it is known when all are done.
		_, err = crew.Wait(ctx, r.Backlog+enqueued, time.Now().Add(lightAfterwards))
	}
	end := time.Now()
	r.Jobs, _ = crew.Progress()
	if err := errors.Join(err, crew.Stop()); err != nil {
		return err
	}
	if r.Backlog > 0 && r.Jobs >= r.Backlog {
		return fmt.Errorf("the backlog of %d jobs was over before the race was", r.Backlog)
	}
	after, err := t.read(ctx)
	if err != nil {
		return err
	}
	r.Seconds = end.Sub(start).Seconds()
	r.Rate = float64(r.Jobs) / r.Seconds
	handled, _ := crew.Progress() // those that ended while the workers stopped cost too
	charge(r, after.Since(before), handled)
	r.ClientCPU = per(micros(crew.CPU()), handled)
	r.MaxMemoryBytes = crew.Memory()
	j, err := files.join(end)
	if err != nil {
		return err
	}
	r.Missing = j.missing
	summarize(r, j.latencies)
	return nil
}

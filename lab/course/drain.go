package course

import (
	"context"
	"errors"
	"time"

	"github.com/later-queue/later/lab/data"
)

// Drain enqueues the jobs, then starts the workers and takes the time from the moment
// at which the first of them looks for jobs to the end of the last job's handler, or
// to the limit. The server's use is counted until the workers have stopped in good
// order, so what they have yet to record is in it.
func Drain(ctx context.Context, t *Track, r *data.Round) error {
	if err := t.setup(ctx); err != nil {
		return err
	}
	if err := t.enqueue(ctx, t.Jobs, r); err != nil {
		return err
	}
	if err := t.Server.Tidy(ctx, t.Launcher.Env.URL); err != nil {
		return err
	}
	r.Backlog = t.Jobs
	before, err := t.read(ctx)
	if err != nil {
		return err
	}
	crew, err := t.Launcher.StartCrew(ctx, "drain", noArgs)
	if err != nil {
		return err
	}
	start := crew.ReadyAt()
	all, err := crew.Wait(ctx, t.Jobs, start.Add(t.Limit))
	done, at := crew.Progress()
	if !all {
		at = time.Now()
	}
	if err := errors.Join(err, crew.Stop()); err != nil {
		return err
	}
	after, err := t.read(ctx)
	if err != nil {
		return err
	}
	r.Cut = !all
	r.Jobs, r.Seconds = done, at.Sub(start).Seconds()
	if r.Seconds > 0 {
		r.Rate = float64(done) / r.Seconds
	}
	// What was done between the last report and the stop costs too.
	handled, _ := crew.Progress()
	charge(r, after.Since(before), handled)
	r.ClientCPU = per(micros(crew.CPU()), handled)
	r.MaxMemoryBytes = crew.Memory()
	return t.remaining(ctx, t.Jobs, handled, r)
}

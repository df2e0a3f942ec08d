package course

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/drive"
	"github.com/later-queue/later/lab/server"
)

// Budget measures what a job costs the server in a state of the tables: the table is
// filled with FillJobs of the kind Fill, Warm+Jobs ordinary jobs are enqueued (unless
// those of Fill are due themselves), and the cost is that of Jobs jobs after Warm
// others were done by the same workers. With Hold a transaction holds the snapshot of
// the start, so Warm jobs have been done under it.
func Budget(ctx context.Context, t *Track, r *data.Round) (err error) {
	if err := t.setup(ctx); err != nil {
		return err
	}
	if t.Hold {
		release, err := server.Hold(ctx, t.Launcher.Env.URL)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	if t.Fill != "" {
		if _, err := t.Launcher.Call(ctx, "fill", t.Fill, fmt.Sprint(t.FillJobs)); err != nil {
			return err
		}
	}
	if t.Fill == "" || t.Fill == "scheduled" {
		if err := t.enqueue(ctx, t.Warm+t.Jobs, r); err != nil {
			return err
		}
	}
	if err := t.Server.Tidy(ctx, t.Launcher.Env.URL); err != nil {
		return err
	}
	r.Backlog = max(t.FillJobs, t.Warm+t.Jobs)

	crew, err := t.Launcher.StartCrew(ctx, "drain", noArgs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.Stop()) }()
	// Some are done before the first figure is read, so that a start is not in it.
	if err := t.reach(ctx, crew, max(t.Warm, 1)); err != nil {
		return err
	}
	before, err := t.read(ctx)
	if err != nil {
		return err
	}
	from, fromAt := crew.Progress()
	if err := t.reach(ctx, crew, t.Warm+t.Jobs*9/10); err != nil {
		return err
	}
	after, err := t.read(ctx)
	if err != nil {
		return err
	}
	to, toAt := crew.Progress()
	r.Jobs, r.Seconds = to-from, toAt.Sub(fromAt).Seconds()
	if r.Seconds > 0 {
		r.Rate = float64(r.Jobs) / r.Seconds
	}
	used := after.Since(before)
	r.ServerCPU = per(micros(used.CPU), r.Jobs)
	r.WALBytes = per(float64(used.WAL), r.Jobs)
	return nil
}

// Memory measures the memory of a worker while its slots are full: the handlers take
// their time, and three times as many jobs as there are slots wait.
func Memory(ctx context.Context, t *Track, r *data.Round) error {
	if err := t.setup(ctx); err != nil {
		return err
	}
	if err := t.enqueue(ctx, t.Jobs, r); err != nil {
		return err
	}
	crew, err := t.Launcher.StartCrew(ctx, "drain", noArgs)
	if err != nil {
		return err
	}
	err = t.reach(ctx, crew, t.Jobs)
	if err := errors.Join(err, crew.Stop()); err != nil {
		return err
	}
	r.Jobs, _ = crew.Progress()
	r.MaxMemoryBytes = crew.Memory()
	return nil
}

// reach waits until n jobs have been done, and fails at the limit.
func (t *Track) reach(ctx context.Context, crew *drive.Crew, n int64) error {
	ok, err := crew.Wait(ctx, n, time.Now().Add(t.Limit))
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%d jobs were not done within %v", n, t.Limit)
	}
	return nil
}

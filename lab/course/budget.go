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
// filled with FillJobs of the kind Fill, and Warm+Jobs ordinary jobs are enqueued, unless
// those of Fill are due themselves. The cost is that of the jobs after the first Warm
// ones, by the same workers, until they have stopped in good order. With Hold a
// transaction holds the snapshot of the start, so Warm jobs have been done under it. With
// Soak other workers have worked for so long before, and what they did is filled up again.
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
	if err := t.fill(ctx, r); err != nil {
		return err
	}
	if t.Soak > 0 {
		if err := t.soak(ctx); err != nil {
			return err
		}
	}
	if err := t.Server.Tidy(ctx, t.Launcher.Env.URL); err != nil {
		return err
	}
	before, err := t.read(ctx)
	if err != nil {
		return err
	}
	crew, err := t.Launcher.StartCrew(ctx, "drain", noArgs)
	if err != nil {
		return err
	}
	from, fromAt := int64(0), crew.ReadyAt()
	if t.Warm > 0 {
		err = t.reach(ctx, crew, t.Warm)
		if err == nil {
			before, err = t.peek(ctx)
		}
		from, fromAt = crew.Progress()
	}
	if err == nil {
		err = t.reach(ctx, crew, t.Warm+t.Jobs)
	}
	to, toAt := crew.Progress()
	if err := errors.Join(err, crew.Stop()); err != nil {
		return err
	}
	after, err := t.read(ctx)
	if err != nil {
		return err
	}
	if r.Seconds = toAt.Sub(fromAt).Seconds(); r.Seconds > 0 {
		r.Rate = float64(to-from) / r.Seconds
	}
	handled, _ := crew.Progress() // those that ended while the workers stopped cost too
	r.Jobs = handled - from
	charge(r, after.Since(before), r.Jobs)
	if t.Warm > 0 {
		// What was counted while connections were open is up to a second old.
		r.Commits, r.TuplesInserted, r.TuplesUpdated, r.TuplesDeleted = 0, 0, 0, 0
	}
	r.MaxMemoryBytes = crew.Memory()
	return nil
}

// fill brings the tables into the state that is asked for.
func (t *Track) fill(ctx context.Context, r *data.Round) error {
	r.Backlog = t.Warm + t.Jobs
	if t.Fill != "" {
		if _, err := t.Launcher.Call(ctx, "fill", t.Fill, fmt.Sprint(t.FillJobs)); err != nil {
			return err
		}
		r.Backlog = max(r.Backlog, t.FillJobs)
	}
	if t.Fill == "" || t.Fill == "scheduled" {
		return t.enqueue(ctx, t.Warm+t.Jobs, r)
	}
	return nil
}

// soakHandler is how long a handler takes on average while workers soak. Chosen: with 1,000 slots that
// is 1,667 jobs a second, so that a million of them last for ten minutes.
const soakHandler = 600 * time.Millisecond

// soak has workers work on what has been filled as they do on an ordinary day, with handlers
// that take their time, and fills up what they have done. Then they leave.
func (t *Track) soak(ctx context.Context) error {
	calm := *t.Launcher
	calm.Handler = soakHandler
	crew, err := calm.StartCrew(ctx, "drain", noArgs)
	if err != nil {
		return err
	}
	_, err = crew.Wait(ctx, t.FillJobs, time.Now().Add(t.Soak))
	if err := errors.Join(err, crew.Stop()); err != nil {
		return err
	}
	done, _ := crew.Progress()
	if done == 0 {
		return fmt.Errorf("nothing was done in %v", t.Soak)
	}
	_, err = t.Launcher.Call(ctx, "fill", t.Fill, fmt.Sprint(done))
	return err
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

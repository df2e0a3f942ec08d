package course

import (
	"context"
	"errors"
	"time"

	"github.com/later-queue/later/lab/data"
)

// idleFor is how long an idle worker is watched. Chosen: its start is then a small part
// of what is counted, and it is counted with the rest.
const idleFor = time.Minute

// Idle counts what a worker asks of the server when there is nothing to do.
func Idle(ctx context.Context, t *Track, r *data.Round) error {
	if err := t.setup(ctx); err != nil {
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
	start := time.Now()
	// It has nothing to do, so the deadline ends this.
	_, err = crew.Wait(ctx, 1, start.Add(t.idleFor()))
	r.Seconds = time.Since(start).Seconds()
	if err := errors.Join(err, crew.Stop()); err != nil {
		return err
	}
	after, err := t.read(ctx)
	if err != nil {
		return err
	}
	used := after.Since(before)
	r.IdleCommits = float64(used.Commits) / r.Seconds
	r.MaxMemoryBytes = crew.Memory()
	return nil
}

// idleFor is the race's seconds, or a minute.
func (t *Track) idleFor() time.Duration {
	if t.Seconds > 0 {
		return time.Duration(t.Seconds) * time.Second
	}
	return idleFor
}

package course

import (
	"context"
	"fmt"

	"github.com/later-queue/later/lab/data"
)

// Singles has many callers of one process enqueue one job at a time. The figures are
// per job enqueued.
func Singles(ctx context.Context, t *Track, r *data.Round) error {
	if err := t.setup(ctx); err != nil {
		return err
	}
	before, err := t.read(ctx)
	if err != nil {
		return err
	}
	answer, err := t.Launcher.Call(ctx, "singles", itoa(t.Callers), itoa(t.Seconds))
	if err != nil {
		return err
	}
	after, err := t.read(ctx)
	if err != nil {
		return err
	}
	if answer.Jobs == nil || *answer.Jobs == 0 || answer.Seconds <= 0 {
		return fmt.Errorf("singles: it answered %+v", answer)
	}
	r.Jobs, r.Seconds = *answer.Jobs, answer.Seconds
	r.Rate = float64(r.Jobs) / r.Seconds
	charge(r, after.Since(before), r.Jobs)
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/later-queue/later"
)

// explainMissing returns the error of an operation on one job, where it is "not
// found" with what there is under that id: a job that has ended, or a dead one.
func explainMissing(ctx context.Context, store later.Store, id int64, err error) error {
	if !errors.Is(err, later.ErrNotFound) {
		return err
	}
	job, finding := store.Find(ctx, id)
	switch {
	case finding != nil:
		return err // the first error says enough
	case job.State == later.StateDead:
		return (&problem{err: fmt.Errorf("job %d is dead", id), code: "dead", exit: exitRunning}).
			next("remove it with `later delete %d`, or bring it back with `later retry %d`", id, id)
	case job.State == later.StateEnded:
		text := fmt.Sprintf("job %d has ended", id)
		if n := len(job.Log); n > 0 {
			text += " as " + string(job.Log[n-1].Outcome)
		}
		return (&problem{err: errors.New(text), code: "not_found", exit: exitNotFound}).next("`later show %d` shows what is known of it", id)
	}
	return err
}

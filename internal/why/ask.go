package why

import (
	"context"
	"errors"

	"github.com/later-queue/later"
)

// Ask returns the reason for a job, with what the store knows around it. It reads little: the workers,
// the pauses, and for a job that is due how things stand with its limits. The limits are nil
// where there can be none.
func Ask(ctx context.Context, store later.Operator, limits later.Limiter, job *later.JobInfo) (Reason, error) {
	facts := Facts{}
	var err error
	if facts.Workers, err = store.Workers(ctx); err != nil {
		return Reason{}, err
	}
	if facts.Pauses, err = store.Pauses(ctx); err != nil {
		return Reason{}, err
	}
	if facts.Gates, err = gatesOf(ctx, limits, job); err != nil {
		return Reason{}, err
	}
	for i := range facts.Gates {
		if err := facts.findHead(ctx, store, limits, job, i); err != nil {
			return Reason{}, err
		}
	}
	return Of(job, facts), nil
}

// gatesOf asks how things stand with the limits of a job that they can hold back, or that holds
// back others by being dead.
func gatesOf(ctx context.Context, limits later.Limiter, job *later.JobInfo) ([]Gate, error) {
	due := job.State == later.StateLost || job.State == later.StateReady
	if limits == nil || !due && job.State != later.StateDead {
		return nil, nil
	}
	var gates []Gate
	for _, scope := range Scopes(job) {
		standing, err := limits.Standing(ctx, scope)
		if err != nil {
			return nil, err
		}
		if standing.Limit.Holds() {
			gates = append(gates, Gate{Scope: scope, Standing: standing})
		}
	}
	return gates, nil
}

// findHead looks at the job that an ordered scope waits for, and at what that waits for itself.
// It goes no further: whoever wants to know more asks about that one.
func (f *Facts) findHead(ctx context.Context, store later.Operator, limits later.Limiter, job *later.JobInfo, i int) error {
	g := &f.Gates[i]
	running := g.Standing.Running
	if !g.Standing.Limit.Ordered || len(running) == 0 || running[0] == job.ID || job.State == later.StateDead {
		return nil
	}
	head, err := store.Find(ctx, running[0])
	if errors.Is(err, later.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	gates, err := gatesOf(ctx, limits, head)
	if err != nil {
		return err
	}
	g.Head, g.HeadWhy = head, Of(head, Facts{Workers: f.Workers, Pauses: f.Pauses, Gates: gates})
	return nil
}

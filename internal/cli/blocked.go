package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/why"
)

// blockedView is an ordered scope in which nothing runs before a person has retried or deleted a
// dead job ([later.DeadBlocks]).
type blockedView struct {
	Of   later.ScopeOf `json:"of"`
	Name string        `json:"name"`
	Job  string        `json:"job"` // the dead one
}

const (
	// deadLookedAt is how many dead jobs are looked at for what they block. Chosen: each is three
	// short questions at most.
	deadLookedAt = 100
	// shownBlocked is how many scopes are named in a status. Chosen.
	shownBlocked = 5
)

// takeBlocked finds what the newest dead jobs block.
func takeBlocked(ctx context.Context, store later.Store, dead int64) ([]blockedView, error) {
	blocked := []blockedView{}
	limits, ok := limiterOf(store)
	if !ok || dead == 0 {
		return blocked, nil
	}
	list, err := limits.Limits(ctx)
	if err != nil {
		return nil, err
	}
	blocks := func(l later.ScopeLimit) bool { return l.Limit.OnDead == later.DeadBlocks }
	if !slices.ContainsFunc(list, blocks) {
		return blocked, nil
	}
	jobs, err := store.List(ctx, later.Filter{State: later.StateDead, NoPayload: true, Limit: deadLookedAt})
	if err != nil {
		return nil, err
	}
	standings := map[later.Scope]later.Standing{}
	for _, job := range jobs {
		for _, scope := range why.Scopes(job) {
			standing, asked := standings[scope]
			if !asked {
				if standing, err = limits.Standing(ctx, scope); err != nil {
					return nil, err
				}
				standings[scope] = standing
			}
			if standing.Limit.OnDead == later.DeadBlocks && slices.Contains(standing.Running, job.ID) {
				blocked = append(blocked, blockedView{scope.Of, scope.Name, formatID(job.ID)})
			}
		}
	}
	return blocked, nil
}

func (b blockedView) line() string {
	return fmt.Sprintf("blocked: %v by the dead job %s, until it is retried or deleted: later show %s", later.Scope{Of: b.Of, Name: b.Name}, b.Job, b.Job)
}

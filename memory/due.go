package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// NextDue implements [later.Runner].
func (s *Store) NextDue(ctx context.Context, queues, kinds []string) (in time.Duration, ok bool, err error) {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("next due: %w", err)
	}
	defer unlock()
	for _, j := range s.jobs {
		if !j.RunAt.After(now) || !slices.Contains(queues, j.Queue) || !slices.Contains(kinds, j.Kind) {
			continue
		}
		if wait := j.RunAt.Sub(now); !ok || wait < in {
			in, ok = wait, true
		}
	}
	if until, held := s.heldUntil[heldKey(queues, kinds)]; held {
		if wait := max(until.Sub(now), 0); !ok || wait < in {
			in, ok = wait, true
		}
	}
	return in, ok, nil
}

// rememberHeld notes for NextDue how long jobs are held back at least that a claim met; 0 is
// that it met none.
func (s *Store) rememberHeld(queues, kinds []string, again time.Duration, now time.Time) {
	if again == 0 && len(s.heldUntil) == 0 {
		return
	}
	key := heldKey(queues, kinds)
	if again == 0 {
		delete(s.heldUntil, key)
		return
	}
	s.heldUntil[key] = now.Add(again)
}

// heldKey is the same for the same queues and kinds in any order.
func heldKey(queues, kinds []string) string {
	return strings.Join(slices.Sorted(slices.Values(queues)), ",") + " " + strings.Join(slices.Sorted(slices.Values(kinds)), ",")
}

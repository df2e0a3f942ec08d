package memory

import (
	"context"
	"fmt"
	"slices"
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
	return in, ok, nil
}

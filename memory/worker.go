package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/later-queue/later"
)

// Beat implements [later.Runner].
func (s *Store) Beat(ctx context.Context, w later.WorkerInfo) error {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("beat of worker %q: %w", w.Name, err)
	}
	defer unlock()
	w.SeenAt, w.StartedAt = now, now
	if known, ok := s.workers[w.Name]; ok {
		w.StartedAt = known.StartedAt
	}
	s.workers[w.Name] = copyWorker(w)
	return nil
}

// Leave implements [later.Runner].
func (s *Store) Leave(ctx context.Context, worker string) error {
	_, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("leave of worker %q: %w", worker, err)
	}
	defer unlock()
	delete(s.workers, worker)
	return nil
}

// Workers implements [later.Operator].
func (s *Store) Workers(ctx context.Context) ([]later.WorkerInfo, error) {
	_, unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	defer unlock()
	list := make([]later.WorkerInfo, 0, len(s.workers))
	for _, w := range s.workers {
		list = append(list, copyWorker(w))
	}
	slices.SortFunc(list, func(a, b later.WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Maintain implements [later.Runner].
func (s *Store) Maintain(ctx context.Context) error {
	now, unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	defer unlock()
	for id, entries := range s.log {
		kept := slices.DeleteFunc(entries, func(e later.LogEntry) bool {
			return now.Sub(e.FinishedAt) > logRetention
		})
		if len(kept) == 0 {
			delete(s.log, id)
			continue
		}
		s.log[id] = kept
	}
	for name, w := range s.workers {
		if now.Sub(w.SeenAt) > workerRetention {
			delete(s.workers, name)
		}
	}
	s.forgetWindows(now)
	return nil
}

func copyWorker(w later.WorkerInfo) later.WorkerInfo {
	w.Queues, w.Kinds, w.Tenants = slices.Clone(w.Queues), slices.Clone(w.Kinds), slices.Clone(w.Tenants)
	return w
}

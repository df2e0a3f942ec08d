package sqlite

import (
	"context"
	"fmt"

	"github.com/later-queue/later"
)

const insertJob = `
insert into later_job (queue, priority, tenant, kind, run_at, max_attempts, timeout_ms, expires_at, created_at, headers, payload)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// Insert implements [later.Inserter].
func (s *Store) Insert(ctx context.Context, jobs []later.NewJob) ([]later.Enqueued, error) {
	var done []later.Enqueued
	err := s.writer.do(ctx, len(jobs), func(tx *writeTx) (err error) {
		done, err = insert(tx, jobs)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("insert: %w", err)
	}
	return done, nil
}

func insert(tx transaction, jobs []later.NewJob) ([]later.Enqueued, error) {
	now, err := now(tx)
	if err != nil {
		return nil, err
	}
	done := make([]later.Enqueued, len(jobs))
	for i, j := range jobs {
		result, err := tx.exec(insertJob, j.Queue, j.Priority, j.Tenant, j.Kind, dueAt(j, now), j.MaxAttempts,
			durationMillis(j.Timeout), expiryOf(j, now), now, writeHeaders(j.Headers), string(j.Payload))
		if err != nil {
			return nil, err
		}
		if done[i].ID, err = result.LastInsertId(); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// dueAt is the run_at of a new job; one that has passed is now.
func dueAt(j later.NewJob, now int64) int64 {
	if j.RunAt.IsZero() {
		return after(now, j.Delay)
	}
	return max(millis(j.RunAt), now)
}

func expiryOf(j later.NewJob, now int64) any {
	switch {
	case !j.ExpiresAt.IsZero():
		return millis(j.ExpiresAt)
	case j.ExpiresIn > 0:
		return after(now, j.ExpiresIn)
	}
	return nil
}

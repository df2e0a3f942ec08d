package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/later-queue/later"
)

// insertSizes are the numbers of jobs that one statement inserts; a list is cut
// into them. The figures are in docs/decisions/0012-sqlite-speed.md.
var insertSizes = []int{64, 8, 1}

// insertJobs are the statements, by the number of jobs.
var insertJobs = func() map[int]string {
	const row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	statements := map[int]string{}
	for _, n := range insertSizes {
		statements[n] = `
insert into later_job (queue, priority, tenant, kind, run_at, max_attempts, timeout_ms, expires_at, created_at, headers, payload)
values ` + row + strings.Repeat(",\n  "+row, n-1)
	}
	return statements
}()

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

// insert stores jobs in their order.
func insert(tx transaction, jobs []later.NewJob) ([]later.Enqueued, error) {
	isUnique := func(j later.NewJob) bool { return j.Unique != nil }
	if slices.ContainsFunc(jobs, isUnique) {
		if _, err := tx.exec(lockWriters); err != nil {
			return nil, err
		}
	}
	now, err := tx.now()
	if err != nil {
		return nil, err
	}
	done := make([]later.Enqueued, 0, len(jobs))
	for len(jobs) > 0 {
		n := slices.IndexFunc(jobs, isUnique)
		if n < 0 {
			n = len(jobs)
		}
		if done, err = insertPlain(tx, jobs[:n], now, done); err != nil {
			return nil, err
		}
		if jobs = jobs[n:]; len(jobs) > 0 {
			one, err := insertUnique(tx, jobs[0], now)
			if err != nil {
				return nil, err
			}
			done, jobs = append(done, one), jobs[1:]
		}
	}
	return done, nil
}

// insertPlain stores jobs without a key, and adds their ids to done.
func insertPlain(tx transaction, jobs []later.NewJob, now int64, done []later.Enqueued) ([]later.Enqueued, error) {
	for _, n := range insertSizes {
		for ; len(jobs) >= n; jobs = jobs[n:] {
			args := make([]any, 0, 11*n)
			for _, j := range jobs[:n] {
				runAt := dueAt(j, now)
				wakeIfSoon(tx, j.Queue, runAt, now)
				args = append(args, j.Queue, j.Priority, j.Tenant, j.Kind, runAt, j.MaxAttempts,
					durationMillis(j.Timeout), expiryOf(j, now), now, writeHeaders(j.Headers), string(j.Payload))
			}
			result, err := tx.exec(insertJobs[n], args...)
			if err != nil {
				return nil, err
			}
			if err := wantRows(result, n); err != nil {
				return nil, err
			}
			// A statement gives ids that follow each other: each is one above the
			// largest so far, and nobody else writes.
			last, err := result.LastInsertId()
			if err != nil {
				return nil, err
			}
			for i := range n {
				done = append(done, later.Enqueued{ID: last - int64(n-1-i)})
			}
		}
	}
	return done, nil
}

// wakeIfSoon wakes for a job that is due now or soon.
func wakeIfSoon(tx transaction, queue string, runAt, now int64) {
	if isSoon(runAt, now) {
		tx.wake(queue)
	}
}

// isSoon reports whether a job is due before workers ask again by themselves.
func isSoon(runAt, now int64) bool { return runAt <= now+later.WakeAhead.Milliseconds() }

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

package sqlite

import (
	"context"
	"fmt"
)

// pruneChunk is how many rows one statement of the housekeeping looks at, and
// deletes at most. Chosen: some 10 ms of the write lock.
const pruneChunk = 1000

const (
	// deletePrunable deletes the old ones of the first rows of the log, which
	// stand in the order in which they were written. It looks at no more rows
	// than that, so it needs no index on the time and costs nothing when there
	// is nothing to do. Parameters: cutoff, chunk.
	deletePrunable = `
delete from later_job_log
where id in (
  select id
  from (select id, finished_at from later_job_log order by id limit ?2)
  where finished_at < ?1)`

	selectPrunable = `
select count(*)
from (select finished_at from later_job_log order by id limit ?2)
where finished_at < ?1`

	// Parameters: now, chunk.
	deleteOldWindows = `
delete from later_key_window
where (tenant, kind, key) in (
  select tenant, kind, key
  from later_key_window
  where ends_at <= ?1
  order by ends_at
  limit ?2)`

	selectOldWindows = `select count(*) from (select 1 from later_key_window where ends_at <= ? limit ?)`

	deleteOldWorkers = `delete from later_worker where seen_at < ?`
	selectOldWorkers = `select count(*) from later_worker where seen_at < ?`
)

// Maintain implements [later.Runner]: it deletes what the log has kept for
// Config.LogRetention and the keys whose window has ended, in chunks between which
// others may write, and forgets workers that have not been seen for a while.
func (s *Store) Maintain(ctx context.Context) error {
	now, err := now(s.reader(ctx))
	if err != nil {
		return fmt.Errorf("maintain: %w", explain(err))
	}
	cutoff, unseen := now-s.config.LogRetention.Milliseconds(), now-workerRetention.Milliseconds()
	for {
		r := s.reader(ctx)
		var log, windows, workers int64
		err := r.queryRow(selectPrunable, cutoff, pruneChunk).Scan(&log)
		if err == nil {
			err = r.queryRow(selectOldWindows, now, pruneChunk).Scan(&windows)
		}
		if err == nil {
			err = r.queryRow(selectOldWorkers, unseen).Scan(&workers)
		}
		if err != nil {
			return fmt.Errorf("maintain: %w", explain(err))
		}
		if log == 0 && windows == 0 && workers == 0 {
			return nil
		}
		err = s.writer.do(ctx, pruneChunk, func(tx *writeTx) error {
			if _, err := tx.exec(deletePrunable, cutoff, pruneChunk); err != nil {
				return err
			}
			if _, err := tx.exec(deleteOldWindows, now, pruneChunk); err != nil {
				return err
			}
			_, err := tx.exec(deleteOldWorkers, unseen)
			return err
		})
		if err != nil {
			return fmt.Errorf("maintain: %w", err)
		}
	}
}

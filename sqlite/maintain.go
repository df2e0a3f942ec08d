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

	// idleGates are states of gates that say nothing any more: the rate has recovered, and no job
	// that was let in has a lease or, where jobs keep others waiting until they have ended, is
	// there at all. Parameters: now in microseconds, chunk.
	idleGates = `
from later_gate_state s
where (s.tat_us is null or s.tat_us <= ?1)
  and not exists (
    select 1
    from json_each(s.running) let_in
    cross join later_job j on j.id = let_in.value
    where j.lease_until is not null)
  and not (
    exists (
      select 1 from later_gate g
      where g.ordered = 1 and (g.scope = s.scope and g.name = s.name or g.scope = 'tenants' and s.scope = 'tenant'))
    and exists (
      select 1
      from json_each(s.running) let_in
      where exists (select 1 from later_job j where j.id = let_in.value)
        or exists (select 1 from later_dead_job d where d.id = let_in.value)))
limit ?2`

	deleteIdleGates = `
delete from later_gate_state
where (scope, name) in (select s.scope, s.name` + idleGates + `)`

	selectIdleGates = `select count(*) from (select 1` + idleGates + `)`

	deleteOldWorkers = `delete from later_worker where seen_at < ?`
	selectOldWorkers = `select count(*) from later_worker where seen_at < ?`
)

// Maintain implements [later.Runner]: it deletes what the log has kept for
// Config.LogRetention and the keys whose window has ended, in chunks between which
// others may write, and forgets workers that have not been seen for a while and what
// was let in by gates where none of it is left.
func (s *Store) Maintain(ctx context.Context) error {
	now, err := now(s.reader(ctx))
	if err != nil {
		return fmt.Errorf("maintain: %w", explain(err))
	}
	cutoff, unseen := now-s.config.LogRetention.Milliseconds(), now-workerRetention.Milliseconds()
	for {
		r := s.reader(ctx)
		var log, windows, workers, idle int64
		err := r.queryRow(selectPrunable, cutoff, pruneChunk).Scan(&log)
		if err == nil {
			err = r.queryRow(selectOldWindows, now, pruneChunk).Scan(&windows)
		}
		if err == nil {
			err = r.queryRow(selectOldWorkers, unseen).Scan(&workers)
		}
		if err == nil {
			err = r.queryRow(selectIdleGates, 1000*now, pruneChunk).Scan(&idle)
		}
		if err != nil {
			return fmt.Errorf("maintain: %w", explain(err))
		}
		if log == 0 && windows == 0 && workers == 0 && idle == 0 {
			return nil
		}
		err = s.writer.do(ctx, pruneChunk, func(tx *writeTx) error {
			if _, err := tx.exec(deletePrunable, cutoff, pruneChunk); err != nil {
				return err
			}
			if _, err := tx.exec(deleteOldWindows, now, pruneChunk); err != nil {
				return err
			}
			if _, err := tx.exec(deleteIdleGates, 1000*now, pruneChunk); err != nil {
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

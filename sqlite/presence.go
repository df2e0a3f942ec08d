package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/later-queue/later"
)

// workerRetention is how long a worker that no longer says that it is alive
// stays listed: long enough for a person to see that it is missing. Chosen:
// several times the interval between beats.
const workerRetention = 5 * time.Minute

const workerColumns = `name, host, pid, version, queues, kinds, tenants, slots, running, started_at, seen_at`

const upsertWorker = `
insert into later_worker (name, host, pid, version, queues, kinds, tenants, slots, running, started_at, seen_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)
on conflict (name) do update
set host = excluded.host, pid = excluded.pid, version = excluded.version, queues = excluded.queues,
  kinds = excluded.kinds, tenants = excluded.tenants, slots = excluded.slots, running = excluded.running, seen_at = excluded.seen_at`

// Beat implements [later.Runner].
func (s *Store) Beat(ctx context.Context, w later.WorkerInfo) error {
	queues, err1 := json.Marshal(w.Queues)
	kinds, err2 := json.Marshal(w.Kinds)
	tenants, err3 := json.Marshal(w.Tenants) // null: all
	if err := firstOf(err1, err2, err3); err != nil {
		return fmt.Errorf("beat of worker %q: %w", w.Name, err)
	}
	err := s.writer.do(ctx, 1, func(tx *writeTx) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		_, err = tx.exec(upsertWorker, w.Name, w.Host, w.PID, w.Version, string(queues), string(kinds), string(tenants), w.Slots, w.Running, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("beat of worker %q: %w", w.Name, err)
	}
	return nil
}

const deleteWorker = `delete from later_worker where name = ?`

// Leave implements [later.Runner].
func (s *Store) Leave(ctx context.Context, worker string) error {
	err := s.writer.do(ctx, 1, func(tx *writeTx) error {
		_, err := tx.exec(deleteWorker, worker)
		return err
	})
	if err != nil {
		return fmt.Errorf("leave of worker %q: %w", worker, err)
	}
	return nil
}

const selectWorkers = `select ` + workerColumns + ` from later_worker order by name`

// Workers implements [later.Operator]. A worker that stopped without saying so
// is listed for another 5 minutes.
func (s *Store) Workers(ctx context.Context) ([]later.WorkerInfo, error) {
	rows, err := s.reader(ctx).query(selectWorkers)
	if err != nil {
		return nil, fmt.Errorf("workers: %w", explain(err))
	}
	defer rows.Close()
	var list []later.WorkerInfo
	for rows.Next() {
		var w later.WorkerInfo
		var queues, kinds string
		var tenants sql.NullString // of a program from before the column
		var startedAt, seenAt int64
		err := rows.Scan(&w.Name, &w.Host, &w.PID, &w.Version, &queues, &kinds, &tenants, &w.Slots, &w.Running, &startedAt, &seenAt)
		if err == nil {
			err = firstOf(json.Unmarshal([]byte(queues), &w.Queues), json.Unmarshal([]byte(kinds), &w.Kinds))
		}
		if err == nil && tenants.Valid {
			err = json.Unmarshal([]byte(tenants.String), &w.Tenants)
		}
		if err != nil {
			return nil, fmt.Errorf("workers: %w", explain(err))
		}
		w.StartedAt, w.SeenAt = toTime(startedAt), toTime(seenAt)
		list = append(list, w)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("workers: %w", explain(err))
	}
	return list, nil
}

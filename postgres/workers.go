package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// workerRetention is for how long a worker that says nothing is still shown.
// Chosen, not measured.
const workerRetention = 5 * time.Minute

const beatWorker = `
insert into {schema}.worker (name, host, pid, version, queues, kinds, tenants, slots, running)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (name) do update
set seen_at = now(), host = excluded.host, pid = excluded.pid, version = excluded.version,
    queues = excluded.queues, kinds = excluded.kinds, tenants = excluded.tenants,
    slots = excluded.slots, running = excluded.running`

// Beat implements [later.Runner].
func (s *Store) Beat(ctx context.Context, w later.WorkerInfo) error {
	return s.run(ctx, statement{
		name: fmt.Sprintf("beat of worker %q", w.Name), sql: beatWorker,
		args: []any{w.Name, w.Host, w.PID, w.Version, notNil(w.Queues), notNil(w.Kinds), w.Tenants, w.Slots, w.Running},
	})
}

const leaveWorker = `delete from {schema}.worker where name = $1`

// Leave implements [later.Runner].
func (s *Store) Leave(ctx context.Context, worker string) error {
	return s.run(ctx, statement{name: fmt.Sprintf("leave of worker %q", worker), sql: leaveWorker, args: []any{worker}})
}

const listWorkers = `
select name, host, pid, version, queues, kinds, tenants, slots, running, started_at, seen_at
from {schema}.worker
where seen_at > now() - $1::bigint * interval '1 microsecond'
order by name`

// Workers implements [later.Operator]: those that were seen within the last
// five minutes.
func (s *Store) Workers(ctx context.Context) ([]later.WorkerInfo, error) {
	return query(ctx, s, statement{
		name: "list workers", sql: listWorkers, args: []any{micros(workerRetention)}, plain: true,
	}, func(row pgx.CollectableRow) (later.WorkerInfo, error) {
		var w later.WorkerInfo
		err := row.Scan(&w.Name, &w.Host, &w.PID, &w.Version, &w.Queues, &w.Kinds, &w.Tenants, &w.Slots, &w.Running, &w.StartedAt, &w.SeenAt)
		w.StartedAt, w.SeenAt = w.StartedAt.UTC(), w.SeenAt.UTC()
		return w, err
	})
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// Package plainsql is the queue that one writes in an afternoon: an update claims, a
// delete completes.
package plainsql

import (
	"context"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/table"
)

// Definition is the plain queue.
var Definition = contender.Definition{
	Name:    "plainsql",
	Version: "SQL",
	Settings: map[string]string{
		"clients4": "update to claim, delete to complete, a statement for each batch of 100, 4 clients of pgx",
		"clients8": "the same with 8 clients",
	},
	Open: open,
}

var clients = map[string]int{"clients4": 4, "clients8": 8}

func open(ctx context.Context, env contender.Env) (contender.Contender, error) {
	return table.Open(ctx, env, table.Config{
		Schema:   schema,
		Clients:  clients[env.Settings],
		Batch:    100,
		Claim:    claim,
		Complete: complete,
	})
}

const schema = `
create table lab_job (
  id        bigint generated always as identity primary key,
  run_at    timestamptz not null default now(),
  locked_at timestamptz,
  kind      text not null default 'noop',
  payload   json not null
);
create index lab_job_ready on lab_job (run_at, id) where locked_at is null;
alter table lab_job set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
`

// claim relies on the index lab_job_ready.
const claim = `
update lab_job set locked_at = now() where id = any(array(
  select id from lab_job
  where locked_at is null and run_at <= now()
  order by run_at, id
  limit $1
  for update skip locked))
returning id, payload`

const complete = `delete from lab_job where id = any($1)`

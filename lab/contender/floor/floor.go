// Package floor is the least that a queue in a table can do: it deletes jobs as it
// takes them, in large batches, so a crash loses what was taken. Nothing that keeps a
// promise can be cheaper; the budgets are measured against it.
package floor

import (
	"context"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/table"
)

// Definition is the floor.
var Definition = contender.Definition{
	Name:    "floor",
	Version: "SQL",
	Settings: map[string]string{
		"defaults": "delete on claim, at most once, batches of 1,000 on 2 connections, prepared statements of pgx",
	},
	Open: func(ctx context.Context, env contender.Env) (contender.Contender, error) {
		return table.Open(ctx, env, table.Config{Schema: schema, Clients: 2, Batch: 1_000, Claim: claim})
	},
}

// schema has two indexes, as a queue with priorities must: the primary key, and what
// finds the next jobs.
const schema = `
create table lab_job (
  id         bigint generated always as identity primary key,
  run_at     timestamptz not null default now(),
  created_at timestamptz not null default now(),
  priority   smallint not null default 0,
  queue      text collate "C" not null default 'default',
  kind       text collate "C" not null default 'noop',
  payload    json not null
);
create index lab_job_ready on lab_job (queue, priority, run_at, id);
alter table lab_job set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
`

// claim relies on the index lab_job_ready.
const claim = `
delete from lab_job where ctid = any(array(
  select ctid from lab_job
  where queue = 'default' and priority = 0 and run_at <= now()
  order by run_at, id
  limit $1
  for update skip locked))
returning id, payload`

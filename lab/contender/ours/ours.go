// Package ours is Later itself as a contender.
package ours

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/database"
	"github.com/later-queue/later/postgres"
	"github.com/later-queue/later/worker"
)

// Definition is Later on Postgres.
var Definition = contender.Definition{
	Name:    "ours",
	Version: "this commit",
	Settings: map[string]string{
		"defaults": "worker.Config{} and postgres.Config{}: 10 slots, finished attempts logged",
		"tuned":    "worker.Config.Concurrency 1,000 and postgres.Config.NoLog",
		"logged":   "worker.Config.Concurrency 1,000, finished attempts logged",
	},
	Open: open,
}

// configs are what the settings mean.
var configs = map[string]struct {
	worker   worker.Config
	postgres postgres.Config
}{
	"defaults": {},
	"tuned":    {worker: worker.Config{Concurrency: 1000}, postgres: postgres.Config{NoLog: true}},
	"logged":   {worker: worker.Config{Concurrency: 1000}},
}

type ours struct {
	jobs
	pool  *pgxpool.Pool
	store *postgres.Store
}

func open(ctx context.Context, env contender.Env) (contender.Contender, error) {
	pool, err := database.Pool(ctx, env.URL, 0)
	if err != nil {
		return nil, err
	}
	o := &ours{jobs: newJobs(env, configs[env.Settings].worker), pool: pool}
	cfg := configs[env.Settings].postgres
	cfg.Logger = o.worker.Logger
	if o.store, err = postgres.New(pool, cfg); err != nil {
		pool.Close()
		return nil, err
	}
	o.queue = o.store
	return o, nil
}

func (o *ours) Setup(ctx context.Context) error {
	if err := database.Empty(ctx, o.pool); err != nil {
		return err
	}
	return o.store.Migrate(ctx)
}

func (o *ours) Remaining(ctx context.Context) (n int64, err error) {
	err = o.pool.QueryRow(ctx, `select count(*) from later.job`).Scan(&n)
	return n, err
}

// fills are statements that put $1 jobs into the table; $2 is the payload's text.
// Nothing but the time and the tenant is other than in an ordinary enqueue.
var fills = map[string]string{
	"capped": ofTenants,
	"ready": `
insert into later.job (kind, payload)
select 'lab.noop', json_build_object('seq', n, 'text', $2::text) from generate_series(1, $1::bigint) n`,
	"scheduled": `
insert into later.job (kind, payload, run_at)
select 'lab.noop', json_build_object('seq', n, 'text', $2::text), now() + interval '7 days' + n * interval '1 ms'
from generate_series(1, $1::bigint) n`,
	"tenants": ofTenants,
}

const ofTenants = `
insert into later.job (kind, payload, tenant)
select 'lab.noop', json_build_object('seq', n, 'text', $2::text), 'tenant-' || n % 10000
from generate_series(1, $1::bigint) n`

// limits are what is set before a table is filled.
var limits = map[string]later.Limit{
	"capped": {MaxRunning: new(5)}, // for each tenant
}

// fillBatch is how many rows one statement of Fill makes. Chosen: seconds of work.
const fillBatch = 500_000

func (o *ours) Fill(ctx context.Context, what string, n int64) error {
	statement := fills[what]
	if statement == "" {
		return fmt.Errorf("unknown kind of jobs %q", what)
	}
	if limit, ok := limits[what]; ok {
		if err := o.store.SetLimit(ctx, later.Scope{Of: later.ScopeTenants}, limit, "lab"); err != nil {
			return fmt.Errorf("fill %s: %w", what, err)
		}
	}
	for n > 0 {
		part := min(n, fillBatch)
		if _, err := o.pool.Exec(ctx, statement, part, o.env.Payload); err != nil {
			return fmt.Errorf("fill %s: %w", what, err)
		}
		n -= part
	}
	_, err := o.pool.Exec(ctx, `vacuum analyze later.job`)
	return err
}

func (o *ours) Close() {
	// The process ends: what cannot be closed is closed by that.
	_ = o.store.Close()
	o.pool.Close()
}

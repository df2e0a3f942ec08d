// Package ours is Later itself as a contender.
package ours

import (
	"context"
	"fmt"
	"log/slog"
	"os"

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

// batch is how many jobs one EnqueueMany gets. Chosen: as many as River's own
// benchmark gives to its InsertMany.
const batch = 5_000

// noop is the payload of the lab's jobs.
type noop contender.Payload

// Kind implements later.Args.
func (noop) Kind() string { return "lab.noop" }

type ours struct {
	env   contender.Env
	pool  *pgxpool.Pool
	store *postgres.Store
	log   *slog.Logger
}

func open(ctx context.Context, env contender.Env) (contender.Contender, error) {
	pool, err := database.Pool(ctx, env.URL, 0)
	if err != nil {
		return nil, err
	}
	o := &ours{env: env, pool: pool}
	o.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := configs[env.Settings].postgres
	cfg.Logger = o.log
	if o.store, err = postgres.New(pool, cfg); err != nil {
		pool.Close()
		return nil, err
	}
	return o, nil
}

func (o *ours) Setup(ctx context.Context) error {
	if err := database.Empty(ctx, o.pool); err != nil {
		return err
	}
	return o.store.Migrate(ctx)
}

func (o *ours) args(seq int64) noop { return noop{Seq: seq, Text: o.env.Payload} }

func (o *ours) Enqueue(ctx context.Context, from, n int64) error {
	for end := from + n; from < end; {
		requests := make([]later.Request, min(batch, end-from))
		for i := range requests {
			requests[i].Args = o.args(from)
			from++
		}
		if _, err := o.store.EnqueueMany(ctx, requests); err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) EnqueueOne(ctx context.Context, seq int64) error {
	_, err := o.store.Enqueue(ctx, o.args(seq), later.Options{})
	return err
}

func (o *ours) Work(ctx context.Context, ready func(), handle func(seq int64)) error {
	handlers := later.NewHandlers()
	later.Handle(handlers, func(_ context.Context, job *later.Job[noop]) error {
		handle(job.Payload.Seq)
		return nil
	})
	cfg := configs[o.env.Settings].worker
	cfg.Logger = o.log
	w, err := worker.New(o.store, handlers, cfg)
	if err != nil {
		return err
	}
	ready()
	return w.Run(ctx)
}

func (o *ours) Remaining(ctx context.Context) (n int64, err error) {
	err = o.pool.QueryRow(ctx, `select count(*) from later.job`).Scan(&n)
	return n, err
}

// fills are statements that put $1 jobs into the table; $2 is the payload's text.
// Nothing but the time and the tenant is other than in an ordinary enqueue.
var fills = map[string]string{
	"ready": `
insert into later.job (kind, payload)
select 'lab.noop', json_build_object('seq', n, 'text', $2::text) from generate_series(1, $1::bigint) n`,
	"scheduled": `
insert into later.job (kind, payload, run_at)
select 'lab.noop', json_build_object('seq', n, 'text', $2::text), now() + interval '7 days' + n * interval '1 ms'
from generate_series(1, $1::bigint) n`,
	"tenants": `
insert into later.job (kind, payload, tenant)
select 'lab.noop', json_build_object('seq', n, 'text', $2::text), 'tenant-' || n % 10000
from generate_series(1, $1::bigint) n`,
}

// fillBatch is how many rows one statement of Fill makes. Chosen: seconds of work.
const fillBatch = 500_000

func (o *ours) Fill(ctx context.Context, what string, n int64) error {
	statement := fills[what]
	if statement == "" {
		return fmt.Errorf("unknown kind of jobs %q", what)
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

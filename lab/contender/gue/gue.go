// Package gue is gue as a contender.
package gue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/database"
)

// Definition is gue on Postgres.
var Definition = contender.Definition{
	Name:    "gue",
	Version: "5.8.0",
	Settings: map[string]string{
		"defaults": "its README's worker pool of 2 workers with the default options: poll interval 5 s, " +
			"PriorityPollStrategy; pgxpool's default size",
		"tuned": "a pool of 16 workers and 20 connections, WithPoolPollInterval 50 ms and " +
			"WithPoolPollStrategy(RunAtPollStrategy), the strategy that its index serves",
	},
	Open: open,
}

type config struct {
	workers, conns int
	options        []gue.WorkerPoolOption
}

var configs = map[string]config{
	"defaults": {workers: 2},
	"tuned": {workers: 16, conns: 20, options: []gue.WorkerPoolOption{
		gue.WithPoolPollInterval(50 * time.Millisecond),
		gue.WithPoolPollStrategy(gue.RunAtPollStrategy),
	}},
}

// schema is migrations/schema.sql of the module, which does not embed it.
const schema = `
create table if not exists gue_jobs
(
  job_id      text        not null primary key,
  priority    smallint    not null,
  run_at      timestamptz not null,
  job_type    text        not null,
  args        bytea       not null,
  error_count integer     not null default 0,
  last_error  text,
  queue       text        not null,
  created_at  timestamptz not null,
  updated_at  timestamptz not null
);
create index if not exists idx_gue_jobs_selector on gue_jobs (queue, run_at, priority);
`

const (
	jobType = "noop"
	// batch is how many jobs EnqueueBatch gets: each takes 8 of the 65,535
	// parameters that a statement may have.
	batch = 5_000
)

type contestant struct {
	env    contender.Env
	config config
	pool   *pgxpool.Pool
	client *gue.Client
}

func open(ctx context.Context, env contender.Env) (contender.Contender, error) {
	c := &contestant{env: env, config: configs[env.Settings]}
	pool, err := database.Pool(ctx, env.URL, c.config.conns)
	if err != nil {
		return nil, err
	}
	c.pool = pool
	if c.client, err = gue.NewClient(pgxv5.NewConnPool(pool)); err != nil {
		pool.Close()
		return nil, err
	}
	return c, nil
}

func (c *contestant) Setup(ctx context.Context) error {
	if err := database.Empty(ctx, c.pool); err != nil {
		return err
	}
	_, err := c.pool.Exec(ctx, schema)
	return err
}

func (c *contestant) job(seq int64) (*gue.Job, error) {
	args, err := json.Marshal(c.env.Job(seq))
	return &gue.Job{Type: jobType, Args: args}, err
}

func (c *contestant) Enqueue(ctx context.Context, from, n int64) error {
	for end := from + n; from < end; {
		jobs := make([]*gue.Job, min(batch, end-from))
		for i := range jobs {
			job, err := c.job(from)
			if err != nil {
				return err
			}
			jobs[i] = job
			from++
		}
		if err := c.client.EnqueueBatch(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

func (c *contestant) EnqueueOne(ctx context.Context, seq int64) error {
	job, err := c.job(seq)
	if err != nil {
		return err
	}
	return c.client.Enqueue(ctx, job)
}

func (c *contestant) Work(ctx context.Context, ready func(), handle func(contender.Payload)) error {
	noop := func(_ context.Context, job *gue.Job) error {
		var p contender.Payload
		if err := json.Unmarshal(job.Args, &p); err != nil {
			return err
		}
		handle(p)
		return nil
	}
	// Graceful: a job whose handler has run is also recorded when we stop.
	options := append([]gue.WorkerPoolOption{gue.WithPoolGracefulShutdown(nil)}, c.config.options...)
	workers, err := gue.NewWorkerPool(c.client, gue.WorkMap{jobType: noop}, c.config.workers, options...)
	if err != nil {
		return err
	}
	ready()
	return workers.Run(ctx)
}

func (c *contestant) Remaining(ctx context.Context) (n int64, err error) {
	err = c.pool.QueryRow(ctx, `select count(*) from gue_jobs`).Scan(&n)
	return n, err
}

func (c *contestant) Close() { c.pool.Close() }

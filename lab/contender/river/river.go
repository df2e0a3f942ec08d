// Package river is River as a contender.
package river

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/database"
)

// Definition is River on Postgres.
var Definition = contender.Definition{
	Name:    "river",
	Version: "0.51.2",
	Settings: map[string]string{
		"defaults": "MaxWorkers 100, the number in its README and its getting-started guide; " +
			"FetchCooldown 100 ms and FetchPollInterval 1 s, the defaults of river.Config; pgxpool's default size",
		"bench": "those of its own benchmark command (cmd/river/riverbench/river_bench.go): MaxWorkers 2,000, " +
			"FetchCooldown 2 ms, FetchPollInterval 20 ms; pgxpool's default size, as there",
		"wide": "as bench, with a pool of 64 connections",
	},
	Open: open,
}

type config struct {
	workers        int
	cooldown, poll time.Duration
	conns          int
}

var configs = map[string]config{
	"defaults": {workers: 100},
	"bench":    {workers: 2_000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond},
	"wide":     {workers: 2_000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond, conns: 64},
}

// batch is insertBatchSize of River's own benchmark. InsertManyFast, which copies, is
// what its documentation has for many jobs.
const batch = 5_000

// noop is the payload of the lab's jobs.
type noop contender.Payload

// Kind implements river.JobArgs.
func (noop) Kind() string { return "noop" }

type contestant struct {
	env    contender.Env
	config config
	pool   *pgxpool.Pool
	insert *river.Client[pgx.Tx]
	log    *slog.Logger
}

func open(ctx context.Context, env contender.Env) (contender.Contender, error) {
	c := &contestant{env: env, config: configs[env.Settings]}
	pool, err := database.Pool(ctx, env.URL, c.config.conns)
	if err != nil {
		return nil, err
	}
	c.pool = pool
	// Warnings only, as its command line has it; and not on the standard output.
	c.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c.insert, err = river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: c.log})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return c, nil
}

func (c *contestant) Setup(ctx context.Context) error {
	if err := database.Empty(ctx, c.pool); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(c.pool), &rivermigrate.Config{Logger: c.log})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (c *contestant) args(seq int64) noop { return noop(c.env.Job(seq)) }

func (c *contestant) Enqueue(ctx context.Context, from, n int64) error {
	for end := from + n; from < end; {
		jobs := make([]river.InsertManyParams, min(batch, end-from))
		for i := range jobs {
			jobs[i].Args = c.args(from)
			from++
		}
		if _, err := c.insert.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

func (c *contestant) EnqueueOne(ctx context.Context, seq int64) error {
	_, err := c.insert.Insert(ctx, c.args(seq), nil)
	return err
}

// stopTimeout bounds the stop of a client in good order. Chosen: the handlers are
// no-ops, so what is left to do is to record the last jobs.
const stopTimeout = 30 * time.Second

func (c *contestant) Work(ctx context.Context, ready func(), handle func(contender.Payload)) error {
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, river.WorkFunc(func(_ context.Context, job *river.Job[noop]) error {
		handle(contender.Payload(job.Args))
		return nil
	})); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(c.pool), &river.Config{
		FetchCooldown:     c.config.cooldown,
		FetchPollInterval: c.config.poll,
		Logger:            c.log,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: c.config.workers}},
		Workers:           workers,
	})
	if err != nil {
		return err
	}
	ready()
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return client.Stop(stopCtx)
}

func (c *contestant) Remaining(ctx context.Context) (n int64, err error) {
	err = c.pool.QueryRow(ctx, `select count(*) from river_job where state <> 'completed'`).Scan(&n)
	return n, err
}

func (c *contestant) Close() { c.pool.Close() }

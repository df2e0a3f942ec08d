// Package riversqlite is River on SQLite as a contender.
package riversqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/sqlitefile"
)

// Definition is River on SQLite. Its driver calls itself "in early testing".
var Definition = contender.Definition{
	Name:    "riversqlite",
	Version: "0.51.2",
	Settings: map[string]string{
		"defaults": "MaxWorkers 100, the number in its README and its getting-started guide; " +
			"FetchCooldown 100 ms and FetchPollInterval 1 s, the defaults of river.Config. " + sqlitefile.Setup,
		"bench": "those of its own benchmark command: MaxWorkers 2,000, FetchCooldown 2 ms, FetchPollInterval 20 ms. " + sqlitefile.Setup,
	},
	Open: open,
}

type config struct {
	workers        int
	cooldown, poll time.Duration
}

var configs = map[string]config{
	"defaults": {workers: 100},
	"bench":    {workers: 2_000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond},
}

const (
	// batch is insertBatchSize of River's own benchmark.
	batch = 5_000
	// stopTimeout bounds the stop of a client in good order. Chosen: the handlers
	// are no-ops, so what is left to do is to record the last jobs, one by one here.
	stopTimeout = 30 * time.Second
)

// noop is the payload of the lab's jobs.
type noop contender.Payload

// Kind implements river.JobArgs.
func (noop) Kind() string { return "noop" }

type contestant struct {
	env    contender.Env
	config config
	db     *sql.DB
	insert *river.Client[*sql.Tx]
	log    *slog.Logger
}

func open(_ context.Context, env contender.Env) (contender.Contender, error) {
	c := &contestant{env: env, config: configs[env.Settings]}
	c.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *contestant) connect() (err error) {
	if c.db, err = sqlitefile.Open(c.env.URL, sqlitefile.Full); err != nil {
		return err
	}
	c.insert, err = river.NewClient(riversqlite.New(c.db), &river.Config{Logger: c.log})
	return err
}

func (c *contestant) Setup(ctx context.Context) error {
	c.Close()
	if err := sqlitefile.Remove(c.env.URL); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riversqlite.New(c.db), &rivermigrate.Config{Logger: c.log})
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

func (c *contestant) Work(ctx context.Context, ready func(), handle func(contender.Payload)) error {
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, river.WorkFunc(func(_ context.Context, job *river.Job[noop]) error {
		handle(contender.Payload(job.Args))
		return nil
	})); err != nil {
		return err
	}
	client, err := river.NewClient(riversqlite.New(c.db), &river.Config{
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
	err = c.db.QueryRowContext(ctx, `select count(*) from river_job where state <> 'completed'`).Scan(&n)
	return n, err
}

// Close leaves what cannot be closed to the end of the process.
func (c *contestant) Close() { _ = c.db.Close() }

package ours

import (
	"context"
	"log/slog"
	"os"

	"github.com/later-queue/later"
	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/sqlitefile"
	"github.com/later-queue/later/sqlite"
	"github.com/later-queue/later/worker"
)

// SQLite is Later on SQLite.
var SQLite = contender.Definition{
	Name:    "ours-sqlite",
	Version: "this commit",
	Settings: map[string]string{
		"defaults": "worker.Config{} and sqlite.Config{}: 10 slots, finished attempts logged; synchronous FULL, driver modernc.org/sqlite",
		"tuned":    "worker.Config.Concurrency 1,000 and sqlite.Config.NoLog",
	},
	Open: openSQLite,
}

var sqliteConfigs = map[string]struct {
	worker worker.Config
	sqlite sqlite.Config
}{
	"defaults": {},
	"tuned":    {worker: worker.Config{Concurrency: 1000}, sqlite: sqlite.Config{NoLog: true}},
}

type onSQLite struct {
	env   contender.Env
	store *sqlite.Store
	log   *slog.Logger
}

func openSQLite(ctx context.Context, env contender.Env) (contender.Contender, error) {
	o := &onSQLite{env: env}
	o.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := o.connect(ctx); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *onSQLite) connect(ctx context.Context) (err error) {
	cfg := sqliteConfigs[o.env.Settings].sqlite
	cfg.Logger = o.log
	o.store, err = sqlite.Open(ctx, o.env.URL, cfg)
	return err
}

func (o *onSQLite) Setup(ctx context.Context) error {
	if err := o.store.Close(); err != nil {
		return err
	}
	if err := sqlitefile.Remove(o.env.URL); err != nil {
		return err
	}
	return o.connect(ctx)
}

func (o *onSQLite) args(seq int64) noop { return noop{Seq: seq, Text: o.env.Payload} }

func (o *onSQLite) Enqueue(ctx context.Context, from, n int64) error {
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

func (o *onSQLite) EnqueueOne(ctx context.Context, seq int64) error {
	_, err := o.store.Enqueue(ctx, o.args(seq), later.Options{})
	return err
}

func (o *onSQLite) Work(ctx context.Context, ready func(), handle func(seq int64)) error {
	handlers := later.NewHandlers()
	later.Handle(handlers, func(_ context.Context, job *later.Job[noop]) error {
		handle(job.Payload.Seq)
		return nil
	})
	cfg := sqliteConfigs[o.env.Settings].worker
	cfg.Logger = o.log
	w, err := worker.New(o.store, handlers, cfg)
	if err != nil {
		return err
	}
	ready()
	return w.Run(ctx)
}

func (o *onSQLite) Remaining(ctx context.Context) (n int64, err error) {
	err = o.store.DB().QueryRowContext(ctx, `select count(*) from later_job`).Scan(&n)
	return n, err
}

// Close leaves what cannot be closed to the end of the process.
func (o *onSQLite) Close() { _ = o.store.Close() }

package ours

import (
	"context"

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
	jobs
	store *sqlite.Store
}

func openSQLite(ctx context.Context, env contender.Env) (contender.Contender, error) {
	o := &onSQLite{jobs: newJobs(env, sqliteConfigs[env.Settings].worker)}
	if err := o.connect(ctx); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *onSQLite) connect(ctx context.Context) (err error) {
	cfg := sqliteConfigs[o.env.Settings].sqlite
	cfg.Logger = o.worker.Logger
	o.store, err = sqlite.Open(ctx, o.env.URL, cfg)
	o.queue = o.store
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

func (o *onSQLite) Remaining(ctx context.Context) (n int64, err error) {
	err = o.store.DB().QueryRowContext(ctx, `select count(*) from later_job`).Scan(&n)
	return n, err
}

// Close leaves what cannot be closed to the end of the process.
func (o *onSQLite) Close() { _ = o.store.Close() }

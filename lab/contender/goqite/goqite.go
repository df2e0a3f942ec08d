// Package goqite is goqite as a contender.
package goqite

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/sqlitefile"
)

// Definition is goqite on SQLite.
var Definition = contender.Definition{
	Name:    "goqite",
	Version: "0.4.0",
	Settings: map[string]string{
		"defaults": "jobs.Runner with the defaults of jobs.NewRunnerOpts: as many jobs at once as GOMAXPROCS, poll interval 100 ms. " + sqlitefile.Setup,
		"tuned":    "jobs.Runner with Limit 100 and the 10 ms PollInterval of its README. " + sqlitefile.Setup,
		"bench":    "as its own benchmark (goqite_test.go): no jobs.Runner, one goroutine that calls Receive and Delete. " + sqlitefile.Setup,
		"normal": "as bench, with synchronous NORMAL, which is what its README gets from the driver there (mattn/go-sqlite3 is built with " +
			"SQLITE_DEFAULT_WAL_SYNCHRONOUS=1): faster, and the last commits are lost when the power fails",
	},
	Open: open,
}

// config is what a setting means; without a runner, messages are received by hand.
type config struct {
	runner      bool
	opts        jobs.NewRunnerOpts
	synchronous string
}

var configs = map[string]config{
	"defaults": {runner: true, synchronous: sqlitefile.Full},
	"tuned":    {runner: true, opts: jobs.NewRunnerOpts{Limit: 100, PollInterval: 10 * time.Millisecond}, synchronous: sqlitefile.Full},
	"bench":    {synchronous: sqlitefile.Full},
	"normal":   {synchronous: sqlitefile.Normal},
}

// schema is schema_sqlite.sql of the module, which does not embed it.
const schema = `
create table goqite (
  id text primary key default ('m_' || lower(hex(randomblob(16)))),
  created text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  updated text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  queue text not null,
  body blob not null,
  timeout text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  received integer not null default 0,
  priority integer not null default 0
) strict;

create trigger goqite_updated_timestamp after update on goqite begin
  update goqite set updated = strftime('%Y-%m-%dT%H:%M:%fZ') where id = old.id;
end;

create index goqite_queue_priority_created_idx on goqite (queue, priority desc, created);
`

const (
	jobName = "noop"
	// batch is how many jobs share a transaction, which is its way to enqueue
	// many: it has no statement for several. Chosen.
	batch = 5_000
	// poll is how often an empty queue is looked at without a runner: that of its README.
	poll = 10 * time.Millisecond
)

type contestant struct {
	env    contender.Env
	config config
	db     *sql.DB
	queue  *goqite.Queue
}

func open(_ context.Context, env contender.Env) (contender.Contender, error) {
	c := &contestant{env: env, config: configs[env.Settings]}
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *contestant) connect() (err error) {
	if c.db, err = sqlitefile.Open(c.env.URL, c.config.synchronous); err != nil {
		return err
	}
	c.queue = goqite.New(goqite.NewOpts{DB: c.db, Name: "jobs"})
	return nil
}

func (c *contestant) Setup(ctx context.Context) error {
	c.Close()
	if err := sqlitefile.Remove(c.env.URL); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	_, err := c.db.ExecContext(ctx, schema)
	return err
}

// message is the job with this number.
func (c *contestant) message(seq int64) (goqite.Message, error) {
	body, err := json.Marshal(c.env.Job(seq))
	return goqite.Message{Body: body}, err
}

func (c *contestant) Enqueue(ctx context.Context, from, n int64) error {
	for end := from + n; from < end; {
		part := min(batch, end-from)
		if err := c.enqueueTx(ctx, from, part); err != nil {
			return err
		}
		from += part
	}
	return nil
}

func (c *contestant) enqueueTx(ctx context.Context, from, n int64) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit this does nothing
	for seq := from; seq < from+n; seq++ {
		m, err := c.message(seq)
		if err != nil {
			return err
		}
		if c.config.runner {
			_, err = jobs.CreateTx(ctx, tx, c.queue, jobName, m)
		} else {
			err = c.queue.SendTx(ctx, tx, m)
		}
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (c *contestant) EnqueueOne(ctx context.Context, seq int64) error {
	m, err := c.message(seq)
	if err != nil {
		return err
	}
	if c.config.runner {
		_, err = jobs.Create(ctx, c.queue, jobName, m)
		return err
	}
	return c.queue.Send(ctx, m)
}

func (c *contestant) Work(ctx context.Context, ready func(), handle func(contender.Payload)) error {
	noop := func(_ context.Context, body []byte) error {
		var p contender.Payload
		if err := json.Unmarshal(body, &p); err != nil {
			return err
		}
		handle(p)
		return nil
	}
	if !c.config.runner {
		ready()
		return c.receive(ctx, noop)
	}
	opts := c.config.opts
	opts.Queue = c.queue
	opts.Log = errorLog{}
	runner := jobs.NewRunner(opts)
	runner.Register(jobName, noop)
	ready()
	runner.Start(ctx)
	return nil
}

// receive is a worker by hand: receive, handle, delete.
func (c *contestant) receive(ctx context.Context, handle jobs.Func) error {
	for ctx.Err() == nil {
		m, err := c.queue.ReceiveAndWait(ctx, poll)
		if ctx.Err() != nil && m == nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := handle(ctx, m.Body); err != nil {
			return err
		}
		if err := c.queue.Delete(context.WithoutCancel(ctx), m.ID); err != nil {
			return err
		}
	}
	return nil
}

func (c *contestant) Remaining(ctx context.Context) (n int64, err error) {
	err = c.db.QueryRowContext(ctx, `select count(*) from goqite`).Scan(&n)
	return n, err
}

// Close leaves what cannot be closed to the end of the process.
func (c *contestant) Close() { _ = c.db.Close() }

// errorLog passes on what the runner says when an error is among it: it logs two
// lines for each job at the same level, which would be part of what is measured.
type errorLog struct{}

var once sync.Once

func (errorLog) Info(msg string, args ...any) {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "error" {
			// One is enough: the jobs that it costs are seen in the figures.
			once.Do(func() { slog.Warn(msg, args...) })
		}
	}
}

// Package pgq is PgQ as a contender: a log of events with a position for each consumer,
// and no state for each job.
package pgq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/database"
)

// Definition is PgQ on Postgres.
var Definition = contender.Definition{
	Name:    "pgq",
	Version: "3.5 (Debian postgresql-15-pgq3)",
	Settings: map[string]string{
		"defaults": "pgq.ticker() every second, as pgqd does by default, and the queue's default ticker_max_lag of 3 s " +
			"and ticker_max_count of 500; one consumer, as a subscription has; it asks for a batch every 10 ms while there is none",
		"fast": "pgq.ticker() every 100 ms and ticker_max_lag 100 ms",
	},
	Open: open,
}

type config struct {
	tick time.Duration
	lag  string // of the queue's ticker; empty is its default
}

var configs = map[string]config{
	"defaults": {tick: time.Second},
	"fast":     {tick: 100 * time.Millisecond, lag: "100 ms"},
}

const (
	queue    = "lab"
	consumer = "lab"
	// batch is how many events one statement inserts. Chosen, as for the others.
	batch = 5_000
	// idle is how long the consumer waits when there is no batch. Chosen: short
	// beside the ticks, on which its latency depends.
	idle = 10 * time.Millisecond
	// maintain is pgqd's maint_period.
	maintain = 120 * time.Second
)

type contestant struct {
	env    contender.Env
	config config
	pool   *pgxpool.Pool
}

func open(ctx context.Context, env contender.Env) (contender.Contender, error) {
	pool, err := database.Pool(ctx, env.URL, 0)
	if err != nil {
		return nil, err
	}
	return &contestant{env: env, config: configs[env.Settings], pool: pool}, nil
}

func (c *contestant) Setup(ctx context.Context) error {
	if err := database.Empty(ctx, c.pool); err != nil {
		return err
	}
	statements := []string{
		`create extension pgq`,
		`select pgq.create_queue('` + queue + `')`,
		`select pgq.register_consumer('` + queue + `', '` + consumer + `')`,
	}
	if c.config.lag != "" {
		statements = append(statements, `select pgq.set_queue_config('`+queue+`', 'ticker_max_lag', '`+c.config.lag+`')`)
	}
	for _, s := range statements {
		if _, err := c.pool.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (c *contestant) payload(seq int64) (string, error) {
	text, err := json.Marshal(c.env.Job(seq))
	return string(text), err
}

func (c *contestant) Enqueue(ctx context.Context, from, n int64) error {
	// The ticker runs all the time where PgQ is used; here nobody else runs it yet.
	return c.ticking(ctx, func(ctx context.Context) error {
		for end := from + n; from < end; {
			texts := make([]string, min(batch, end-from))
			for i := range texts {
				text, err := c.payload(from)
				if err != nil {
					return err
				}
				texts[i] = text
				from++
			}
			_, err := c.pool.Exec(ctx, `select pgq.insert_event('`+queue+`', 'noop', t) from unnest($1::text[]) t`, texts)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *contestant) EnqueueOne(ctx context.Context, seq int64) error {
	text, err := c.payload(seq)
	if err != nil {
		return err
	}
	_, err = c.pool.Exec(ctx, `select pgq.insert_event('`+queue+`', 'noop', $1)`, text)
	return err
}

func (c *contestant) Work(ctx context.Context, ready func(), handle func(contender.Payload)) error {
	ready()
	return c.ticking(ctx, func(ctx context.Context) error {
		for ctx.Err() == nil {
			found, err := c.one(context.WithoutCancel(ctx), handle)
			if err != nil {
				return err
			}
			if !found {
				select {
				case <-ctx.Done():
				case <-time.After(idle):
				}
			}
		}
		return nil
	})
}

// one handles one batch, if there is one. The batch is read whole: events are about
// 300 bytes in memory, and a second's worth of them is what a tick makes.
func (c *contestant) one(ctx context.Context, handle func(contender.Payload)) (bool, error) {
	var id *int64
	if err := c.pool.QueryRow(ctx, `select pgq.next_batch($1, $2)`, queue, consumer).Scan(&id); err != nil {
		return false, err
	}
	if id == nil {
		return false, nil
	}
	rows, err := c.pool.Query(ctx, `select ev_data from pgq.get_batch_events($1)`, *id)
	if err != nil {
		return false, err
	}
	var text []byte
	if _, err := pgx.ForEachRow(rows, []any{&text}, func() error {
		var p contender.Payload
		if err := json.Unmarshal(text, &p); err != nil {
			return err
		}
		handle(p)
		return nil
	}); err != nil {
		return false, err
	}
	_, err = c.pool.Exec(ctx, `select pgq.finish_batch($1)`, *id)
	return true, err
}

// ticking runs do with what pgqd does beside it.
func (c *contestant) ticking(ctx context.Context, do func(context.Context) error) error {
	tickCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var tickErr error
	var group sync.WaitGroup
	group.Go(func() { tickErr = c.tick(tickCtx) })
	err := do(ctx)
	stop()
	group.Wait()
	return errors.Join(err, tickErr)
}

func (c *contestant) tick(ctx context.Context) error {
	tick := time.NewTicker(c.config.tick)
	defer tick.Stop()
	upkeep := time.NewTicker(maintain)
	defer upkeep.Stop()
	for {
		if _, err := c.pool.Exec(context.WithoutCancel(ctx), `select pgq.ticker()`); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-upkeep.C:
			if err := c.upkeep(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	}
}

// upkeep calls what pgq.maint_operations says is due.
func (c *contestant) upkeep(ctx context.Context) error {
	rows, err := c.pool.Query(ctx, `select func_name, func_arg from pgq.maint_operations()`)
	if err != nil {
		return err
	}
	type operation struct{ Name, Arg *string }
	operations, err := pgx.CollectRows(rows, pgx.RowToStructByPos[operation])
	if err != nil {
		return err
	}
	for _, o := range operations {
		statement := `select ` + *o.Name + `()`
		switch {
		case *o.Name == "vacuum" && o.Arg != nil:
			statement = `vacuum ` + *o.Arg
		case o.Arg != nil:
			statement = `select ` + *o.Name + `('` + *o.Arg + `')`
		}
		if _, err := c.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (c *contestant) Remaining(ctx context.Context) (n int64, err error) {
	err = c.pool.QueryRow(ctx, `select pending_events from pgq.get_consumer_info($1, $2)`, queue, consumer).Scan(&n)
	return n, err
}

func (c *contestant) Close() { c.pool.Close() }

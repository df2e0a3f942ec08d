// Package asynq is Asynq, on Redis, as a contender.
package asynq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/later-queue/later/lab/contender"
)

// Definition is Asynq on Redis.
//
// Its documentation (pkg.go.dev/github.com/hibiken/asynq, type Config) recommends no
// numbers. The concurrency of `bench` is that of its README's quick start and of its
// own benchmarks (benchmark_test.go). A process takes tasks from Redis in one
// goroutine, one by one, so that a higher concurrency brings nothing for short tasks;
// `high` shows it.
var Definition = contender.Definition{
	Name:    "asynq",
	Version: "0.26.0",
	Settings: map[string]string{
		"defaults": "Config's zero value: as many tasks at once as there are processors; an empty queue is asked every second",
		"bench":    "Concurrency 10, as in its README and its benchmarks; TaskCheckInterval 10 ms",
		"high":     "Concurrency 100; TaskCheckInterval 10 ms",
		"queues":   "as bench, with a queue for each tenant, all of the same weight (Config.Queues, its documentation's way against starving)",
	},
	Open: open,
}

// checkInterval is far below what the documentation calls normal ("setting this value
// too low may add significant load to redis"): chosen in favour of its latency.
const checkInterval = 10 * time.Millisecond

var configs = map[string]asynq.Config{
	"defaults": {},
	"bench":    {Concurrency: 10, TaskCheckInterval: checkInterval},
	"high":     {Concurrency: 100, TaskCheckInterval: checkInterval},
	"queues": {Concurrency: 10, TaskCheckInterval: checkInterval,
		Queues: map[string]int{contender.Light: 1, contender.Heavy: 1}},
}

const (
	queue    = "default" // Asynq's default queue, of what has no queue of its own
	taskType = "noop"
	// callers is how many goroutines enqueue many tasks: Asynq has no call for more
	// than one task. Chosen: the default pool has 10 connections per processor.
	callers = 20
)

type contestant struct {
	env       contender.Env
	config    asynq.Config
	option    asynq.RedisConnOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	redis     redis.UniversalClient
}

func open(_ context.Context, env contender.Env) (contender.Contender, error) {
	option, err := asynq.ParseRedisURI(env.URL)
	if err != nil {
		return nil, fmt.Errorf("asynq: %w", err)
	}
	raw, ok := option.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		return nil, errors.New("asynq: no client for this address")
	}
	return &contestant{
		env:       env,
		config:    configs[env.Settings],
		option:    option,
		client:    asynq.NewClient(option),
		inspector: asynq.NewInspector(option),
		redis:     raw,
	}, nil
}

// Setup removes Asynq's own keys only: the server may be somebody's.
func (c *contestant) Setup(ctx context.Context) error {
	keys := c.redis.Scan(ctx, 0, "asynq:*", 1000).Iterator()
	batch := make([]string, 0, 1000)
	remove := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := c.redis.Unlink(ctx, batch...).Err()
		batch = batch[:0]
		return err
	}
	for keys.Next(ctx) {
		if batch = append(batch, keys.Val()); len(batch) == cap(batch) {
			if err := remove(); err != nil {
				return err
			}
		}
	}
	return errors.Join(keys.Err(), remove())
}

func (c *contestant) Enqueue(ctx context.Context, from, n int64) error {
	var next atomic.Int64
	next.Store(from)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for seq := next.Add(1) - 1; seq < from+n; seq = next.Add(1) - 1 {
				if err := c.EnqueueOne(ctx, seq); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

func (c *contestant) EnqueueOne(ctx context.Context, seq int64) error {
	payload, err := json.Marshal(c.env.Job(seq))
	if err != nil {
		return err
	}
	to := queue
	if len(c.config.Queues) > 0 && c.env.Tenant != "" {
		to = c.env.Tenant
	}
	_, err = c.client.EnqueueContext(ctx, asynq.NewTask(taskType, payload), asynq.Queue(to))
	return err
}

func (c *contestant) Work(ctx context.Context, ready func(), handle func(contender.Payload)) error {
	config := c.config
	config.LogLevel = asynq.WarnLevel // Info is what it says at start and stop
	server := asynq.NewServer(c.option, config)
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		var p contender.Payload
		if err := json.Unmarshal(task.Payload(), &p); err != nil {
			return err
		}
		handle(p)
		return nil
	}))
	if err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	server.Shutdown() // waits for the handlers
	return nil
}

// Remaining counts what is not completed; completed tasks are deleted by default.
func (c *contestant) Remaining(context.Context) (int64, error) {
	queues, err := c.inspector.Queues() // those into which something was ever enqueued
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range queues {
		info, err := c.inspector.GetQueueInfo(name)
		if err != nil {
			return 0, err
		}
		n += info.Pending + info.Active + info.Scheduled + info.Retry + info.Archived + info.Aggregating
	}
	return int64(n), nil
}

// Close drops the connections; there is nothing that an error of it could lose.
func (c *contestant) Close() {
	_ = c.client.Close()
	_ = c.inspector.Close()
	_ = c.redis.Close()
}

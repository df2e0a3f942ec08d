// Package table drives a queue that is nothing but SQL: a statement that claims a
// batch, and one that completes it.
package table

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/contender/database"
)

// Config is a queue in SQL, in the table lab_job with the column payload.
type Config struct {
	Schema  string
	Clients int
	Batch   int
	// Claim takes the size of a batch and returns ids and payloads.
	Claim string
	// Complete takes ids. Empty: Claim has done it.
	Complete string
}

// idle is how long a client waits that found no job. Chosen: short, because there
// is nothing else that would tell it.
const idle = 10 * time.Millisecond

// copyBatch is how many rows one COPY has. Chosen, as for the other contenders.
const copyBatch = 5_000

// Queue is such a queue as a contender.
type Queue struct {
	env  contender.Env
	cfg  Config
	pool *pgxpool.Pool
}

// Open connects.
func Open(ctx context.Context, env contender.Env, cfg Config) (*Queue, error) {
	pool, err := database.Pool(ctx, env.URL, max(cfg.Clients, 4))
	if err != nil {
		return nil, err
	}
	return &Queue{env: env, cfg: cfg, pool: pool}, nil
}

// Setup implements contender.Contender.
func (q *Queue) Setup(ctx context.Context) error {
	if err := database.Empty(ctx, q.pool); err != nil {
		return err
	}
	_, err := q.pool.Exec(ctx, q.cfg.Schema)
	return err
}

func (q *Queue) payload(seq int64) (string, error) {
	text, err := json.Marshal(q.env.Job(seq))
	return string(text), err
}

// Enqueue implements contender.Contender, with COPY.
func (q *Queue) Enqueue(ctx context.Context, from, n int64) error {
	for end := from + n; from < end; {
		part := min(copyBatch, end-from)
		first := from
		_, err := q.pool.CopyFrom(ctx, pgx.Identifier{"lab_job"}, []string{"payload"},
			pgx.CopyFromSlice(int(part), func(i int) ([]any, error) {
				text, err := q.payload(first + int64(i))
				return []any{text}, err
			}))
		if err != nil {
			return err
		}
		from += part
	}
	return nil
}

// EnqueueOne implements contender.Contender.
func (q *Queue) EnqueueOne(ctx context.Context, seq int64) error {
	text, err := q.payload(seq)
	if err != nil {
		return err
	}
	_, err = q.pool.Exec(ctx, `insert into lab_job (payload) values ($1)`, text)
	return err
}

// Work implements contender.Contender.
func (q *Queue) Work(ctx context.Context, ready func(), handle func(contender.Payload)) error {
	errs := make([]error, q.cfg.Clients)
	ready()
	var group sync.WaitGroup
	for i := range q.cfg.Clients {
		group.Go(func() { errs[i] = q.client(ctx, handle) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// client claims, handles and completes batches until ctx ends.
func (q *Queue) client(ctx context.Context, handle func(contender.Payload)) error {
	conn, err := q.pool.Acquire(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer conn.Release()
	for ctx.Err() == nil {
		n, err := q.one(context.WithoutCancel(ctx), conn, handle)
		if err != nil {
			return err
		}
		if n == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(idle):
			}
		}
	}
	return nil
}

// one does one batch and returns how many jobs it had.
func (q *Queue) one(ctx context.Context, conn *pgxpool.Conn, handle func(contender.Payload)) (int, error) {
	rows, err := conn.Query(ctx, q.cfg.Claim, q.cfg.Batch)
	if err != nil {
		return 0, err
	}
	var ids []int64
	var jobs []contender.Payload
	var id int64
	var text []byte
	if _, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		var p contender.Payload
		if err := json.Unmarshal(text, &p); err != nil {
			return err
		}
		ids, jobs = append(ids, id), append(jobs, p)
		return nil
	}); err != nil {
		return 0, err
	}
	for _, job := range jobs {
		handle(job)
	}
	if q.cfg.Complete != "" && len(ids) > 0 {
		if _, err := conn.Exec(ctx, q.cfg.Complete, ids); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// Remaining implements contender.Contender.
func (q *Queue) Remaining(ctx context.Context) (n int64, err error) {
	err = q.pool.QueryRow(ctx, `select count(*) from lab_job`).Scan(&n)
	return n, err
}

// Close implements contender.Contender.
func (q *Queue) Close() { q.pool.Close() }

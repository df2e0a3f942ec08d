package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// insertJobs takes all jobs as one text, so that any driver can send it. Within
// it a payload is a text too, and not JSON: what Postgres takes out of JSON may
// be written differently than it was put in. The rows of a function come in the
// order of its array, and so do the ids.
const insertJobs = `
insert into {schema}.job
  (queue, priority, tenant, kind, payload, run_at, max_attempts, timeout_ms, expires_at, headers)
select r.queue, r.priority, r.tenant, r.kind, r.payload::json,
       greatest(now(), coalesce(r.run_at, now() + r.delay_us * interval '1 microsecond')),
       r.max_attempts, r.timeout_ms,
       coalesce(r.expires_at, now() + r.expires_in_us * interval '1 microsecond'),
       r.headers::json
from json_to_recordset($1::text::json) as r (
  queue text, priority smallint, tenant text, kind text, payload text,
  delay_us bigint, run_at timestamptz, max_attempts integer, timeout_ms integer,
  expires_in_us bigint, expires_at timestamptz, headers text)
returning id`

// newRow is a job on its way into insertJobs.
type newRow struct {
	Queue       string     `json:"queue"`
	Priority    int16      `json:"priority"`
	Tenant      string     `json:"tenant"`
	Kind        string     `json:"kind"`
	Payload     string     `json:"payload"`
	DelayUS     int64      `json:"delay_us"`
	RunAt       *time.Time `json:"run_at"`
	MaxAttempts int        `json:"max_attempts"`
	TimeoutMS   int64      `json:"timeout_ms"`
	ExpiresInUS *int64     `json:"expires_in_us"`
	ExpiresAt   *time.Time `json:"expires_at"`
	Headers     *string    `json:"headers"`
}

const (
	// maxChunkBytes and maxChunkJobs bound one statement. A value in Postgres
	// has at most 1 GiB; far below it, memory counts. Chosen, not measured.
	maxChunkBytes = 16 << 20
	maxChunkJobs  = 10_000
)

// Insert implements [later.Inserter]. Several thousand jobs, or very large ones,
// are several statements in one transaction.
func (s *Store) Insert(ctx context.Context, jobs []later.NewJob) ([]later.Enqueued, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	pool, err := s.appPool()
	if err != nil {
		return nil, err
	}
	chunks, err := encodeJobs(jobs)
	if err != nil {
		return nil, err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, s.classify(err)
	}
	defer conn.Release()
	var done []later.Enqueued
	if len(chunks) == 1 {
		done, err = s.insertChunks(ctx, conn, chunks)
	} else {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			done, err = s.insertChunks(ctx, tx, chunks)
			return err
		})
	}
	if err != nil {
		s.leave(ctx, conn, err)
		return nil, s.classify(err)
	}
	return done, nil
}

// queryer is a connection or a transaction of pgx.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (s *Store) insertChunks(ctx context.Context, db queryer, chunks []string) ([]later.Enqueued, error) {
	var done []later.Enqueued
	for _, chunk := range chunks {
		rows, err := db.Query(ctx, s.sql(insertJobs), chunk)
		if err != nil {
			return nil, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			done = append(done, later.Enqueued{ID: id})
		}
	}
	return done, nil
}

// encodeJobs returns the parameters for as many statements as it takes.
func encodeJobs(jobs []later.NewJob) ([]string, error) {
	var chunks []string
	for len(jobs) > 0 {
		rows, size := []newRow{}, 0
		for _, job := range jobs {
			size += len(job.Payload)
			if len(rows) == maxChunkJobs || len(rows) > 0 && size > maxChunkBytes {
				break
			}
			row, err := rowOf(job)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(rows); err != nil {
			return nil, fmt.Errorf("encode %d jobs: %w", len(rows), err)
		}
		chunks = append(chunks, b.String())
		jobs = jobs[len(rows):]
	}
	return chunks, nil
}

func rowOf(job later.NewJob) (newRow, error) {
	row := newRow{
		Queue: job.Queue, Priority: job.Priority, Tenant: job.Tenant, Kind: job.Kind, Payload: string(job.Payload),
		DelayUS: micros(job.Delay), RunAt: instant(job.RunAt),
		MaxAttempts: job.MaxAttempts, TimeoutMS: job.Timeout.Milliseconds(), ExpiresAt: instant(job.ExpiresAt),
	}
	if job.ExpiresIn > 0 {
		us := micros(job.ExpiresIn)
		row.ExpiresInUS = &us
	}
	if job.Headers != nil {
		headers, err := json.Marshal(job.Headers)
		if err != nil {
			return newRow{}, fmt.Errorf("headers: %w", err)
		}
		text := string(headers)
		row.Headers = &text
	}
	return row, nil
}

// instant is t as Postgres keeps it, or nil for none. The first hours of the
// year 1 in another zone are in the year 0 of UTC, which the table refuses; they
// become its first instant.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	if first := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(first) {
		t = first
	}
	return &t
}

package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/later-queue/later"
)

// insertText is [insertRows] for database/sql, some of whose drivers send no arrays: it
// takes all jobs as one text. Within it a payload is a text too, and not JSON: what
// Postgres takes out of JSON may be written differently than it was put in. The rows
// come in the order of the text's array, and so do the ids.
const insertText = `
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

// insertSQLTx inserts jobs without keys in a transaction of database/sql, with as many
// statements as it takes.
func (s *Store) insertSQLTx(ctx context.Context, tx *sql.Tx, jobs []later.NewJob) ([]later.Enqueued, error) {
	var done []later.Enqueued
	for len(jobs) > 0 {
		n := chunkOf(jobs)
		text, err := textOf(jobs[:n])
		if err != nil {
			return nil, err
		}
		ids, err := queryIDs(ctx, tx, s.sql(insertText), text)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			done = append(done, later.Enqueued{ID: id})
		}
		jobs = jobs[n:]
	}
	return done, nil
}

func textOf(jobs []later.NewJob) (string, error) {
	rows, err := rowsOf(jobs)
	if err != nil {
		return "", err
	}
	return jsonText(rows)
}

func jsonText[R any](rows []R) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(rows); err != nil {
		return "", fmt.Errorf("encode %d jobs: %w", len(rows), err)
	}
	return b.String(), nil
}

package postgres

import (
	"encoding/json"
	"time"

	"github.com/later-queue/later"
)

// recordColumns are what [recordRow] scans, of the table j.
const recordColumns = `j.id, j.queue, j.priority, j.tenant, j.kind, j.payload, j.run_at, j.attempt, j.max_attempts,
  j.timeout_ms, j.expires_at, j.headers, j.created_at, j.failures, j.crashes, j.generation, j.errors, j.checkpoint`

// recordRow is a job's row on its way to a [later.Record].
type recordRow struct {
	later.Record
	timeout         int32
	expires         *time.Time
	headers, errors []byte
}

func (r *recordRow) dest() []any {
	return []any{
		&r.ID, &r.Queue, &r.Priority, &r.Tenant, &r.Kind, (*[]byte)(&r.Payload), &r.RunAt, &r.Attempt, &r.MaxAttempts,
		&r.timeout, &r.expires, &r.headers, &r.CreatedAt, &r.Failures, &r.Crashes, &r.Generation, &r.errors, (*[]byte)(&r.Checkpoint),
	}
}

// record returns the job. Headers and errors that somebody has changed by hand
// into what they cannot be are left out and told about: one such row must not
// keep the others of its batch from being claimed.
func (r *recordRow) record(s *Store) later.Record {
	rec := r.Record
	rec.Timeout = time.Duration(r.timeout) * time.Millisecond
	rec.ExpiresAt = timeOrZero(r.expires)
	rec.RunAt, rec.CreatedAt = rec.RunAt.UTC(), rec.CreatedAt.UTC()
	if r.headers != nil {
		if err := json.Unmarshal(r.headers, &rec.Headers); err != nil {
			s.log.Warn("job has headers that do not decode", "job", rec.ID, "kind", rec.Kind, "err", err)
			rec.Headers = nil
		}
	}
	if r.errors != nil {
		if err := json.Unmarshal(r.errors, &rec.Errors); err != nil {
			s.log.Warn("job has errors that do not decode", "job", rec.ID, "kind", rec.Kind, "err", err)
			rec.Errors = nil
		}
	}
	return rec
}

func timeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// micros is d as the database's clock counts.
func micros(d time.Duration) int64 { return d.Microseconds() }

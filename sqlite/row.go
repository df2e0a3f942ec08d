package sqlite

import (
	"database/sql"
	"encoding/json"
	"math"

	"github.com/later-queue/later"
)

// recordColumns are those that jobs and dead jobs have in common.
const recordColumns = `id, queue, priority, tenant, kind, run_at, attempt, max_attempts, timeout_ms, expires_at,
  created_at, failures, crashes, generation, headers, errors, checkpoint, payload`

// jobColumns are a job's.
const jobColumns = recordColumns + `, cancel_at, lease_until, lease_token, lease_holder, claimed_at`

// recordRow scans recordColumns. It takes whatever the table can hold, even
// what was written by hand: a row that does not scan would fail the claim of all
// rows beside it.
type recordRow struct {
	record     later.Record
	priority   int64
	runAt      int64
	attempt    int64
	max        int64
	timeout    int64
	expiresAt  sql.NullInt64
	createdAt  int64
	failures   int64
	crashes    int64
	generation int64
	headers    sql.NullString
	errors     sql.NullString
	checkpoint sql.NullString
}

func (r *recordRow) targets() []any {
	return []any{
		&r.record.ID, &r.record.Queue, &r.priority, &r.record.Tenant, &r.record.Kind, &r.runAt, &r.attempt, &r.max,
		&r.timeout, &r.expiresAt, &r.createdAt, &r.failures, &r.crashes, &r.generation, &r.headers, &r.errors, &r.checkpoint,
		(*[]byte)(&r.record.Payload),
	}
}

func (r *recordRow) value() later.Record {
	rec := r.record
	rec.Priority = int16(min(max(r.priority, math.MinInt16), math.MaxInt16))
	rec.RunAt = toTime(r.runAt)
	rec.Attempt = int(r.attempt)
	rec.MaxAttempts = int(r.max)
	rec.Timeout = toDuration(r.timeout)
	rec.ExpiresAt = toOptionalTime(r.expiresAt)
	rec.CreatedAt = toTime(r.createdAt)
	rec.Failures = int(r.failures)
	rec.Crashes = int(r.crashes)
	rec.Generation = int(r.generation)
	rec.Headers = readHeaders(r.headers)
	rec.Errors = readErrors(r.errors)
	if r.checkpoint.Valid {
		rec.Checkpoint = json.RawMessage(r.checkpoint.String)
	}
	return rec
}

// readHeaders is lenient: a value that is no string, which plain SQL can write,
// is handed on as its JSON.
func readHeaders(text sql.NullString) map[string]string {
	if !text.Valid {
		return nil
	}
	var headers map[string]string
	if json.Unmarshal([]byte(text.String), &headers) == nil {
		return headers
	}
	var raw map[string]json.RawMessage
	if json.Unmarshal([]byte(text.String), &raw) != nil {
		return nil
	}
	headers = make(map[string]string, len(raw))
	for name, value := range raw {
		var s string
		if json.Unmarshal(value, &s) != nil {
			s = string(value)
		}
		headers[name] = s
	}
	return headers
}

// readErrors keeps what it cannot read as the text of one error.
func readErrors(text sql.NullString) []later.AttemptError {
	if !text.Valid {
		return nil
	}
	var errors []later.AttemptError
	if json.Unmarshal([]byte(text.String), &errors) != nil {
		return []later.AttemptError{{Error: later.CleanText(text.String, later.MaxErrorBytes)}}
	}
	return errors
}

// writeErrors is the stored form of a job's history; null without one.
func writeErrors(errors []later.AttemptError) any {
	if len(errors) == 0 {
		return nil
	}
	text, err := json.Marshal(errors)
	if err != nil { // a time outside the years that JSON can carry
		kept := make([]later.AttemptError, len(errors))
		for i, e := range errors {
			kept[i] = later.AttemptError{Attempt: e.Attempt, Worker: e.Worker, Error: e.Error}
		}
		text, _ = json.Marshal(kept) // without times nothing is left that could fail
	}
	return string(text)
}

// writeHeaders is the stored form of headers; null without any.
func writeHeaders(headers map[string]string) any {
	if len(headers) == 0 {
		return nil
	}
	text, _ := json.Marshal(headers) // a map of strings always encodes
	return string(text)
}

// jobRow scans jobColumns.
type jobRow struct {
	recordRow
	cancelAt    sql.NullInt64
	leaseUntil  sql.NullInt64
	leaseToken  sql.NullInt64
	leaseHolder sql.NullString
	claimedAt   sql.NullInt64
}

func (r *jobRow) targets() []any {
	return append(r.recordRow.targets(), &r.cancelAt, &r.leaseUntil, &r.leaseToken, &r.leaseHolder, &r.claimedAt)
}

package sqlite

import (
	"database/sql"

	"github.com/later-queue/later"
)

const logColumns = `job_id, attempt, queue, kind, tenant, outcome, worker, started_at, finished_at, error`

const insertLog = `
insert into later_job_log (job_id, attempt, queue, kind, tenant, outcome, worker, started_at, finished_at, error)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// logRow is a finished attempt, or the end of a job that never ran.
type logRow struct {
	job       int64
	attempt   int64
	queue     string
	kind      string
	tenant    string
	worker    sql.NullString
	startedAt sql.NullInt64
}

// record writes l into the log, unless the log is off.
func (s *Store) record(tx transaction, l logRow, outcome later.Outcome, finishedAt int64, text string) error {
	if s.config.NoLog {
		return nil
	}
	_, err := tx.exec(insertLog, l.job, l.attempt, l.queue, l.kind, l.tenant, string(outcome), l.worker, l.startedAt,
		finishedAt, nullText(text))
	return err
}

// nullText is how an error is stored; null without one.
func nullText(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }

// attemptColumns are what an operation that ends an attempt returns for the log.
const attemptColumns = `id, attempt, queue, kind, tenant, lease_holder, claimed_at`

func (l *logRow) targets() []any {
	return []any{&l.job, &l.attempt, &l.queue, &l.kind, &l.tenant, &l.worker, &l.startedAt}
}

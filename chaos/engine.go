package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the application's own connections to Postgres

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
	"github.com/later-queue/later/sqlite"
)

// engine is a store together with the application's own table in the same
// database, and the raw look at the store's tables that the check needs.
type engine struct {
	later.Store
	db     *sql.DB
	doneTx func(ctx context.Context, tx *sql.Tx, job later.Held) error
	sql    dialect
}

// dialect is what the two databases do not share.
type dialect struct {
	createEffects, insertEffect          string
	countWaiting, log, dead, countEffect string
}

var postgresDialect = dialect{
	createEffects: `create table if not exists chaos_effect (job_id bigint not null, n bigint not null)`,
	insertEffect:  `insert into chaos_effect (job_id, n) values ($1, $2)`,
	countWaiting:  `select count(*) from later.job`,
	log:           `select job_id, attempt, outcome, coalesce(worker, '') from later.job_log`,
	dead:          `select id, reason, coalesce(errors::text, '[]') from later.dead_job`,
	countEffect:   `select job_id, count(*) from chaos_effect group by job_id`,
}

var sqliteDialect = dialect{
	createEffects: `create table if not exists chaos_effect (job_id integer not null, n integer not null)`,
	insertEffect:  `insert into chaos_effect (job_id, n) values (?1, ?2)`,
	countWaiting:  `select count(*) from later_job`,
	log:           `select job_id, attempt, outcome, coalesce(worker, '') from later_job_log`,
	dead:          `select id, reason, coalesce(errors, '[]') from later_dead_job`,
	countEffect:   `select job_id, count(*) from chaos_effect group by job_id`,
}

// openEngine opens postgres://… or sqlite:path.
func openEngine(ctx context.Context, url string) (*engine, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		store, err := sqlite.Open(ctx, path, sqlite.Config{})
		if err != nil {
			return nil, err
		}
		return &engine{Store: store, db: store.DB(), doneTx: store.DoneSQLTx, sql: sqliteDialect}, nil
	}
	store, err := postgres.Open(ctx, url, postgres.Config{})
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	return &engine{Store: store, db: db, doneTx: store.DoneSQLTx, sql: postgresDialect}, nil
}

// setUp creates the tables of the store and of the application.
func (e *engine) setUp(ctx context.Context) error {
	if err := e.Migrate(ctx); err != nil {
		return err
	}
	if _, err := e.db.ExecContext(ctx, e.sql.createEffects); err != nil {
		return fmt.Errorf("create the effects' table: %w", err)
	}
	return nil
}

// doneInTx stands in the log where an outcome does, for a settle by DoneTx.
const doneInTx = "done-tx"

// effectAndDone writes the effect of a job and ends the job in one transaction.
func (e *engine) effectAndDone(ctx context.Context, job later.Held, n int64, log *recorder) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, e.sql.insertEffect, job.HeldLease().ID, n); err != nil {
		return fmt.Errorf("insert effect: %w", err)
	}
	if err := e.doneTx(ctx, tx, job); err != nil {
		return err
	}
	sent := now()
	log.add(leaseEvent(evSend, sent, 0, job.HeldLease(), doneInTx))
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	log.add(leaseEvent(evAccept, sent, now(), job.HeldLease(), doneInTx))
	return nil
}

// waiting counts the jobs that have not ended.
func (e *engine) waiting(ctx context.Context) (n int, err error) {
	return n, e.db.QueryRowContext(ctx, e.sql.countWaiting).Scan(&n)
}

// truth reads what the tables say, past the store's own code.
func (e *engine) truth(ctx context.Context) (truth, error) {
	t := truth{dead: map[int64]later.JobInfo{}, effects: map[int64]int{}}
	var err error
	if t.waiting, err = e.waiting(ctx); err != nil {
		return t, fmt.Errorf("count what waits: %w", err)
	}
	err = e.each(ctx, e.sql.log, func(rows *sql.Rows) error {
		var entry later.LogEntry
		err := rows.Scan(&entry.JobID, &entry.Attempt, &entry.Outcome, &entry.Worker)
		t.log = append(t.log, entry)
		return err
	})
	if err != nil {
		return t, fmt.Errorf("read the log: %w", err)
	}
	err = e.each(ctx, e.sql.dead, func(rows *sql.Rows) error {
		var job later.JobInfo
		var errors string
		if err := rows.Scan(&job.ID, &job.DeadReason, &errors); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(errors), &job.Errors); err != nil {
			return fmt.Errorf("errors of dead job %d: %w", job.ID, err)
		}
		t.dead[job.ID] = job
		return nil
	})
	if err != nil {
		return t, fmt.Errorf("read the dead jobs: %w", err)
	}
	err = e.each(ctx, e.sql.countEffect, func(rows *sql.Rows) error {
		var id int64
		var count int
		err := rows.Scan(&id, &count)
		t.effects[id] = count
		return err
	})
	if err != nil {
		return t, fmt.Errorf("read the effects: %w", err)
	}
	return t, nil
}

func (e *engine) each(ctx context.Context, query string, scan func(*sql.Rows) error) error {
	rows, err := e.db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

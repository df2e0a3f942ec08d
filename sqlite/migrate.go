package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/migration"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations are this program's, by version.
var migrations = loadMigrations()

func loadMigrations() []migration.Migration {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err)
	}
	list, err := migration.Load(files)
	if err != nil {
		panic(err)
	}
	return list
}

const (
	createMigrations = `
create table if not exists later_migration (
  version     integer primary key,
  name        text    not null,
  oldest      integer not null, -- the oldest program, by the version it was built for, that works with this
  applied_at  integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
) strict`

	selectMigrationTable = `select count(*) from sqlite_schema where type = 'table' and name = 'later_migration'`
	selectMigrations     = `select version, name, oldest, applied_at from later_migration order by version`
	insertMigration      = `insert into later_migration (version, name, oldest) values (?, ?, ?)`
	deleteMigration      = `delete from later_migration where version = ?`
	dropMigrations       = `drop table later_migration`
)

// applied is a migration as the database knows it.
type applied struct {
	version int
	name    string
	oldest  int
	at      time.Time
}

// querier is the part of a transaction or a pool that reads.
type querier interface {
	query(query string, args ...any) (*sql.Rows, error)
	queryRow(query string, args ...any) *sql.Row
}

func readApplied(q querier) ([]applied, error) {
	var tables int
	if err := q.queryRow(selectMigrationTable).Scan(&tables); err != nil || tables == 0 {
		return nil, err
	}
	rows, err := q.query(selectMigrations)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []applied
	for rows.Next() {
		var a applied
		var at int64
		if err := rows.Scan(&a.version, &a.name, &a.oldest, &at); err != nil {
			return nil, err
		}
		a.at = toTime(at)
		list = append(list, a)
	}
	return list, rows.Err()
}

// Migrate brings the tables to the newest version that this program knows, in
// one transaction. It leaves a file of a newer version alone, and fails with
// [later.ErrSchema] when this program cannot work with that.
func (s *Store) Migrate(ctx context.Context) error {
	if s.CheckSchema(ctx) == nil {
		return nil // without taking the write lock
	}
	err := s.writer.do(ctx, maxBatchRows, func(tx *writeTx) error {
		if err := tx.script(createMigrations); err != nil {
			return err
		}
		have, err := readApplied(tx)
		if err != nil {
			return err
		}
		for _, m := range missing(have) {
			if err := tx.script(m.Up); err != nil {
				return fmt.Errorf("version %d (%s): %w", m.Version, m.Name, err)
			}
			if _, err := tx.exec(insertMigration, m.Version, m.Name, m.Oldest); err != nil {
				return fmt.Errorf("version %d (%s): %w", m.Version, m.Name, err)
			}
		}
		return nil
	})
	if err == nil {
		err = s.CheckSchema(ctx)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func missing(have []applied) []migration.Migration {
	known := map[int]bool{}
	for _, a := range have {
		known[a.version] = true
	}
	var list []migration.Migration
	for _, m := range migrations {
		if !known[m.Version] {
			list = append(list, m)
		}
	}
	return list
}

// CheckSchema implements [later.Store]. It also looks whether each table has
// the columns that this program uses.
func (s *Store) CheckSchema(ctx context.Context) error {
	q := s.reader(ctx)
	have, err := readApplied(q)
	if err != nil {
		return fmt.Errorf("check schema: %w", explain(err))
	}
	if list := missing(have); len(list) > 0 {
		return fmt.Errorf("check schema: %w: version %d (%s) has not been applied; run `later migrate up`, or open the store without NoMigrate",
			later.ErrSchema, list[0].Version, list[0].Name)
	}
	newest := len(migrations)
	for _, a := range have {
		if a.version > newest && a.oldest > newest {
			return fmt.Errorf("check schema: %w: the database has version %d (%s), which needs a program built for version %d or later, and this one knows %d; update this program",
				later.ErrSchema, a.version, a.name, a.oldest, newest)
		}
	}
	for _, probe := range columnProbes {
		rows, err := q.query(probe)
		if err != nil {
			return fmt.Errorf("check schema: %w", explain(err))
		}
		rows.Close()
	}
	return nil
}

// columnProbes fail, and name the column, where one is missing.
var columnProbes = []string{
	"select " + jobColumns + ", " + keyColumns + " from later_job limit 0",
	"select " + deadColumns + " from later_dead_job limit 0",
	"select " + logColumns + " from later_job_log limit 0",
	"select " + workerColumns + " from later_worker limit 0",
	"select tenant, kind, key, ends_at, job_id from later_key_window limit 0",
	"select scope, name, paused_at, paused_by, reason, set_at, set_by, " + limitColumns + " from later_gate limit 0",
	"select one, version from later_gate_version limit 0",
	"select scope, name, running, tat_us from later_gate_state limit 0",
}

// MigrateDown implements [later.Migrator].
func (s *Store) MigrateDown(ctx context.Context, version int) error {
	if version < 0 || version > len(migrations) {
		return fmt.Errorf("migrate down: version %d does not exist; versions go from 0 to %d", version, len(migrations))
	}
	err := s.writer.do(ctx, maxBatchRows, func(tx *writeTx) error {
		have, err := readApplied(tx)
		if err != nil {
			return err
		}
		for i := len(have) - 1; i >= 0 && have[i].version > version; i-- {
			a := have[i]
			if a.version > len(migrations) {
				return fmt.Errorf("%w: version %d (%s) is not known to this program, so it cannot be undone by it", later.ErrSchema, a.version, a.name)
			}
			if err := tx.script(migrations[a.version-1].Down); err != nil {
				return fmt.Errorf("version %d (%s): %w", a.version, a.name, err)
			}
			if _, err := tx.exec(deleteMigration, a.version); err != nil {
				return err
			}
		}
		if version == 0 && have != nil {
			return tx.script(dropMigrations)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("migrate down: %w", err)
	}
	return nil
}

// Migrations implements [later.Migrator].
func (s *Store) Migrations(ctx context.Context) ([]later.MigrationStatus, error) {
	have, err := readApplied(s.reader(ctx))
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", explain(err))
	}
	var list []later.MigrationStatus
	for _, m := range migrations {
		list = append(list, later.MigrationStatus{Version: m.Version, Name: m.Name, Known: true})
	}
	for _, a := range have {
		if a.version <= len(migrations) {
			list[a.version-1].AppliedAt = a.at
			continue
		}
		list = append(list, later.MigrationStatus{Version: a.version, Name: a.name, AppliedAt: a.at})
	}
	return list, nil
}

// MigrationSQL implements [later.Migrator]. The SQL also keeps the table by
// which this program knows what has been applied.
func (s *Store) MigrationSQL(down bool) string {
	var b strings.Builder
	if down {
		for i := len(migrations) - 1; i >= 0; i-- {
			fmt.Fprintf(&b, "%s\n", strings.TrimSpace(migrations[i].Down))
		}
		fmt.Fprintf(&b, "%s;\n", dropMigrations)
		return b.String()
	}
	fmt.Fprintf(&b, "%s;\n", strings.TrimSpace(createMigrations))
	for _, m := range migrations {
		fmt.Fprintf(&b, "\n%s\n\ninsert into later_migration (version, name, oldest) values (%d, '%s', %d);\n",
			strings.TrimSpace(m.Up), m.Version, m.Name, m.Oldest)
	}
	return b.String()
}

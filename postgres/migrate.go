package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/migration"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations are this program's, by version from 1.
var migrations = mustLoad()

func mustLoad() []migration.Migration {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err == nil {
		var list []migration.Migration
		if list, err = migration.Load(files); err == nil {
			return list
		}
	}
	panic("postgres: " + err.Error()) // the files are part of the program
}

// lockTimeout is how long one migrator waits for another, or for a table that
// somebody uses, before it gives up. Chosen: longer than a migration of tables of
// a sane size takes, and short enough for a deployment to notice.
const lockTimeout = time.Minute

// quoting makes the migrations mean the same in every session.
const quoting = "set local standard_conforming_strings = on;\n"

// createMigration makes what records the migrations. The schema is only made
// where it is missing, so that a role that may not create schemas can migrate
// one that was made for it.
const createMigration = `
create table if not exists {schema}.migration (
  version    integer primary key,
  name       text not null,
  oldest     integer not null,
  applied_at timestamptz not null default now()
);
comment on table {schema}.migration is
  'The versions of these tables; oldest is the oldest program that works with one';
`

const (
	schemaExists   = `select exists (select from pg_namespace where nspname = $1)`
	migrationTable = `select to_regclass($1) is not null`
	readMigrations = `select version, name, oldest, applied_at from {schema}.migration order by version`
	addMigration   = `insert into {schema}.migration (version, name, oldest) values ($1, $2, $3)`
	dropVersion    = `delete from {schema}.migration where version = $1`
	serverEncoding = `select current_setting('server_encoding')`
	// schemaMark on a schema means that Migrate made it, so MigrateDown may
	// drop it.
	schemaMark = `Later: background jobs`
	isOurs     = `select obj_description(oid, 'pg_namespace') = $2 from pg_namespace where nspname = $1`
)

// Migrate implements [later.Store]. Each migration is a transaction of its own,
// and the step that records it is part of it: a migrator that was killed leaves
// whole versions, and the next one goes on from there. Several at once wait for
// each other, up to a minute. Rights to single columns outlive a migration that makes
// the column anew. A view of your own on such a column is in its way: the error names
// it, and nothing has changed.
func (s *Store) Migrate(ctx context.Context) error {
	for {
		again, err := s.migrateOne(ctx)
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		if !again {
			break
		}
	}
	return s.Maintain(ctx)
}

// migrateOne applies the next missing migration, if there is one.
func (s *Store) migrateOne(ctx context.Context) (again bool, err error) {
	err = s.locked(ctx, func(tx pgx.Tx) error {
		if err := s.prepareSchema(ctx, tx); err != nil {
			return err
		}
		applied, err := s.applied(ctx, tx)
		if err != nil {
			return err
		}
		for _, m := range migrations {
			if slices.ContainsFunc(applied, func(a appliedMigration) bool { return a.Version == m.Version }) {
				continue
			}
			again = true
			if err := s.step(ctx, tx, m.Version, m.Name, m.Up); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, s.sql(addMigration), m.Version, m.Name, m.Oldest)
			return err
		}
		return nil
	})
	return again, err
}

func (s *Store) prepareSchema(ctx context.Context, tx pgx.Tx) error {
	var encoding string
	if err := tx.QueryRow(ctx, serverEncoding).Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: the database's encoding is %s; it must be UTF8, or some payloads could not be stored", later.ErrSchema, encoding)
	}
	var exists bool
	if err := tx.QueryRow(ctx, schemaExists, s.name).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if err := execScript(ctx, tx, s.sql(createSchema)); err != nil {
			return err
		}
	}
	exists, err := s.hasMigrationTable(ctx, tx)
	if err != nil || exists {
		return err
	}
	return execScript(ctx, tx, s.sql(createMigration))
}

const createSchema = `
create schema {schema};
comment on schema {schema} is '` + schemaMark + `';
`

// MigrateDown implements [later.Migrator]. Version 0 also drops the schema, if
// Migrate made it and nobody has put anything else into it.
func (s *Store) MigrateDown(ctx context.Context, version int) error {
	if version < 0 || version > len(migrations) {
		return fmt.Errorf("migrate down: version %d is not from 0 to %d", version, len(migrations))
	}
	for {
		again, err := s.migrateOneDown(ctx, version)
		if err != nil {
			return fmt.Errorf("migrate down to version %d: %w", version, err)
		}
		if !again {
			return nil
		}
	}
}

func (s *Store) migrateOneDown(ctx context.Context, version int) (again bool, err error) {
	err = s.locked(ctx, func(tx pgx.Tx) error {
		exists, err := s.hasMigrationTable(ctx, tx)
		if err != nil || !exists {
			return err
		}
		applied, err := s.applied(ctx, tx)
		if err != nil {
			return err
		}
		if len(applied) > 0 && applied[len(applied)-1].Version > version {
			top := applied[len(applied)-1]
			if top.Version > len(migrations) {
				return fmt.Errorf("%w: version %d (%s) was made by a newer program, which must undo it", later.ErrSchema, top.Version, top.Name)
			}
			again = true
			if err := s.step(ctx, tx, top.Version, top.Name, migrations[top.Version-1].Down); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, s.sql(dropVersion), top.Version)
			return err
		}
		if version > 0 {
			return nil
		}
		if err := execScript(ctx, tx, s.sql("drop table {schema}.migration")); err != nil {
			return err
		}
		return s.dropSchema(ctx, tx)
	})
	return again, err
}

func (s *Store) dropSchema(ctx context.Context, tx pgx.Tx) error {
	var ours *bool
	if err := tx.QueryRow(ctx, isOurs, s.name, schemaMark).Scan(&ours); err != nil {
		return err
	}
	if ours == nil || !*ours {
		return nil
	}
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		return execScript(ctx, tx, s.sql("drop schema {schema}"))
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "2BP01" {
		return nil // something else is in it
	}
	return err
}

// Migrations implements [later.Migrator].
func (s *Store) Migrations(ctx context.Context) ([]later.MigrationStatus, error) {
	pool, err := s.appPool()
	if err != nil {
		return nil, err
	}
	applied, err := s.appliedIfAny(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", s.classify(err))
	}
	byVersion := map[int]later.MigrationStatus{}
	for _, a := range applied {
		byVersion[a.Version] = later.MigrationStatus{Version: a.Version, Name: a.Name, AppliedAt: a.AppliedAt.UTC()}
	}
	for _, m := range migrations {
		status := byVersion[m.Version]
		status.Version, status.Name, status.Known = m.Version, m.Name, true
		byVersion[m.Version] = status
	}
	list := make([]later.MigrationStatus, 0, len(byVersion))
	for _, status := range byVersion {
		list = append(list, status)
	}
	slices.SortFunc(list, func(a, b later.MigrationStatus) int { return a.Version - b.Version })
	return list, nil
}

// MigrationSQL implements [later.Migrator]. Run it in one transaction (psql -1).
func (s *Store) MigrationSQL(down bool) string {
	var b strings.Builder
	b.WriteString("-- Run this in one transaction.\n" + quoting)
	if !down {
		b.WriteString(strings.Replace(createSchema, "create schema", "create schema if not exists", 1) + createMigration)
		for _, m := range migrations {
			fmt.Fprintf(&b, "\n%s\ninsert into {schema}.migration (version, name, oldest) values (%d, '%s', %d);\n", m.Up, m.Version, m.Name, m.Oldest)
		}
		return s.sql(b.String())
	}
	for _, m := range slices.Backward(migrations) {
		fmt.Fprintf(&b, "\n-- version %d (%s)\n%s\ndelete from {schema}.migration where version = %d;\n", m.Version, m.Name, m.Down, m.Version)
	}
	b.WriteString("\ndrop table {schema}.migration;\ndrop schema {schema};\n")
	return s.sql(b.String())
}

// locked runs fn in a transaction that no other migration of this schema runs
// beside. The lock belongs to the transaction, so it works through a pooler.
func (s *Store) locked(ctx context.Context, fn func(tx pgx.Tx) error) error {
	pool, err := s.appPool()
	if err != nil {
		return err
	}
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if err := execScript(ctx, tx, fmt.Sprintf("set local lock_timeout = %d;\n%s", lockTimeout.Milliseconds(), quoting)); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended($1::text, 0))", "later migrate "+s.name); err != nil {
				return fmt.Errorf("wait for another migration: %w", err)
			}
			return fn(tx)
		})
		s.leave(ctx, conn, err)
		return err
	})
	return s.classify(err)
}

// execScript runs several statements as one simple query, within tx.
func execScript(ctx context.Context, tx pgx.Tx, script string) error {
	_, err := tx.Conn().PgConn().Exec(ctx, script).ReadAll()
	return err
}

type appliedMigration struct {
	Version   int
	Name      string
	Oldest    int
	AppliedAt time.Time
}

// rowser is a pool, a connection or a transaction.
type rowser interface {
	queryer
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (s *Store) hasMigrationTable(ctx context.Context, db rowser) (exists bool, err error) {
	err = db.QueryRow(ctx, migrationTable, s.schema+".migration").Scan(&exists)
	return exists, err
}

func (s *Store) applied(ctx context.Context, db rowser) ([]appliedMigration, error) {
	rows, err := db.Query(ctx, s.sql(readMigrations))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[appliedMigration])
}

func (s *Store) appliedIfAny(ctx context.Context, db rowser) ([]appliedMigration, error) {
	exists, err := s.hasMigrationTable(ctx, db)
	if err != nil || !exists {
		return nil, err
	}
	return s.applied(ctx, db)
}

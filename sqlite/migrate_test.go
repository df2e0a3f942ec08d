package sqlite_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

// schema is what the file's tables, indexes and views are made of.
func schema(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.Query(`select type, name, coalesce(sql, '') from sqlite_schema where name <> 'sqlite_sequence' order by type, name`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var kind, name, text string
		if err := rows.Scan(&kind, &name, &text); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, kind, name, text)
	}
	return b.String()
}

func TestMigrate(t *testing.T) {
	// Case 227.
	t.Run("up, down and up again gives the same schema, and down leaves nothing", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{})
		want := schema(t, s.DB())
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := schema(t, s.DB()); got != want {
			t.Errorf("a second Migrate changed the schema to\n%s", got)
		}
		if err := s.MigrateDown(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := schema(t, s.DB()); got != "" {
			t.Errorf("after MigrateDown there is\n%s", got)
		}
		wantError(t, s.CheckSchema(t.Context()), later.ErrSchema)
		if err := s.MigrateDown(t.Context(), 0); err != nil {
			t.Errorf("a second MigrateDown: %v", err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := schema(t, s.DB()); got != want {
			t.Errorf("up again gives\n%swant\n%s", got, want)
		}
		enqueue(t, s, later.Options{})
	})

	t.Run("as SQL gives the same schema", func(t *testing.T) {
		want := schema(t, openStore(t, tempFile(t), sqlite.Config{}).DB())
		path := tempFile(t)
		s := openStore(t, path, sqlite.Config{NoMigrate: true})
		wantError(t, s.CheckSchema(t.Context()), later.ErrSchema)
		db := plain(t, path)
		mustExec(t, db, s.MigrationSQL(false))
		if got := schema(t, db); got != want {
			t.Errorf("MigrationSQL gives\n%swant\n%s", got, want)
		}
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		mustExec(t, db, s.MigrationSQL(true))
		if got := schema(t, db); got != "" {
			t.Errorf("after the way down there is\n%s", got)
		}
	})

	t.Run("lists what is applied", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{NoMigrate: true})
		list, err := s.Migrations(t.Context())
		if err != nil || len(list) == 0 || list[0].Name != "jobs" || !list[0].AppliedAt.IsZero() || !list[0].Known {
			t.Errorf("before: %+v, %v", list, err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err = s.Migrations(t.Context())
		if err != nil || list[0].Version != 1 || list[0].AppliedAt.IsZero() {
			t.Errorf("after: %+v, %v", list, err)
		}
	})

	// Case 230.
	t.Run("is done once by many at a time", func(t *testing.T) {
		path := tempFile(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Enqueue(t.Context(), work, later.Options{}); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := one[int](t, plain(t, path), `select count(*) from later_job`); got != 8 {
			t.Errorf("%d jobs, want 8", got)
		}
	})

	t.Run("is done wholly or not at all", func(t *testing.T) {
		path := tempFile(t)
		db := plain(t, path)
		mustExec(t, db, `create table later_worker (in_the_way integer)`)
		_, err := sqlite.Open(t.Context(), path, sqlite.Config{})
		wantErrorText(t, err, "later_worker already exists")
		if got := one[int](t, db, `select count(*) from sqlite_schema where name like 'later%'`); got != 1 {
			t.Errorf("%d objects, want the one in the way", got)
		}
	})

	// Case 229: old and new programs on one file.
	t.Run("leaves a newer schema alone, and refuses one that is too new", func(t *testing.T) {
		path := tempFile(t)
		s := openStore(t, path, sqlite.Config{})
		mustExec(t, s.DB(), `insert into later_migration (version, name, oldest) values (98, 'additive', 1)`)
		again := openStore(t, path, sqlite.Config{})
		enqueue(t, again, later.Options{})
		list, err := again.Migrations(t.Context())
		if err != nil || len(list) < 2 || list[len(list)-1].Known || list[len(list)-1].Version != 98 {
			t.Errorf("got %+v, %v, want an unknown version 98", list, err)
		}
		wantError(t, again.MigrateDown(t.Context(), 0), later.ErrSchema)

		mustExec(t, s.DB(), `insert into later_migration (version, name, oldest) values (99, 'breaking', 99)`)
		_, err = sqlite.Open(t.Context(), path, sqlite.Config{})
		wantError(t, err, later.ErrSchema)
		wantErrorText(t, err, "update this program")
	})

	// Case 233.
	t.Run("finds a column that is missing, and names it", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{})
		mustExec(t, s.DB(), `alter table later_worker drop column version`)
		err := s.CheckSchema(t.Context())
		wantError(t, err, later.ErrSchema)
		wantErrorText(t, err, "version")
	})

	t.Run("refuses a version that does not exist", func(t *testing.T) {
		s := openStore(t, tempFile(t), sqlite.Config{})
		for _, version := range []int{-1, 1000} {
			if err := s.MigrateDown(t.Context(), version); err == nil {
				t.Errorf("MigrateDown(%d) succeeded", version)
			}
		}
	})
}

func TestMissingTables(t *testing.T) {
	s := openStore(t, ":memory:", sqlite.Config{NoMigrate: true})
	ctx := t.Context()
	_, err := s.Enqueue(ctx, work, later.Options{})
	wantError(t, err, later.ErrSchema)
	_, err = s.Claim(ctx, request(1))
	wantError(t, err, later.ErrSchema)
	_, err = s.Settle(ctx, []later.Settlement{{Lease: later.Lease{ID: 1, Token: 1}, Outcome: later.OutcomeDone}})
	wantError(t, err, later.ErrSchema)
	_, err = s.Status(ctx)
	wantError(t, err, later.ErrSchema)
	_, err = s.List(ctx, later.Filter{})
	wantError(t, err, later.ErrSchema)
	wantError(t, s.Maintain(ctx), later.ErrSchema)
	// It works as soon as the tables are there.
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, later.Options{})
}

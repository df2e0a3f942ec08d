package testdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later/internal/testdb"
)

// recorder is a test that keeps its failure and its cleanups to itself.
type recorder struct {
	testing.TB
	fatal    string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	panic(r)
}

func (r *recorder) run(f func()) {
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
	}()
	f()
}

func TestMissingDatabase(t *testing.T) {
	for name, ask := range map[string]func(testing.TB) string{
		testdb.PostgresEnv:  testdb.Postgres,
		testdb.PgBouncerEnv: testdb.PgBouncer,
	} {
		t.Run("fails the test and says how to run it: "+name, func(t *testing.T) {
			t.Setenv(name, "")
			r := &recorder{TB: t}
			r.run(func() { ask(r) })
			if !strings.Contains(r.fatal, name) || !strings.Contains(r.fatal, "make test") {
				t.Errorf("got %q, want the variable and `make test` in it", r.fatal)
			}
		})
	}
}

func TestSchema(t *testing.T) {
	for name, url := range map[string]string{"Postgres": testdb.Postgres(t), "PgBouncer": testdb.PgBouncer(t)} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			cfg, err := pgx.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
			conn, err := pgx.ConnectConfig(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)

			r := &recorder{TB: t}
			schema := testdb.Schema(r, url)
			if other := testdb.Schema(t, url); other == schema {
				t.Errorf("got the name %q twice, want fresh ones", schema)
			}
			for _, sql := range []string{"create schema " + schema, "create table " + schema + ".t (n int)"} {
				if _, err := conn.Exec(ctx, sql); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range r.cleanups {
				f()
			}
			var left int
			if err := conn.QueryRow(ctx, "select count(*) from pg_namespace where nspname = $1", schema).Scan(&left); err != nil {
				t.Fatal(err)
			}
			if left != 0 {
				t.Errorf("schema %s is left after the test's end, want it dropped", schema)
			}
		})
	}
}

func TestOwn(t *testing.T) {
	server := testdb.Own(t, map[string]string{"work_mem": "7MB"})
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var got string
	if err := conn.QueryRow(t.Context(), "show work_mem").Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != "7MB" {
		t.Errorf("got work_mem %s, want 7MB", got)
	}
}

func TestDatabase(t *testing.T) {
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, testdb.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)

	r := &recorder{TB: t}
	owner, app, role := testdb.Database(r, testdb.Postgres(t))
	var databases []string
	for url, super := range map[string]bool{owner: true, app: false} {
		inside, err := pgx.Connect(ctx, url) // and it stays connected
		if err != nil {
			t.Fatal(err)
		}
		defer inside.Close(ctx)
		var database, user string
		var got bool
		err = inside.QueryRow(ctx, "select current_database(), current_user, rolsuper from pg_roles where rolname = current_user").Scan(&database, &user, &got)
		if err != nil {
			t.Fatal(err)
		}
		if got != super || (user == role) == super {
			t.Errorf("%s: got the user %s, a superuser: %t; want %t", url, user, got, super)
		}
		databases = append(databases, database)
	}
	if databases[0] != databases[1] || databases[0] == "postgres" {
		t.Errorf("got the databases %v, want one of its own", databases)
	}
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	var left int
	err = conn.QueryRow(ctx, `select (select count(*) from pg_database where datname = $1)
		+ (select count(*) from pg_roles where rolname = $2)`, databases[0], role).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("got %d left of database %s and role %s, %v; want both dropped", left, databases[0], role, err)
	}
}

// Package testdb gives tests their databases: the shared servers that `make test`
// has started, or a cluster of one's own.
//
// A missing database fails a test. It never skips one: a green run means that
// everything ran.
package testdb

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later/internal/pgserver"
)

// The variables that carry the addresses of the shared servers.
const (
	PostgresEnv  = "LATER_TEST_POSTGRES"
	PgBouncerEnv = "LATER_TEST_PGBOUNCER"
)

// Postgres returns the address of the shared PostgreSQL server, as its superuser.
// Tests of several packages use it at the same time: take a [Schema] of your own in it.
func Postgres(t testing.TB) string {
	t.Helper()
	return fromEnv(t, PostgresEnv)
}

// PgBouncer returns the address of the shared PgBouncer, in transaction pooling mode,
// in front of the server of [Postgres].
func PgBouncer(t testing.TB) string {
	t.Helper()
	return fromEnv(t, PgBouncerEnv)
}

// Schema returns a fresh random name for a schema in the database at url. It does not
// make the schema; it drops whatever is there under this name when the test ends.
func Schema(t testing.TB, url string) string {
	t.Helper()
	name := "later_test_" + strings.ToLower(rand.Text()[:12])
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			t.Errorf("testdb: drop schema %s: %v", name, err)
			return
		}
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // for PgBouncer
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			t.Errorf("testdb: drop schema %s: %v", name, err)
			return
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "drop schema if exists "+pgx.Identifier{name}.Sanitize()+" cascade")
		if err != nil {
			t.Errorf("testdb: drop schema %s: %v", name, err)
		}
	})
	return name
}

// Own starts a PostgreSQL server for this test alone, with the given settings over
// those of [pgserver.Start], and removes it when the test ends. It takes one to three
// seconds: take it only to restart, to break or to configure the server.
func Own(t testing.TB, settings map[string]string) *pgserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Config{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func fromEnv(t testing.TB, name string) string {
	t.Helper()
	url := os.Getenv(name)
	if url == "" {
		t.Fatalf("%s is not set. Run the tests with `make test`, or one package with `go run ./internal/testdb/run -- go test ./postgres/`.", name)
	}
	return url
}

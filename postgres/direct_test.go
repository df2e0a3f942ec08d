package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later/internal/testdb"
)

// A store of its own session sets it up once, and one behind a pooler sets nothing that
// others would find.
func TestSessions(t *testing.T) {
	settings := func(t *testing.T, conn *pgx.Conn) (got [3]string) {
		t.Helper()
		err := conn.QueryRow(t.Context(), `
			select current_setting('enable_seqscan'), current_setting('plan_cache_mode'), current_setting('default_transaction_isolation')`,
			pgx.QueryExecModeSimpleProtocol).Scan(&got[0], &got[1], &got[2])
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	runtime := func(t *testing.T, s *Store) *pgxpool.Conn {
		t.Helper()
		pool, err := s.runtimePool()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Release)
		return conn
	}
	plainSettings := [3]string{"on", "auto", "read committed"}
	ours := [3]string{"off", "force_generic_plan", "read committed"}

	t.Run("a direct connection is set up once", func(t *testing.T) {
		s, _ := planStore(t)
		conn := runtime(t, s)
		if !isDirect(conn) {
			t.Error("a direct connection is taken for a pooled one")
		}
		if got := settings(t, conn.Conn()); got != ours {
			t.Errorf("got %v, want %v", got, ours)
		}
		app, err := s.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer app.Release()
		if got := settings(t, app.Conn()); got != plainSettings {
			t.Errorf("application's connection: got %v, want %v", got, plainSettings)
		}
	})

	t.Run("behind a pooler nothing stays behind", func(t *testing.T) {
		direct, err := Open(t.Context(), testdb.Postgres(t), Config{Schema: testdb.Schema(t, testdb.Postgres(t))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { direct.Close() })
		if err := direct.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		url := testdb.PgBouncer(t) + "&default_query_exec_mode=cache_describe"
		s, err := Open(t.Context(), url, Config{Schema: direct.name, NoListen: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		for range 10 { // whichever server connection it gets
			if _, err := s.Claim(t.Context(), claimRequest(1)); err != nil {
				t.Fatal(err)
			}
			conn := runtime(t, s)
			if isDirect(conn) {
				t.Fatal("a pooled connection is taken for a direct one")
			}
			if got := settings(t, conn.Conn()); got != plainSettings {
				t.Fatalf("got %v, want %v", got, plainSettings)
			}
			conn.Release()
		}
	})

	t.Run("a pool whose sessions the application cleans is not set up", func(t *testing.T) {
		s, _ := planStore(t)
		cfg := s.pool.Config()
		cfg.AfterRelease = func(conn *pgx.Conn) bool {
			_, err := conn.Exec(context.Background(), "reset all")
			return err == nil
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		cleaned, err := New(pool, Config{Schema: s.name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cleaned.Close() })
		if isDirect(runtime(t, cleaned)) {
			t.Error("a session that is cleaned after each use is set up once only")
		}
	})
}

package pgserver_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later/internal/pgserver"
)

// query runs one statement on a connection of its own and returns its first column.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	var got string
	if err := connect(t, url).QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

// execute runs one statement on a connection of its own.
func execute(t *testing.T, url, sql string) {
	t.Helper()
	if _, err := connect(t, url).Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// connect opens a connection that stays open until the test ends.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // for PgBouncer
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func start(t *testing.T, cfg pgserver.Config) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(t.Context(), cfg)
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

func TestServer(t *testing.T) {
	server := start(t, pgserver.Config{Settings: map[string]string{"work_mem": "5MB", "application_name": "it's"}})

	t.Run("listens on 127.0.0.1 only", func(t *testing.T) {
		if got, want := query(t, server.URL(), "select current_setting('listen_addresses')"), "127.0.0.1"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("has its socket in its own folder", func(t *testing.T) {
		if got, want := query(t, server.URL(), "select current_setting('unix_socket_directories')"), server.Dir(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("takes the caller's settings, quotes included", func(t *testing.T) {
		if got, want := query(t, server.URL(), "select current_setting('work_mem')"), "5MB"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("is UTF-8 with a byte-wise collation", func(t *testing.T) {
		const sql = "select current_setting('server_encoding') || ' ' || datcollate from pg_database where datname = 'postgres'"
		if got, want := query(t, server.URL(), sql), "UTF8 C.UTF-8"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("keeps data and address over a restart", func(t *testing.T) {
		address := server.URL()
		for _, mode := range []string{"fast", "immediate"} {
			execute(t, address, "create table kept_"+mode+" as select 1 as n")
			if err := server.Restart(t.Context(), mode); err != nil {
				t.Fatal(err)
			}
			if got := query(t, address, "select count(*)::text from kept_"+mode); got != "1" {
				t.Errorf("after %s got %s rows, want 1", mode, got)
			}
			if got := server.URL(); got != address {
				t.Errorf("after %s got address %q, want %q", mode, got, address)
			}
		}
	})
	t.Run("refuses a mode that it does not know", func(t *testing.T) {
		if err := server.Stop("smart"); err == nil {
			t.Error("got nil, want an error")
		}
		query(t, server.URL(), "select 'still there'")
	})
	t.Run("cannot be started twice", func(t *testing.T) {
		if err := server.Start(t.Context()); err == nil {
			t.Error("got nil, want an error")
		}
	})
	t.Run("does not answer while stopped, and again after a start", func(t *testing.T) {
		if err := server.Stop("fast"); err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", address(t, server.URL())); err == nil {
			conn.Close()
			t.Error("got a connection to a stopped server")
		}
		if err := server.Stop("fast"); err != nil {
			t.Errorf("stopping twice: got %v, want nil", err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		query(t, server.URL(), "select 'back'")
	})
	t.Run("leaves nothing behind", func(t *testing.T) {
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(server.Dir()); !os.IsNotExist(err) {
			t.Errorf("got %v for the folder, want that it is gone", err)
		}
		if err := server.Close(); err != nil {
			t.Errorf("closing twice: got %v, want nil", err)
		}
	})
}

func TestServerInGivenFolder(t *testing.T) {
	parent, err := os.MkdirTemp("/tmp", "pgserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "server")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	t.Run("uses a cluster that is there, and leaves a folder that was there", func(t *testing.T) {
		server := start(t, pgserver.Config{Dir: dir})
		execute(t, server.URL(), "create table kept as select 1 as n")
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		again := start(t, pgserver.Config{Dir: dir})
		if got := query(t, again.URL(), "select count(*)::text from kept"); got != "1" {
			t.Errorf("got %s rows, want 1", got)
		}
	})
	t.Run("a setting that the server refuses comes with the server's words", func(t *testing.T) {
		_, err := pgserver.Start(t.Context(), pgserver.Config{Dir: filepath.Join(parent, "bad"), Settings: map[string]string{"no_such_setting": "1"}})
		if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
			t.Errorf("got %v, want an error that names the setting", err)
		}
		if _, err := os.Stat(filepath.Join(parent, "bad")); !os.IsNotExist(err) {
			t.Errorf("got %v for the folder of the failed start, want that it is gone", err)
		}
	})
	t.Run("a context that ends during the start ends it, and nothing is left", func(t *testing.T) {
		dir := filepath.Join(parent, "late")
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan error, 1)
		go func() {
			_, err := pgserver.Start(ctx, pgserver.Config{Dir: dir})
			started <- err
		}()
		// In the middle of initdb, which has started a server of its own by then.
		for {
			if _, err := os.Stat(filepath.Join(dir, "data", "global")); err == nil {
				break
			}
			select {
			case err := <-started:
				t.Fatalf("the start ended with %v before it could be ended", err)
			case <-time.After(time.Millisecond):
			}
		}
		cancel()
		if err := <-started; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("got %v for the folder, want that it is gone", err)
		}
	})
}

func address(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

package open

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
)

func TestStore(t *testing.T) {
	ctx := context.Background()
	t.Run("opens an SQLite file in each notation", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a b.db")
		for _, url := range []string{"sqlite:" + path, "sqlite://" + path, "SQLITE:" + path} {
			store, err := Store(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(store.CheckSchema(ctx), store.Close()); err != nil {
				t.Errorf("%s: %v", url, err)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}
	})
	t.Run("opens Postgres under either name, in the schema", func(t *testing.T) {
		url := testdb.Postgres(t)
		schema := testdb.Schema(t, url)
		for _, u := range []string{url, "postgresql" + strings.TrimPrefix(url, "postgres")} {
			store, err := StoreWith(ctx, u, Config{Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(store.Migrate(ctx), store.CheckSchema(ctx), store.Close()); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("works behind PgBouncer in transaction mode, for those who are brief", func(t *testing.T) {
		url := testdb.PgBouncer(t)
		schema := testdb.Schema(t, url)
		for range 20 { // on whatever connections PgBouncer has
			store, err := StoreWith(ctx, url, Config{Schema: schema, Brief: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Migrate(ctx); err != nil {
				t.Fatal(err)
			}
			_, err1 := store.Status(ctx)
			_, err2 := store.List(ctx, later.Filter{})
			if err := errors.Join(err1, err2, store.CheckSchema(ctx), store.Close()); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("does not make a file that must exist", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "none.db")
		if _, err := StoreWith(ctx, "sqlite:"+path, Config{MustExist: true}); !errors.Is(err, ErrNoFile) {
			t.Errorf("got %v, want ErrNoFile", err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the file was made")
		}
	})
	t.Run("does not migrate when told not to", func(t *testing.T) {
		store, err := StoreWith(ctx, "sqlite:"+filepath.Join(t.TempDir(), "a.db"), Config{NoMigrate: true})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if err := store.CheckSchema(ctx); !errors.Is(err, later.ErrSchema) {
			t.Errorf("got %v, want ErrSchema", err)
		}
	})
}

func TestStoreRefuses(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"", "sqlite:later.db"},
		{"later.db", "sqlite:later.db"},
		{"/var/lib/x", "sqlite:/var/lib/x"},
		{"sqlit:x", `did you mean "sqlite"?`},
		{"postgress://h/d", `did you mean "postgres"?`},
		{"mysql://h/d", "right are sqlite:later.db and postgres://user@host/name"},
		{"sqlite:", "names no file"},
		{"sqlite::memory:", "no other process could see it"},
		{"sqlite://later.db", "write sqlite:later.db"},
		{"sqlite:later.db?mode=ro", "not read from the URL"},
		{"sqlite:/no/such/folder/later.db", "does not exist"},
		{"postgres://h/d?sslmode=maybe", "sslmode"},
		{"postgres://bob:a@b/c@host/d", "%40"},
		{"host=h password=hush", "no scheme"},
		{"foo", `"foo" has no scheme`},
	} {
		store, err := Store(context.Background(), c.url)
		if err == nil {
			store.Close()
		}
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want an ErrURL with %q", c.url, err, c.want)
		}
	}
	t.Run("a schema for SQLite", func(t *testing.T) {
		_, err := StoreWith(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), Config{Schema: "x"})
		if !errors.Is(err, ErrURL) {
			t.Errorf("got %v, want ErrURL", err)
		}
	})
	t.Run("a schema that is no name", func(t *testing.T) {
		_, err := StoreWith(context.Background(), "postgres://127.0.0.1:1/x", Config{Schema: `q"; drop table x; --`})
		if !errors.Is(err, ErrURL) {
			t.Errorf("got %v, want ErrURL", err)
		}
	})
}

func TestListenURL(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		url       string
		config    Config
		want      string
	}{
		{"an SQLite file has nothing to listen at", "sqlite:never-made.db", Config{ListenURL: "postgres://h/d"}, "--listen-url"},
		{"nor anything not to listen to", "sqlite:never-made.db", Config{NoListen: true}, "--no-listen"},
		{"a URL of another database", "postgres://127.0.0.1:1/d", Config{ListenURL: "sqlite:later.db"}, "right is postgres://user@host/name"},
		{"pairs, of which a password could be shown", "postgres://127.0.0.1:1/d", Config{ListenURL: "host=h password=hush123"}, "right is postgres://user@host/name"},
		{"a URL that cannot be read", "postgres://127.0.0.1:1/d", Config{ListenURL: "postgres://bob:hush123@h:port/d"}, "cannot be read"},
		{"a password with @ and /", "postgres://127.0.0.1:1/d", Config{ListenURL: "postgres://bob:a@hush123/x@h/d"}, "%40"},
		{"a setting of a pool", "postgres://127.0.0.1:1/d", Config{ListenURL: "postgres://h/d?pool_max_conns=3"}, "pool_max_conns"},
	} {
		t.Run("refuses "+c.behaviour, func(t *testing.T) {
			store, err := StoreWith(context.Background(), c.url, c.config)
			if err == nil {
				store.Close()
			}
			if !errors.Is(err, ErrListen) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush123") {
				t.Errorf("got %v, want an ErrListen with %q and without the password", err, c.want)
			}
		})
	}
	if _, err := os.Stat("never-made.db"); err == nil {
		t.Error("a file was made")
	}
	t.Run("takes a URL of Postgres, and connects to it only to listen", func(t *testing.T) {
		store, err := StoreWith(context.Background(), testdb.Postgres(t), Config{ListenURL: "postgres://127.0.0.1:1/none"})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Case 200: the password of a database URL is never printed.
func TestPasswordIsNotShown(t *testing.T) {
	for _, url := range []string{
		"postgres://bob:hush123@127.0.0.1:1/db",
		"postgres://bob:hush123%40x@127.0.0.1:1/db",
		"postgres://bob:hush123@x@127.0.0.1:1/db",
		"postgres://bob:hush123/x@127.0.0.1:1/db",
		"postgres://bob:a@hush123/x@127.0.0.1:1/db",
		"postgres://bob:x?hush123@127.0.0.1:1/db",
		"postgres://bob:x#hush123@127.0.0.1:1/db",
		"postgres://bob:%zzhush123@127.0.0.1:1/db",
		"postgres://bob:hush123@127.0.0.1:1:2:3/db",
		"postgres://bob@127.0.0.1:1/db?password=hush123&sslmode=maybe",
		"postgres://bob@127.0.0.1:1/db?password=hush123&connect_timeout=1",
		"mysql://bob:hush123@127.0.0.1:1/db",
		"bob:hush123@127.0.0.1/db",
		"host=127.0.0.1 password=hush123",
		"password=hush123.db",
	} {
		_, err := Store(context.Background(), url)
		if err == nil {
			t.Errorf("%s: opened", url)
			continue
		}
		if strings.Contains(err.Error(), "hush123") {
			t.Errorf("the error shows the password: %v", err)
		}
		if shown := Redact(url); strings.Contains(url, "://") && strings.Contains(shown, "hush123") {
			t.Errorf("Redact(%q) = %q", url, shown)
		}
	}
	if got, want := Redact("postgres://bob:hush@h/db?sslmode=disable"), "postgres://bob:xxxxx@h/db?sslmode=disable"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Redact("sqlite:/var/later.db"), "sqlite:/var/later.db"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMigrationSQL(t *testing.T) {
	for _, c := range []struct {
		url, schema, want string
		down              bool
	}{
		{url: "sqlite:never-made.db", want: "create table"},
		{url: "postgres://", schema: "jobs", want: `"jobs"`},
		{url: "postgres://127.0.0.1:1/none", want: "drop ", down: true},
	} {
		got, err := MigrationSQL(context.Background(), c.url, Config{Schema: c.schema}, c.down)
		if err != nil || !strings.Contains(strings.ToLower(got), c.want) {
			t.Errorf("%s: got %.200q, %v, want SQL with %q", c.url, got, err, c.want)
		}
	}
	if _, err := os.Stat("never-made.db"); err == nil {
		t.Error("a file was made")
	}
}

func TestUnprepared(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"postgres://bob:p%40w@h/d", "postgres://bob:p%40w@h/d?default_query_exec_mode=exec"},
		{"postgres://h/d?sslmode=disable", "postgres://h/d?sslmode=disable&default_query_exec_mode=exec"},
		{"postgres://h/d?default_query_exec_mode=cache_statement", "postgres://h/d?default_query_exec_mode=cache_statement"},
		{"postgres://bob:p?w@h/d", "postgres://bob:p?w@h/d"}, // which pgx reads, but net/url does not
	} {
		if got := unprepared(c.in); got != c.want {
			t.Errorf("unprepared(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// store is one whose handlers have url's role.
func (s *shop) store(t *testing.T, url string, config postgres.Config) *postgres.Store {
	t.Helper()
	config.Schema, config.TenantPool = s.schema, newPool(t, url, nil)
	store, err := postgres.New(newPool(t, s.db.url, nil), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// rows are those that a job of the tenant sees.
func (s *shop) rows(store *postgres.Store, tenant string) (rows string, err error) {
	err = store.TenantTx(s.t.Context(), of(tenant), func(tx pgx.Tx) error {
		return tx.QueryRow(s.t.Context(), s.seen()).Scan(&rows)
	})
	return rows, err
}

func TestTenantTxRole(t *testing.T) {
	t.Run("one that no policy binds is refused", func(t *testing.T) {
		s := openShop(t)
		for _, c := range []struct{ change, url, want string }{
			{"select", s.db.url, "superuser"},
			{"alter role " + s.role + " bypassrls", s.url, "BYPASSRLS"},
			{"alter role " + s.role + " superuser nobypassrls", s.url, "superuser"},
		} {
			s.do(c.change)
			rows, err := s.rows(s.store(t, c.url, postgres.Config{}), "acme")
			if rows != "" || err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "job 7") {
				t.Errorf("%s: got %q, %v, want an error that says %s", c.change, rows, err, c.want)
			}
		}
	})

	t.Run("a superuser who has become another is bound", func(t *testing.T) {
		s := openShop(t)
		got, err := s.rows(s.store(t, s.db.url+"&role="+s.role, postgres.Config{}), "acme")
		if got != "a1, a2" || err != nil {
			t.Errorf("got %q, %v, want a1, a2", got, err)
		}
	})

	t.Run("an owner is warned of, once, where the policies do not bind it", func(t *testing.T) {
		s := openShop(t)
		s.do("alter table " + s.note() + " owner to " + s.role)
		var logged strings.Builder
		config := postgres.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
		if got, err := s.rows(s.store(t, s.url, config), "acme"); got != "a1, a2" || err != nil || logged.Len() > 0 {
			t.Errorf("forced: got %q, %v, logged %s; want a1, a2 and nothing logged", got, err, logged.String())
		}
		s.do("alter table " + s.note() + " no force row level security")
		store := s.store(t, s.url, config)
		for range 3 {
			if got, err := s.rows(store, "acme"); got != "a1, a2, g1" || err != nil {
				t.Errorf("not forced: got %q, %v, want a1, a2, g1: that is what the warning is for", got, err)
			}
		}
		if got := strings.Count(logged.String(), s.schema+".note"); got != 1 || !strings.Contains(logged.String(), "level=WARN") {
			t.Errorf("got %d warnings, want 1: %s", got, logged.String())
		}
	})

	t.Run("one that may see its own jobs only can end and follow up these", func(t *testing.T) {
		s := openShop(t)
		for _, table := range []string{"job", "job_log"} {
			s.do("alter table " + s.table(table) + " enable row level security")
			s.do("create policy tenant on " + s.table(table) + " to " + s.role + tenantPolicy)
		}
		for _, tenant := range []string{"acme", "globex"} {
			if _, err := s.Enqueue(t.Context(), work(`{}`), later.Options{Tenant: tenant}); err != nil {
				t.Fatal(err)
			}
		}
		store := s.store(t, s.url, postgres.Config{})
		for i, job := range s.claimJust(2) {
			err := store.TenantTx(t.Context(), job, func(tx pgx.Tx) error {
				var tenants string
				err := tx.QueryRow(t.Context(), "select string_agg(tenant, ', ') from "+s.table("job")).Scan(&tenants)
				if tenants != job.Tenant || err != nil {
					t.Errorf("got the jobs of %s, %v, want those of %s", tenants, err, job.Tenant)
				}
				return store.DoneTx(t.Context(), tx, job)
			})
			if left := ask[int](s.db, "select count(*) from "+s.table("job")); err != nil || left != 1-i {
				t.Errorf("got %v, %d jobs left, want %d", err, left, 1-i)
			}
		}
		for tenant, want := range map[string]string{"acme": "", "globex": "42501"} {
			err := store.TenantTx(t.Context(), of("acme"), func(tx pgx.Tx) error {
				_, err := store.EnqueueTx(t.Context(), tx, later.RawArgs{JobKind: "next", Payload: []byte(`{}`)}, later.Options{Tenant: tenant})
				return err
			})
			if got := sqlState(err); got != want || (err == nil) != (want == "") {
				t.Errorf("a follow-up for %s: got %v, want the code %q", tenant, err, want)
			}
		}
		other := s.job("globex")
		err := store.TenantTx(t.Context(), of("acme"), func(tx pgx.Tx) error { return store.DoneTx(t.Context(), tx, other) })
		if !errors.Is(err, later.ErrLeaseLost) {
			t.Errorf("the end of another tenant's job: got %v, want %v", err, later.ErrLeaseLost)
		}
	})
}

func TestTenantTxInput(t *testing.T) {
	s := openShop(t)
	store := s.store(t, s.url, postgres.Config{})
	pool, err := sql.Open("pgx", s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx := t.Context()
	nothing := func(pgx.Tx) error { t.Error("the function ran"); return nil }
	nothingSQL := func(*sql.Tx) error { t.Error("the function ran"); return nil }

	t.Run("what is missing is named", func(t *testing.T) {
		for want, err := range map[string]error{
			"job is nil":      errors.Join(store.TenantTx(ctx, nil, nothing), store.TenantSQLTx(ctx, pool, nil, nothingSQL)),
			"function is nil": errors.Join(store.TenantTx(ctx, of("acme"), nil), store.TenantSQLTx(ctx, pool, of("acme"), nil)),
			"database is nil": store.TenantSQLTx(ctx, nil, of("acme"), nothingSQL),
		} {
			if n := strings.Count(fmt.Sprint(err), want); n != 2 && want != "database is nil" || n == 0 {
				t.Errorf("got %v, want an error that says %q", err, want)
			}
		}
	})

	t.Run("a tenant that is none is refused", func(t *testing.T) {
		for _, name := range []string{"", "\xff", "a\x00b"} {
			for _, err := range []error{store.TenantTx(ctx, of(name), nothing), store.TenantSQLTx(ctx, pool, of(name), nothingSQL)} {
				if !errors.Is(err, later.ErrInvalid) || !strings.Contains(err.Error(), "tenant") {
					t.Errorf("%q: got %v, want %v", name, err, later.ErrInvalid)
				}
			}
		}
	})

	t.Run("and leaves a transaction of one's own usable", func(t *testing.T) {
		tx, err := connect(t, s.url).Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.SetTenantTx(ctx, tx, "\xff"); !errors.Is(err, later.ErrInvalid) {
			t.Errorf("got %v, want %v", err, later.ErrInvalid)
		}
		if _, err := tx.Exec(ctx, "select 1"); err != nil {
			t.Error(err)
		}
	})

	t.Run("after Close nothing runs", func(t *testing.T) {
		store := s.store(t, s.url, postgres.Config{})
		store.Close()
		if err := store.TenantTx(ctx, of("acme"), nothing); !errors.Is(err, later.ErrClosed) {
			t.Errorf("got %v, want %v", err, later.ErrClosed)
		}
	})

	t.Run("a database that is away is unavailable", func(t *testing.T) {
		const away = "postgres://postgres@127.0.0.1:1/x?sslmode=disable"
		if err := s.store(t, away, postgres.Config{}).TenantTx(ctx, of("acme"), nothing); !errors.Is(err, later.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, later.ErrUnavailable)
		}
	})
}

func TestTenantSetting(t *testing.T) {
	t.Run("the policies may read another", func(t *testing.T) {
		s := openShop(t)
		s.do("drop policy tenant on " + s.note())
		s.do("create policy tenant on " + s.note() + " using (tenant = nullif(current_setting('app.current.tenant', true), ''))")
		for setting, want := range map[string]string{"app.current.tenant": "g1", "": ""} {
			got, err := s.rows(s.store(t, s.url, postgres.Config{TenantSetting: setting}), "globex")
			if got != want || err != nil {
				t.Errorf("%q: got %q, %v, want %q", setting, got, err, want)
			}
		}
	})

	t.Run("a name that is none is refused", func(t *testing.T) {
		pool := newPool(t, testdb.Postgres(t), nil)
		long := strings.Repeat("a", 64)
		for _, name := range []string{"role", "search_path", ".tenant", "later.", "a..b", "1a.b", "a.b c", "a.b'", "a.é", " a.b", "a.b\n", "later.wake", "Later.Wake", long + ".a", "a.b.c.d.e"} {
			if _, err := postgres.New(pool, postgres.Config{TenantSetting: name}); err == nil || !strings.Contains(err.Error(), "TenantSetting") {
				t.Errorf("%q: got %v, want an error that names TenantSetting", name, err)
			}
		}
		for _, name := range []string{"app.tenant", "_a._b", "a1.B2", "request.jwt.claim.tenant", long[:63] + ".a"} {
			if _, err := postgres.New(pool, postgres.Config{TenantSetting: name}); err != nil {
				t.Errorf("%q: %v", name, err)
			}
			// The server takes it.
			if _, err := connect(t, testdb.Postgres(t)).Exec(t.Context(), "select set_config($1, 'x', true)", name); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

// For those who begin their transactions themselves.
func TestSetTenantTx(t *testing.T) {
	s := openShop(t)
	store := s.store(t, s.url, postgres.Config{})
	conn := connect(t, s.url)
	ctx := t.Context()
	seen := func(tx pgx.Tx, want string) {
		t.Helper()
		var got string
		if err := tx.QueryRow(ctx, s.seen()).Scan(&got); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	seen(tx, "")
	if err := store.SetTenantTx(ctx, tx, "acme"); err != nil {
		t.Fatal(err)
	}
	seen(tx, "a1, a2")
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetTenantTx(ctx, savepoint, "globex"); err != nil {
		t.Fatal(err)
	}
	seen(savepoint, "g1")
	if err := savepoint.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	seen(tx, "a1, a2")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if tx, err = conn.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	seen(tx, "")
}

// Case 154: the pooler gives each transaction any session, and a session to anybody.
func TestTenantTxPgBouncer(t *testing.T) {
	// The shared pooler logs in as the superuser, whatever name it is given. In this database he
	// becomes the role at once.
	owner, _, role := testdb.Database(t, testdb.Postgres(t))
	s := &shop{db: openAt(t, owner, postgres.Config{Schema: postgres.DefaultSchema}), role: role}
	s.do("create table " + s.note() + " (tenant text not null, text text not null)")
	s.do("alter table " + s.note() + " enable row level security")
	s.do("create policy tenant on " + s.note() + tenantPolicy)
	s.do("grant usage on schema " + s.schema + " to " + role)
	s.do("grant select on " + s.note() + " to " + role)
	s.stock()
	s.do("alter database " + s.conn.Config().Database + " set role = " + role)

	pooler, err := url.Parse(testdb.PgBouncer(t))
	if err != nil {
		t.Fatal(err)
	}
	pooler.Path = "/" + s.conn.Config().Database
	for _, mode := range []string{"exec", "cache_describe", "simple_protocol"} {
		t.Run("pgxpool with "+mode, func(t *testing.T) {
			s.testAtOnce(t, pgxWay(t, s.schema, pooler.String()+"&default_query_exec_mode="+mode, 8))
		})
	}
	for driver, setting := range map[string]string{"pgx": "&default_query_exec_mode=exec", "postgres": ""} {
		t.Run("database/sql with "+driver, func(t *testing.T) {
			s.testAtOnce(t, sqlWay(t, s.schema, driver, pooler.String()+setting, 8))
		})
	}
}

package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

// shop is a table of two tenants, whose policy binds everybody but superusers, and a role
// that logs in.
type shop struct {
	*db
	role string
	url  string // of the role
}

// tenantPolicy is the one of docs/tenants.md.
const tenantPolicy = ` using (tenant = nullif(current_setting('later.tenant', true), ''))`

func openShop(t *testing.T) *shop {
	t.Helper()
	d := open(t, postgres.Config{})
	role, url := d.role()
	s := &shop{db: d, role: role, url: url}
	d.do("alter role " + role + " nosuperuser")
	t.Cleanup(func() {
		if _, err := d.conn.Exec(context.Background(), "drop owned by "+role); err != nil {
			t.Error(err)
		}
	})
	d.do("create table " + s.note() + ` (
		text text not null,
		tenant text not null default nullif(current_setting('later.tenant', true), ''))`)
	d.do("alter table " + s.note() + " enable row level security")
	d.do("alter table " + s.note() + " force row level security")
	d.do("create policy tenant on " + s.note() + tenantPolicy)
	d.do("grant usage on schema " + d.schema + " to " + role)
	d.do("grant select, insert, update, delete on " + s.note() + " to " + role)
	d.do("grant select, insert, delete on " + d.table("job") + " to " + role)
	d.do("grant insert on " + d.table("job_log") + " to " + role)
	s.stock()
	return s
}

func (s *shop) note() string { return s.table("note") }

// stock puts the table's rows back: two of acme, one of globex.
func (s *shop) stock() {
	s.t.Helper()
	s.do("truncate " + s.note())
	s.do("insert into " + s.note() + " (tenant, text) values ('acme', 'a1'), ('acme', 'a2'), ('globex', 'g1')")
}

// all are the rows of every tenant, as a superuser sees them.
func (s *shop) all() string {
	s.t.Helper()
	return ask[string](s.db, "select coalesce(string_agg(tenant || ' ' || text, ', ' order by tenant, text), '') from "+s.note())
}

// seen are the rows that whoever asks sees.
func (s *shop) seen() string {
	return "select coalesce(string_agg(text, ', ' order by text), '') from " + s.note()
}

// job is a running job of a tenant.
func (s *shop) job(tenant string) *later.Claimed {
	s.t.Helper()
	if _, err := s.Enqueue(s.t.Context(), work(`{}`), later.Options{Tenant: tenant}); err != nil {
		s.t.Fatal(err)
	}
	return s.claimJust(1)[0]
}

// of is a job that no database knows.
func of(tenant string) *later.Claimed {
	return &later.Claimed{Record: later.Record{ID: 7, Tenant: tenant}, Lease: later.Lease{ID: 7, Token: 1}}
}

// tenantTx is a transaction of any driver.
type tenantTx struct {
	exec func(statement string, args ...any) (rows int64, err error)
	ask  func(query string, args ...any) (string, error) // for one text
	done func(job later.Held) error
	end  func() error // what only TenantTx shall do
	// awaitEnd returns when the driver has seen that the context ended.
	awaitEnd func()
}

// tenantWay is TenantTx by one of the drivers.
type tenantWay struct {
	name string
	run  func(ctx context.Context, job later.Held, fn func(tx tenantTx) error) error
	// outside asks for one text in no transaction.
	outside func(query string, args ...any) (string, error)
}

// tenantWays are all drivers, each with its own connections to url, as many as conns.
func tenantWays(t *testing.T, schema, url string, conns int) []tenantWay {
	t.Helper()
	ways := []tenantWay{pgxWay(t, schema, url, conns)}
	for _, driver := range []string{"pgx", "postgres"} { // the latter is lib/pq
		ways = append(ways, sqlWay(t, schema, driver, url, conns))
	}
	return ways
}

func pgxWay(t *testing.T, schema, url string, conns int) tenantWay {
	t.Helper()
	pool := newPool(t, url, func(cfg *pgxpool.Config) { cfg.MaxConns = int32(conns) })
	store, err := postgres.New(pool, postgres.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	text := func(row pgx.Row) (text string, err error) { return text, row.Scan(&text) }
	return tenantWay{
		name: "pgxpool",
		run: func(ctx context.Context, job later.Held, fn func(tx tenantTx) error) error {
			return store.TenantTx(ctx, job, func(tx pgx.Tx) error {
				return fn(tenantTx{
					exec: func(statement string, args ...any) (int64, error) {
						tag, err := tx.Exec(ctx, statement, args...)
						return tag.RowsAffected(), err
					},
					ask:  func(query string, args ...any) (string, error) { return text(tx.QueryRow(ctx, query, args...)) },
					done: func(job later.Held) error { return store.DoneTx(ctx, tx, job) },
					end:  func() error { return tx.Commit(ctx) },

					awaitEnd: func() {}, // it looks at the next statement
				})
			})
		},
		outside: func(query string, args ...any) (string, error) {
			return text(pool.QueryRow(context.Background(), query, args...))
		},
	}
}

func sqlWay(t *testing.T, schema, driver, url string, conns int) tenantWay {
	t.Helper()
	pool, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	pool.SetMaxOpenConns(conns)
	// The store's own pool serves nothing here.
	store, err := postgres.New(newPool(t, url, nil), postgres.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	text := func(row *sql.Row) (text string, err error) { return text, row.Scan(&text) }
	return tenantWay{
		name: "database/sql with " + driver,
		run: func(ctx context.Context, job later.Held, fn func(tx tenantTx) error) error {
			return store.TenantSQLTx(ctx, pool, job, func(tx *sql.Tx) error {
				return fn(tenantTx{
					exec: func(statement string, args ...any) (int64, error) {
						result, err := tx.ExecContext(ctx, statement, args...)
						if err != nil {
							return 0, err
						}
						return result.RowsAffected()
					},
					ask:  func(query string, args ...any) (string, error) { return text(tx.QueryRowContext(ctx, query, args...)) },
					done: func(job later.Held) error { return store.DoneSQLTx(ctx, tx, job) },
					end:  tx.Commit,

					awaitEnd: func() {
						eventually(t, "the transaction is rolled back", func() bool {
							_, err := tx.ExecContext(context.Background(), "select 1")
							return errors.Is(err, sql.ErrTxDone)
						})
					},
				})
			})
		},
		outside: func(query string, args ...any) (string, error) {
			return text(pool.QueryRowContext(context.Background(), query, args...))
		},
	}
}

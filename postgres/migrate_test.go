package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// dump describes everything in the schema but the log's days, without the schema's
// name.
func (d *db) dump() string {
	d.t.Helper()
	parts := ask[[]string](d, `
		select array(
			select 'column ' || c.relname || ' ' || c.relkind::text || ' ' || a.attnum::text || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
				|| ' ' || a.attnotnull::text || ' ' || a.attidentity::text || ' ' || coalesce(pg_get_expr(ad.adbin, ad.adrelid), '') || ' ' || a.attcollation::text
				|| ' ' || coalesce(col_description(c.oid, a.attnum), '')
			from pg_class c
			join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
			left join pg_attrdef ad on ad.adrelid = c.oid and ad.adnum = a.attnum
			where c.relnamespace = $1::text::regnamespace and c.relname !~ '^job_log_\d'
			union all
			select 'relation ' || c.relname || ' ' || c.relkind::text || ' ' || coalesce(c.reloptions::text, '') || ' '
				|| coalesce(obj_description(c.oid, 'pg_class'), '') || ' ' || coalesce(pg_get_viewdef(case when c.relkind = 'v' then c.oid end), '')
			from pg_class c
			where c.relnamespace = $1::text::regnamespace and c.relname !~ '^job_log_\d'
			union all
			select 'index ' || indexdef from pg_indexes where schemaname = $1::text and tablename !~ '^job_log_\d'
			union all
			select 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) || ' ' || conrelid::regclass::text || ' ' || contypid::regtype::text
			from pg_constraint where connamespace = $1::text::regnamespace and conrelid::regclass::text !~ 'job_log_\d'
			union all
			select 'function ' || pg_get_functiondef(oid) || ' ' || coalesce(proacl::text, '') from pg_proc where pronamespace = $1::text::regnamespace
			union all
			select 'trigger ' || pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace = $1::text::regnamespace
			union all
			select 'type ' || typname || ' ' || typtype::text || ' ' || coalesce(format_type(typbasetype, typtypmod), '') || ' ' || coalesce(obj_description(oid, 'pg_type'), '')
			from pg_type where typnamespace = $1::text::regnamespace and typname !~ 'job_log_\d'
			union all
			select 'schema ' || coalesce(obj_description(oid, 'pg_namespace'), '') from pg_namespace where nspname = $1::text
			order by 1)`, d.schema)
	return strings.ReplaceAll(strings.Join(parts, "\n"), d.schema, "SCHEMA")
}

func (d *db) schemaThere() bool {
	d.t.Helper()
	return ask[bool](d, `select exists (select from pg_namespace where nspname = $1::text)`, d.schema)
}

// Cases 226 and 227.
func TestMigrations(t *testing.T) {
	d := open(t, postgres.Config{})
	want := d.dump()
	if strings.Count(want, "\n") < 100 {
		t.Fatalf("the dump is too short to show anything: %s", want)
	}

	t.Run("a second Migrate changes nothing", func(t *testing.T) {
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.dump(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})

	t.Run("down leaves nothing behind, and up again makes the same", func(t *testing.T) {
		d.enqueue(1)
		if err := d.MigrateDown(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if d.schemaThere() {
			t.Error("the schema is still there")
		}
		if err := d.MigrateDown(t.Context(), 0); err != nil {
			t.Errorf("down when there is nothing: %v", err)
		}
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.dump(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})

	t.Run("the printed SQL, in one transaction, makes and removes the same", func(t *testing.T) {
		d := connectAt(t, testdb.Postgres(t), postgres.Config{})
		script := func(down bool) {
			t.Helper()
			if _, err := d.conn.PgConn().Exec(t.Context(), "begin;\n"+d.MigrationSQL(down)+"\ncommit;").ReadAll(); err != nil {
				t.Fatal(err)
			}
		}
		script(false)
		if got := d.dump(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if err := d.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		if err := d.Migrate(t.Context()); err != nil {
			t.Error(err)
		}
		script(true)
		if d.schemaThere() {
			t.Error("the schema is still there")
		}
	})

	t.Run("the list says what was applied", func(t *testing.T) {
		list, err := d.Migrations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range list {
			if m.Version != i+1 || m.Name == "" || m.AppliedAt.IsZero() || !m.Known {
				t.Errorf("got %+v", m)
			}
		}
		list, err = connectAt(t, d.url, postgres.Config{}).Migrations(t.Context())
		if err != nil || len(list) == 0 || !list[0].AppliedAt.IsZero() || !list[0].Known {
			t.Errorf("without tables: got %+v, %v", list, err)
		}
	})

	t.Run("what others keep in the schema stays, and so does a schema that others made", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.do("create table " + d.table("mine") + " (a int)")
		if err := d.MigrateDown(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := ask[[]string](d, "select array(select relname::text from pg_class where relnamespace = $1::text::regnamespace)", d.schema); len(got) != 1 || got[0] != "mine" {
			t.Errorf("got %v left, want the table mine", got)
		}
		d = connectAt(t, d.url, postgres.Config{})
		d.do("create schema " + d.schema)
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.MigrateDown(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if !d.schemaThere() {
			t.Error("the schema that a person made is gone")
		}
	})

	t.Run("a schema with capital letters and a keyword for its name works", func(t *testing.T) {
		for _, name := range []string{strings.ToUpper(testdb.Schema(t, d.url)), "Select"} {
			d := openAt(t, d.url, postgres.Config{Schema: name})
			d.enqueue(1)
			d.settle(later.OutcomeDone, d.claimJust(1)...)
			if err := d.MigrateDown(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Case 230.
func TestMigratorsAtOnce(t *testing.T) {
	d := connectAt(t, testdb.Postgres(t), postgres.Config{})
	var migrating sync.WaitGroup
	for range 8 {
		migrating.Go(func() {
			if err := d.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	migrating.Wait()
	if err := d.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

// Case 230: a migrator dies in the middle. It is one transaction, so wherever it dies
// it leaves nothing.
func TestMigratorKilledHalfWay(t *testing.T) {
	d := connectAt(t, testdb.Postgres(t), postgres.Config{})
	script := strings.SplitAfter(d.MigrationSQL(false), ";\n")
	for _, part := range []int{1, len(script) / 2, len(script) - 1} {
		for strings.Count(strings.Join(script[:part], ""), "$$")%2 != 0 {
			part++ // not within a function
		}
		victim := connect(t, d.url)
		if _, err := victim.PgConn().Exec(t.Context(), "begin;"+strings.Join(script[:part], "")).ReadAll(); err != nil {
			t.Fatal(err)
		}
		d.do("select pg_terminate_backend($1)", victim.PgConn().PID())
	}
	eventually(t, "the schema is gone with the transaction", func() bool { return !d.schemaThere() })
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMigratorWaitsForTheOther(t *testing.T) {
	d := connectAt(t, testdb.Postgres(t), postgres.Config{})
	d.do("begin")
	d.do("select pg_advisory_xact_lock(hashtextextended($1::text, 0))", "later migrate "+d.schema)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := d.Migrate(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want it to wait until %v", err, context.DeadlineExceeded)
	}
	d.do("rollback")
	if err := d.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
}

// Cases 229 and 233.
func TestCheckSchema(t *testing.T) {
	refused := func(t *testing.T, d *db, names ...string) {
		t.Helper()
		err := d.CheckSchema(t.Context())
		if !errors.Is(err, later.ErrSchema) {
			t.Errorf("got %v, want %v", err, later.ErrSchema)
			return
		}
		for _, name := range names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("got %q, want it to name %q", err, name)
			}
		}
	}

	t.Run("tables as they should be", func(t *testing.T) {
		if err := open(t, postgres.Config{}).CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("no tables", func(t *testing.T) {
		d := connectAt(t, testdb.Postgres(t), postgres.Config{})
		refused(t, d, "later migrate up", d.schema)
		if _, err := d.Enqueue(t.Context(), work(`{}`), later.Options{}); !errors.Is(err, later.ErrSchema) || !strings.Contains(err.Error(), "later migrate up") {
			t.Errorf("Enqueue: got %v, want it to say what to do", err)
		}
		if _, err := d.Claim(t.Context(), claimOf(1)); !errors.Is(err, later.ErrSchema) {
			t.Errorf("Claim: got %v, want %v", err, later.ErrSchema)
		}
	})
	t.Run("a version is missing", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.do("delete from " + d.table("migration"))
		d.do("insert into " + d.table("migration") + " values (1000, 'far', 1)")
		refused(t, d, "version 1 (jobs)", "later migrate up")
	})
	t.Run("a newer version that works with this program", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.do("insert into " + d.table("migration") + " values (1000, 'far', 1)")
		if err := d.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		if err := d.Migrate(t.Context()); err != nil {
			t.Errorf("Migrate: %v", err)
		}
		if err := d.MigrateDown(t.Context(), 0); !errors.Is(err, later.ErrSchema) {
			t.Errorf("MigrateDown: got %v, want %v", err, later.ErrSchema)
		}
		list, err := d.Migrations(t.Context())
		if err != nil || list[len(list)-1].Known || list[len(list)-1].Name != "far" {
			t.Errorf("Migrations: got %+v, %v", list, err)
		}
	})
	t.Run("a newer version that does not", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.do("insert into " + d.table("migration") + " values (1000, 'far', 900)")
		refused(t, d, "1000", "far", "900", "install a newer")
	})
	t.Run("a column and a table that somebody dropped", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.do("alter table " + d.table("job") + " drop column checkpoint")
		refused(t, d, "job.checkpoint")
		d.do("drop table " + d.table("worker"))
		refused(t, d, "job.checkpoint", "worker")
	})
}

// What is no UTF-8 could not keep every payload.
func TestOtherEncodingsAreRefused(t *testing.T) {
	d := connectAt(t, testdb.Postgres(t), postgres.Config{})
	name := "db_" + d.schema
	d.do("create database " + name + " encoding 'LATIN1' locale 'C' template template0")
	t.Cleanup(func() {
		if _, err := d.conn.Exec(context.Background(), "drop database "+name+" (force)"); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = name
	other, err := postgres.Open(t.Context(), u.String(), postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Migrate(t.Context()); !errors.Is(err, later.ErrSchema) || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("got %v, want it to name the encoding", err)
	}
}

// Case 202: names that try to be SQL.
func TestNamesAreNoSQL(t *testing.T) {
	pool := newPool(t, testdb.Postgres(t), nil)
	for _, name := range []string{
		`q"; drop table x; --`, `a'b`, `a b`, `a-b`, `é`, "a\x00", `1a`, `pg_mine`, `PG_mine`, `information_schema`,
		strings.Repeat("a", 64), `a.b`, `{schema}`,
	} {
		if _, err := postgres.New(pool, postgres.Config{Schema: name}); err == nil {
			t.Errorf("the schema %q was accepted", name)
		}
	}
	for _, name := range []string{"a", "_a", "A1_", strings.Repeat("a", 63)} {
		if _, err := postgres.New(pool, postgres.Config{Schema: name}); err != nil {
			t.Errorf("the schema %q: got %v", name, err)
		}
	}

	d := open(t, postgres.Config{})
	ids := d.enqueue(3)
	jobs := d.claimJust(3)
	texts := []string{`50% of it`, `50_of it`, `back\slash and 'quote'`}
	for i, c := range jobs {
		end := later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDead, Reason: later.DeadFailed, Error: texts[i]}
		if _, err := d.Settle(t.Context(), []later.Settlement{end}); err != nil {
			t.Fatal(err)
		}
	}
	for like, want := range map[string][]int64{
		`%`: {ids[0]}, `_`: {ids[1]}, `\`: {ids[2]}, `'`: {ids[2]}, `50`: {ids[1], ids[0]}, `%_\`: nil, `0%0`: nil,
	} {
		infos, err := d.List(t.Context(), later.Filter{ErrorLike: like})
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, info := range infos {
			got = append(got, info.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("ErrorLike %q: got %v, want %v", like, got, want)
		}
	}
	odd := `a'||pg_sleep(5)||'; drop schema ` + pgx.Identifier{d.schema}.Sanitize() + ` cascade; --`
	for _, f := range []later.Filter{{Queue: odd}, {Kind: odd}, {Tenant: &odd}, {ErrorLike: odd}, {Reason: later.DeadReason(odd)}, {State: later.State(odd)}} {
		if infos, err := d.List(t.Context(), f); err != nil || len(infos) > 0 {
			t.Errorf("List %+v: got %v, %v, want nothing", f, infos, err)
		}
	}
	if err := d.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

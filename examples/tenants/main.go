// Command tenants runs jobs whose handler sees the rows of its job's tenant only, because
// Postgres hides all others.
//
// It needs a database of its own, and two roles: one that owns the tables, and shop_app,
// which is neither an owner nor a superuser:
//
//	createdb shop && psql shop -c 'create role shop_app login'
//	OWNER_URL=postgres:///shop APP_URL=postgres://shop_app@localhost/shop go run ./examples/tenants
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
	"github.com/later-queue/later/worker"
)

const tables = `
create table invoice (
  tenant text not null default nullif(current_setting('later.tenant', true), ''),
  amount int not null
);
create table statement (
  tenant text not null default nullif(current_setting('later.tenant', true), ''),
  total int not null
);
insert into invoice (tenant, amount) values ('acme', 20), ('acme', 22), ('globex', 100);

alter table invoice enable row level security;
alter table invoice force row level security;
create policy tenant on invoice using (tenant = nullif(current_setting('later.tenant', true), ''));
alter table statement enable row level security;
alter table statement force row level security;
create policy tenant on statement using (tenant = nullif(current_setting('later.tenant', true), ''));`

// grants are what the handlers' role needs. It is the one in the application's URL.
const grants = `
grant select on invoice to %[1]s;
grant select, insert on statement to %[1]s;
grant usage on schema later to %[1]s;
grant select, delete on later.job to %[1]s;
grant insert on later.job_log to %[1]s;`

// MonthlyStatement asks for the sum of a tenant's invoices. It need not say whose: the
// job does.
type MonthlyStatement struct{}

func (MonthlyStatement) Kind() string { return "statement.monthly" }

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Getenv("OWNER_URL"), os.Getenv("APP_URL"), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, ownerURL, appURL string, out io.Writer) error {
	owner, err := pgxpool.New(ctx, ownerURL)
	if err != nil {
		return err
	}
	defer owner.Close()
	app, err := pgxpool.New(ctx, appURL)
	if err != nil {
		return err
	}
	defer app.Close()

	// The worker claims and settles as the owner; handlers work as the application.
	store, err := postgres.New(owner, postgres.Config{TenantPool: app})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := prepare(ctx, store, owner, app.Config().ConnConfig.User); err != nil {
		return err
	}
	for _, tenant := range []string{"acme", "globex"} {
		if _, err := store.Enqueue(ctx, MonthlyStatement{}, later.Options{Tenant: tenant}); err != nil {
			return err
		}
	}

	handlers := later.NewHandlers()
	later.Handle(handlers, func(ctx context.Context, job *later.Job[MonthlyStatement]) error {
		return store.TenantTx(ctx, job, func(tx pgx.Tx) error {
			// No where clause: there is nothing but the tenant's.
			if _, err := tx.Exec(ctx, "insert into statement (total) select sum(amount) from invoice"); err != nil {
				return err
			}
			return store.DoneTx(ctx, tx, job)
		})
	})
	w, err := worker.New(store, handlers, worker.Config{})
	if err != nil {
		return err
	}
	if _, err := w.Drain(ctx); err != nil {
		return err
	}
	return report(ctx, store, app, out)
}

// prepare makes the tables of Later and of the shop.
func prepare(ctx context.Context, store *postgres.Store, owner *pgxpool.Pool, appRole string) error {
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	for _, statements := range []string{tables, fmt.Sprintf(grants, pgx.Identifier{appRole}.Sanitize())} {
		if _, err := owner.Exec(ctx, statements); err != nil {
			return err
		}
	}
	return nil
}

// report prints what each tenant sees, as a web request would ask for it.
func report(ctx context.Context, store *postgres.Store, app *pgxpool.Pool, out io.Writer) error {
	for _, tenant := range []string{"acme", "globex"} {
		err := pgx.BeginFunc(ctx, app, func(tx pgx.Tx) error {
			if err := store.SetTenantTx(ctx, tx, tenant); err != nil {
				return err
			}
			var count, total int
			err := tx.QueryRow(ctx, "select count(*), coalesce(sum(total), 0) from statement").Scan(&count, &total)
			fmt.Fprintf(out, "%s sees %d statement, over %d\n", tenant, count, total)
			return err
		})
		if err != nil {
			return err
		}
	}
	var count int
	if err := app.QueryRow(ctx, "select count(*) from statement").Scan(&count); err != nil {
		return err
	}
	fmt.Fprintf(out, "without a tenant one sees %d\n", count)
	return nil
}

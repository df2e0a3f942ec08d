package guide

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// tenantBlocks are the SQL blocks of docs/tenants.md under a heading, for a role.
func tenantBlocks(t *testing.T, heading, role string) []string {
	t.Helper()
	var found []string
	for _, block := range pageBlocks(t, "tenants.md", "sql", heading) {
		found = append(found, strings.ReplaceAll(block, "shop_app", role))
	}
	return found
}

func TestTenantsPage(t *testing.T) {
	ownerURL, appURL, role := testdb.Database(t, testdb.Postgres(t))
	ctx := t.Context()
	app, err := pgxpool.New(ctx, appURL)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	owner, err := pgxpool.New(ctx, ownerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	store, err := postgres.New(owner, postgres.Config{TenantPool: app})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	do := func(pool *pgxpool.Pool, statements string) {
		t.Helper()
		if _, err := pool.Exec(ctx, statements); err != nil {
			t.Fatalf("%v in\n%s", err, statements)
		}
	}
	count := func(pool *pgxpool.Pool, query string) (rows int) {
		t.Helper()
		if err := pool.QueryRow(ctx, "select count(*) from ("+query+") t").Scan(&rows); err != nil {
			t.Fatalf("%v in\n%s", err, query)
		}
		return rows
	}

	tables := tenantBlocks(t, "A transaction that sees one tenant", role)
	rights := tenantBlocks(t, "The role that it works for", role)
	do(owner, tables[0])
	do(owner, rights[0])
	for _, block := range tenantBlocks(t, "The table of jobs", role) {
		do(owner, block)
	}
	do(owner, "insert into invoice (order_id, tenant, total) values (1, 'acme', 10), (2, 'globex', 20)")
	if got := count(app, strings.TrimSuffix(strings.TrimSpace(rights[1]), ";")); got != 0 {
		t.Errorf("tables that do not bind the role: got %d, want none", got)
	}

	t.Run("the handler ends its job with what it did to its tenant's rows", func(t *testing.T) {
		if _, err := store.Enqueue(ctx, later.RawArgs{JobKind: "x", Payload: []byte(`{}`)}, later.Options{Tenant: "globex"}); err != nil {
			t.Fatal(err)
		}
		jobs, err := store.Claim(ctx, later.ClaimRequest{
			Queues: []later.QueueLimit{{Queue: "default", Limit: 1}}, Limit: 1, Kinds: []string{"x"},
			Worker: "w", Token: later.NewToken(), Lease: time.Minute,
		})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("claim: got %v, %v, want one job", jobs, err)
		}
		err = store.TenantTx(ctx, jobs[0], func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, "update invoice set confirmed = true")
			if tag.RowsAffected() != 1 || err != nil {
				t.Errorf("got %d rows, %v, want 1", tag.RowsAffected(), err)
			}
			return store.DoneTx(ctx, tx, jobs[0])
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := count(owner, "select from invoice where confirmed and tenant = 'globex'"); got != 1 {
			t.Errorf("got %d confirmed invoices of globex, want 1", got)
		}
		if got := count(owner, "select from later.job"); got != 0 {
			t.Errorf("got %d jobs, want none", got)
		}
	})

	t.Run("whoever does without the tenant sees nothing", func(t *testing.T) {
		if got := count(app, "select from invoice"); got != 0 {
			t.Errorf("got %d invoices, want none", got)
		}
	})

	t.Run("another language sets it as the page says", func(t *testing.T) {
		conn, err := pgx.Connect(ctx, appURL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		var rows int
		for _, s := range statements(tenantBlocks(t, "With database/sql and an ORM", role)[0]) {
			if !strings.HasPrefix(s, "select * from invoice") {
				if _, err := conn.Exec(ctx, s); err != nil {
					t.Fatalf("%v in %s", err, s)
				}
				continue
			}
			if err := conn.QueryRow(ctx, strings.Replace(s, "*", "count(*)", 1)).Scan(&rows); err != nil {
				t.Fatal(err)
			}
		}
		if rows != 1 {
			t.Errorf("got %d invoices, want acme's", rows)
		}
	})

	t.Run("copy is refused, as the page says", func(t *testing.T) {
		_, err := app.CopyFrom(ctx, pgx.Identifier{"invoice"}, []string{"order_id", "total"},
			pgx.CopyFromRows([][]any{{3, 30}}))
		if err == nil || !strings.Contains(err.Error(), "row-level security") {
			t.Errorf("got %v, want an error that names row-level security: else the page is wrong", err)
		}
	})
}

package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/demo/mailapi"
	"github.com/later-queue/later/postgres"
	"github.com/later-queue/later/sqlite"
)

// shop is the application: its own tables, and Later's in the same database.
type shop struct {
	name  string // of the worker process, "" in the shop itself
	db    *sql.DB
	store later.Store
	mail  *mailapi.Client // in workers only

	// What the two stores call by different names:
	enqueueTx func(ctx context.Context, tx *sql.Tx, args later.Args, opts later.Options) (later.Enqueued, error)
	doneTx    func(ctx context.Context, tx *sql.Tx, job later.Held) error
	jobTable  string
}

// order is a row of the table orders, or one that was rolled back.
type order struct {
	id       int64
	email    string
	cents    int64
	declined bool
}

// openShop opens the database of the demo.
func openShop(ctx context.Context, at place) (*shop, error) {
	if file, ok := at.sqliteFile(); ok {
		// Patient, because an order that is refused would end the demo.
		store, err := sqlite.Open(ctx, file, sqlite.Config{BusyTimeout: 30 * time.Second})
		if err != nil {
			return nil, err
		}
		return &shop{
			db: store.DB(), store: store,
			enqueueTx: store.EnqueueSQLTx, doneTx: store.DoneSQLTx, jobTable: "later_job",
		}, nil
	}
	store, err := postgres.Open(ctx, at.DB, postgres.Config{Schema: at.Schema})
	if err != nil {
		return nil, err
	}
	config, err := at.postgres()
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	config.RuntimeParams["search_path"] = at.quotedSchema()
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(slots + 1)
	return &shop{
		db: db, store: store,
		enqueueTx: store.EnqueueSQLTx, doneTx: store.DoneSQLTx, jobTable: at.quotedSchema() + ".job",
	}, nil
}

// The table confirmation has no unique index on purpose: an effect that
// happened twice is to be seen, not prevented.
const createTables = `
create table orders (id bigint primary key, email text not null, cents bigint not null);
create table confirmation (order_id bigint not null, mail_id text not null, worker text not null);
`

// setUp creates all tables.
func (s *shop) setUp(ctx context.Context) error {
	if err := s.store.Migrate(ctx); err != nil {
		return err
	}
	for statement := range strings.SplitSeq(strings.TrimSpace(createTables), "\n") {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("create the shop's tables: %w", err)
		}
	}
	return nil
}

// Close closes the database.
func (s *shop) Close() error {
	err := s.db.Close()
	if closed := s.store.Close(); closed != nil {
		return closed
	}
	return err
}

func (s *shop) findOrder(ctx context.Context, id int64) (order, error) {
	o := order{id: id}
	err := s.db.QueryRowContext(ctx, `select email, cents from orders where id = $1`, id).Scan(&o.email, &o.cents)
	return o, err
}

// orders returns the ids of the table orders.
func (s *shop) orders(ctx context.Context) (ids []int64, err error) {
	err = each(ctx, s.db, `select id from orders order by id`, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// confirmations counts the rows of each order.
func (s *shop) confirmations(ctx context.Context) (map[int64]int, error) {
	counts := map[int64]int{}
	err := each(ctx, s.db, `select order_id, count(*) from confirmation group by order_id`, func(rows *sql.Rows) error {
		var id int64
		var count int
		err := rows.Scan(&id, &count)
		counts[id] = count
		return err
	})
	return counts, err
}

// confirmedBy counts the confirmations of each worker.
func (s *shop) confirmedBy(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	err := each(ctx, s.db, `select worker, count(*) from confirmation group by worker`, func(rows *sql.Rows) error {
		var name string
		var count int
		err := rows.Scan(&name, &count)
		counts[name] = count
		return err
	})
	return counts, err
}

// jobsLeft counts the jobs that have neither ended nor died.
func (s *shop) jobsLeft(ctx context.Context) (count int, err error) {
	return count, s.db.QueryRowContext(ctx, `select count(*) from `+s.jobTable).Scan(&count)
}

func each(ctx context.Context, db *sql.DB, query string, scan func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

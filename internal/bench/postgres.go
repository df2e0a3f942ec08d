package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later/postgres"
)

// schemaPrefix is what the names of a run's schemas begin with.
const schemaPrefix = "later_bench_"

// schemaComment begins the comment that marks a schema as one that may be dropped.
const schemaComment = "later bench: dropped when the benchmark ends, or by later bench --clean"

// schemaUntil follows it behind a pooler, with the time at which the run is over at
// the latest.
const schemaUntil = "; in use until "

// postgresPlace is a schema of its own in a Postgres database.
type postgresPlace struct {
	cfg    Config
	schema string
	pools  *pgxpool.Config // of the stores
	// probe reads the counters and guard keeps others from removing the
	// schema; neither is seen by the stores.
	probe, guard *pgx.Conn
	pooler       string
	version      int // as server_version_num
	postmaster   int // its process, 0 when it is not on this machine
	database     string
}

// postgresStore is a store and the pool that was made for it.
type postgresStore struct {
	*postgres.Store
	pool *pgxpool.Pool
}

func (s *postgresStore) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

// enterPostgres connects, looks whether a run is possible, and makes the schema.
func enterPostgres(ctx context.Context, cfg Config) (_ place, err error) {
	p := &postgresPlace{cfg: cfg, schema: schemaPrefix + strings.ToLower(rand.Text()[:12])}
	if p.pools, err = pgxpool.ParseConfig(cfg.URL); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close(ctx)
		}
	}()
	if p.probe, err = connect(ctx, cfg.URL, probeName); err != nil {
		return nil, err
	}
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	if p.guard, err = connect(ctx, cfg.URL, guardName); err != nil {
		return nil, err
	}
	if err := p.findPooler(ctx); err != nil {
		return nil, err
	}
	p.pools.ConnConfig.RuntimeParams["application_name"] = p.schema
	if p.pooler != poolerNone && !strings.Contains(cfg.URL, execMode) {
		p.pools.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	cfg.tellMade(p)
	if err := p.make(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		return nil, errors.Join(err, notRemoved(p, p.drop(ctx)))
	}
	return p, nil
}

// execMode is pgx's setting for how statements are run.
const execMode = "default_query_exec_mode"

// The names of the connections beside those of the stores, in pg_stat_activity.
const (
	probeName    = "later bench: counters"
	guardName    = "later bench: guard"
	snapshotName = "later bench: held snapshot"
)

// connect makes a connection that works behind any pooler.
func connect(ctx context.Context, url, name string) (*pgx.Conn, error) {
	cfg, err := pgxpool.ParseConfig(url) // which knows the parameters of a pool in a URL
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 10 * time.Second // as package postgres
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	return conn, unavailable(err)
}

// lock begins a transaction that keeps a lock on the schema's name for as long as
// the run goes on, for those who would remove what was left. It writes nothing and, as
// one simple query, keeps no snapshot: the portal of an extended one would, until
// the transaction ends, and hold back vacuum. Behind a pooler it would keep one of
// few connections from what is measured: there the schema's comment has to do.
func (p *postgresPlace) lock(ctx context.Context) error {
	if p.pooler != poolerNone {
		err := p.guard.Close(ctx)
		p.guard = nil
		return err
	}
	_, err := p.guard.PgConn().Exec(ctx, `
begin isolation level read committed;
set local idle_in_transaction_session_timeout = 0;
select pg_advisory_xact_lock(hashtextextended('`+p.schema+`', 0))`).ReadAll()
	return unavailable(err)
}

// commentOn marks the schema.
func (p *postgresPlace) commentOn(ctx context.Context, tx pgx.Tx) error {
	comment := schemaComment
	if p.pooler != poolerNone {
		var until string
		// UTC in ISO 8601, so that it means the same in each session.
		err := tx.QueryRow(ctx, `select to_char((now() + $1::bigint * interval '1 ms') at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`,
			(p.cfg.Timeout + removeTimeout).Milliseconds()).Scan(&until)
		if err != nil {
			return err
		}
		comment += schemaUntil + until
	}
	_, err := tx.Exec(ctx, "comment on schema "+pgx.Identifier{p.schema}.Sanitize()+" is '"+comment+"'")
	return err
}

// make makes the schema and has the store make its tables.
func (p *postgresPlace) make(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, p.probe, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "create schema "+pgx.Identifier{p.schema}.Sanitize()); err != nil {
			return err
		}
		return p.commentOn(ctx, tx)
	})
	if err != nil {
		return unavailable(err)
	}
	store, err := p.store(ctx)
	if err != nil {
		return err
	}
	return errors.Join(store.Migrate(ctx), store.Close())
}

func (p *postgresPlace) name() string { return "schema " + p.schema }

func (p *postgresPlace) store(ctx context.Context) (store, error) {
	pool, err := pgxpool.NewWithConfig(ctx, p.pools.Copy())
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s, err := postgres.New(pool, postgres.Config{Schema: p.schema, NoLog: p.cfg.NoLog, Logger: p.cfg.Logger})
	if err == nil {
		err = unavailable(pool.Ping(ctx))
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &postgresStore{Store: s, pool: pool}, nil
}

func (p *postgresPlace) ping(ctx context.Context) error {
	_, err := p.probe.Exec(ctx, "select 1")
	return unavailable(err)
}

// remaining reads the whole table. A job that waits for next week is not due.
func (p *postgresPlace) remaining(ctx context.Context) (n int64, err error) {
	err = p.probe.QueryRow(ctx, "select count(*) from "+p.table("job")+" where kind <> $1 and run_at <= now()", waitingKind).Scan(&n)
	return n, unavailable(err)
}

func (p *postgresPlace) table(name string) string { return pgx.Identifier{p.schema, name}.Sanitize() }

// hold implements place. In this isolation level the first statement's snapshot is
// that of the whole transaction.
func (p *postgresPlace) hold(ctx context.Context) (func() error, error) {
	conn, err := connect(ctx, p.cfg.URL, snapshotName)
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{
		"begin isolation level repeatable read",
		"set local idle_in_transaction_session_timeout = 0",
		"select txid_current_snapshot()",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, errors.Join(unavailable(err), conn.Close(context.WithoutCancel(ctx)))
		}
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
		defer cancel()
		return conn.Close(ctx)
	}, nil
}

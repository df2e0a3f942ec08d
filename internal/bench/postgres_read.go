package bench

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// countBackends counts the connections of the stores. A backend tells what it has
// counted when it ends, so all must have gone before the counters are read.
const countBackends = `select count(*) from pg_stat_activity where application_name = $1`

// backendsTimeout is how long that takes at most. Chosen: a backend that ends late
// costs exactness, not the run.
const backendsTimeout = 5 * time.Second

// The counters. Those of tables that are not the run's own are the traffic of
// others; a toast table is its owner's.
const readCounters = `
with ours as (
  select oid, reltoastrelid from pg_class where relnamespace = (select oid from pg_namespace where nspname = $1)
)
select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
       (select xact_commit from pg_stat_database where datname = current_database()),
       t.n_tup_upd, t.n_tup_hot_upd, t.n_dead_tup, t.autovacuum_count, pg_total_relation_size(t.relid),
       (select coalesce(sum(tup_inserted + tup_updated + tup_deleted), 0) from pg_stat_database)::bigint
     - (select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) from pg_stat_all_tables
        where relid in (select oid from ours union all select reltoastrelid from ours))::bigint
from pg_stat_all_tables as t
where t.schemaname = $1 and t.relname = 'job'`

// readFullPages needs PostgreSQL 14.
const readFullPages = `select wal_fpi from pg_stat_wal`

func (p *postgresPlace) read(ctx context.Context) (reading, error) {
	if err := p.waitBackends(ctx); err != nil {
		return reading{}, err
	}
	var wal, commits, updates, hot, dead, vacuums, size, others int64
	err := p.probe.QueryRow(ctx, readCounters, p.schema).Scan(&wal, &commits, &updates, &hot, &dead, &vacuums, &size, &others)
	if err != nil {
		return reading{}, unavailable(err)
	}
	r := reading{
		at: time.Now(), wal: &wal, vacuums: &vacuums, tableSize: &size, clientCPU: clientCPU(), serverCPU: serverCPU(p.postmaster),
	}
	if p.pooler == poolerNone {
		r.commits, r.updates, r.hot, r.deadRows, r.others = &commits, &updates, &hot, &dead, &others
	}
	if p.version >= 140000 {
		var pages int64
		if err := p.probe.QueryRow(ctx, readFullPages).Scan(&pages); err != nil {
			return reading{}, unavailable(err)
		}
		r.fullPages = &pages
	}
	return r, nil
}

func (p *postgresPlace) waitBackends(ctx context.Context) error {
	if p.pooler != poolerNone {
		return nil // they stay
	}
	for deadline := time.Now().Add(backendsTimeout); ; {
		var n int
		if err := p.probe.QueryRow(ctx, countBackends, p.schema).Scan(&n); err != nil {
			return unavailable(err)
		}
		if n == 0 || time.Now().After(deadline) {
			break
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	if p.version < 150000 {
		return pause(ctx, 600*time.Millisecond) // the collector of those writes its file every 500 ms
	}
	return nil
}

const findLeftovers = `
select n.nspname,
       coalesce((select sum(pg_total_relation_size(c.oid)) from pg_class as c where c.relnamespace = n.oid and c.relkind in ('r', 'm')), 0)::bigint
from pg_namespace as n
where n.nspname ~ $1 and obj_description(n.oid, 'pg_namespace') = $2 and n.nspname <> $3
order by 1`

func (p *postgresPlace) leftovers(ctx context.Context) ([]Leftover, error) {
	return schemasLeft(ctx, p.probe, p.schema)
}

// schemasLeft lists the schemas of runs, but for one. A run that goes on has a lock
// on its schema's name.
func schemasLeft(ctx context.Context, conn *pgx.Conn, but string) ([]Leftover, error) {
	rows, err := conn.Query(ctx, findLeftovers, "^"+schemaPrefix+"[a-z0-9]{12}$", schemaComment, but)
	if err != nil {
		return nil, unavailable(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Leftover, err error) {
		err = row.Scan(&l.Name, &l.Bytes)
		return l, err
	})
	if err != nil {
		return nil, unavailable(err)
	}
	for i := range found {
		var free bool
		err := conn.QueryRow(ctx, "select pg_try_advisory_xact_lock(hashtextextended($1::text, 0))", found[i].Name).Scan(&free)
		if err != nil {
			return nil, unavailable(err)
		}
		found[i].InUse = !free
	}
	if found == nil {
		found = []Leftover{}
	}
	return found, nil
}

// cleanPostgres drops what killed runs have left.
func cleanPostgres(ctx context.Context, cfg Config) ([]Leftover, error) {
	conn, err := connect(ctx, cfg.URL, probeName)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	left, err := schemasLeft(ctx, conn, "")
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		if l.InUse {
			continue
		}
		if err := dropSchema(ctx, conn, l.Name); err != nil {
			return nil, err
		}
	}
	return left, nil
}

package bench

import (
	"context"
	"time"
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
	r := readHere()
	r.serverCPU, r.wal, r.vacuums, r.tableSize = serverCPU(p.postmaster), &wal, &vacuums, &size
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

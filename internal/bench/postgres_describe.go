package bench

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// settings are the server's that decide about speed and about what a commit is
// worth.
var settings = []string{
	"synchronous_commit", "fsync", "full_page_writes", "wal_level", "wal_compression", "synchronous_standby_names", "commit_delay",
	"shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum", "autovacuum_naptime",
	"idle_in_transaction_session_timeout", "statement_timeout",
}

func (p *postgresPlace) describe(ctx context.Context, r *Report) error {
	r.Database, r.Place = "postgres", p.schema
	r.Server.Pooler, r.Server.Local = p.pooler, p.postmaster != 0
	if err := p.probe.QueryRow(ctx, "select current_setting('server_version')").Scan(&r.Server.Version); err != nil {
		return unavailable(err)
	}
	rows, err := p.probe.Query(ctx, "select name, current_setting(name) from pg_settings where name = any($1::text[]) order by name", settings)
	if err != nil {
		return unavailable(err)
	}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { r.Server.Settings[name] = value; return nil }); err != nil {
		return unavailable(err)
	}
	if err := p.roundTrip(ctx, r); err != nil {
		return err
	}
	p.warn(r)
	if r.Leftovers, err = p.leftovers(ctx); err != nil {
		return err
	}
	return p.listen(ctx, r)
}

// roundTrip takes the median of statements that do nothing, in one transaction, so
// that they are not taken for the traffic of others.
func (p *postgresPlace) roundTrip(ctx context.Context, r *Report) error {
	var trips []time.Duration
	err := pgx.BeginFunc(ctx, p.probe, func(tx pgx.Tx) error {
		for range 21 {
			begin := time.Now()
			if _, err := tx.Exec(ctx, "select 1"); err != nil {
				return err
			}
			trips = append(trips, time.Since(begin))
		}
		return nil
	})
	if err != nil {
		return unavailable(err)
	}
	slices.Sort(trips)
	r.Server.RoundTripUS = new(float64(trips[len(trips)/2].Nanoseconds()) / 1e3)
	return nil
}

// warn says what makes the figures worth less.
func (p *postgresPlace) warn(r *Report) {
	s := r.Server.Settings
	if s["fsync"] == "off" {
		r.warn("FSYNC IS OFF: a crash of the server's machine can destroy this database, and these figures are faster than a safe one's")
	}
	if s["synchronous_commit"] == "off" {
		r.warn("synchronous_commit is off: a crash of the server loses jobs that were enqueued, and these figures are faster than a safe one's")
	}
	if s["full_page_writes"] == "off" {
		r.warn("full_page_writes is off: a crash can leave torn pages, and less WAL is written than usual")
	}
	if s["autovacuum"] == "off" {
		r.warn("autovacuum is off: dead rows stay, and a queue becomes slower with each job")
	}
	switch p.pooler {
	case poolerTransaction:
		r.warn("a pooler in transaction mode is between: its connections stay open, so that HOT updates, commits and dead rows are counted too late to be told")
	case poolerSession:
		r.warn("a pooler is between: its connections stay open, so that HOT updates, commits and dead rows are counted too late to be told")
	}
	if p.postmaster == 0 {
		r.warn("the server's processes cannot be seen from here: its CPU time is not known")
	}
}

// listening is how long the traffic of others is watched before the first phase.
// Chosen: the counters of a backend come at most every second.
const listening = 1500 * time.Millisecond

// listen counts the commits of others while nothing is done here.
func (p *postgresPlace) listen(ctx context.Context, r *Report) error {
	before, err := p.read(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, listening); err != nil {
		return err
	}
	after, err := p.read(ctx)
	if err != nil {
		return err
	}
	seconds := after.at.Sub(before.at).Seconds()
	if before.commits == nil {
		return nil
	}
	if commits := float64(*after.commits-*before.commits) / seconds; commits > 20 {
		r.warn("others made %.0f commits a second in this database before it began: the counters of the server include them", commits)
	}
	if wal := float64(*after.wal-*before.wal) / seconds; wal > 100_000 {
		r.warn("others wrote %.0f kB of WAL a second before it began: the counters of the server include it", wal/1000)
	}
	return nil
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/later-queue/later"
)

// refused is an ErrRefused with its reason.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// unavailable gives an error of the server, or of the way to it, the meaning that
// it has in package later. The classes are those of the manual's appendix A.
func unavailable(err error) error {
	var server *pgconn.PgError
	var connecting *pgconn.ConnectError
	isServer, isConnecting := errors.As(err, &server), errors.As(err, &connecting)
	switch {
	case err == nil, errors.Is(err, later.ErrUnavailable), errors.Is(err, later.ErrFull), errors.Is(err, context.Canceled):
		return err
	case isServer && server.Code == "53100":
		return fmt.Errorf("%w: %w", later.ErrFull, err)
	case isServer && server.Code == "42501":
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case isConnecting, isServer && slices.Contains([]string{"08", "28", "53", "57"}, server.Code[:2]):
		return fmt.Errorf("%w: %w", later.ErrUnavailable, err)
	case isServer, errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %w", later.ErrUnavailable, err) // the connection broke
}

const checkServer = `
select current_setting('server_version'), current_setting('server_version_num')::int, current_database(), current_user,
       pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
       has_database_privilege(current_database(), 'CREATE'), pg_backend_pid()`

// check refuses a database in which a run cannot be made, before anything is
// changed.
func (p *postgresPlace) check(ctx context.Context) error {
	var version, user string
	var standby, readOnly, mayCreate bool
	var pid int
	err := p.probe.QueryRow(ctx, checkServer).Scan(&version, &p.version, &p.database, &user, &standby, &readOnly, &mayCreate, &pid)
	switch {
	case err != nil:
		return unavailable(err)
	case standby:
		return refused("the server is a standby, which cannot be written to; name its primary")
	case readOnly:
		return refused("the connection is read-only (default_transaction_read_only)")
	case !mayCreate:
		return refused("the user %s may not create a schema in the database %s; an owner can allow it with: grant create on database %s to %s",
			user, p.database, pgx.Identifier{p.database}.Sanitize(), pgx.Identifier{user}.Sanitize())
	case p.version < 120000:
		return refused("the server is PostgreSQL %s; Later needs 12 or later", version)
	}
	p.postmaster = postmasterOf(pid, p.database)
	return p.checkDisk(ctx)
}

// The bytes that a job takes beside its payload. Measured: a job with a payload of 110
// bytes takes 1,000 bytes of table and indexes at the table's fillfactor, and up
// to 1,300 bytes of WAL and log until it is done.
const (
	jobBytes    = 2500
	payloadCopy = 5 // table, room for a second version, WAL, and full pages
	spareBytes  = 256 << 20
)

// needed is what a run may take of the disk at most.
func (c Config) needed() int64 {
	jobs := int64(c.Backlog) + int64(c.Scheduled) + int64(c.Rate)*int64(c.For/time.Second+1)
	jobs += int64(c.Jobs)
	if c.HoldSnapshot {
		jobs += int64(c.Jobs)
	}
	return spareBytes + jobs*(jobBytes+payloadCopy*int64(c.Payload))
}

// checkDisk refuses a run for which the disk has too little room. It is known only
// where the server is on this machine and tells where its files are.
func (p *postgresPlace) checkDisk(ctx context.Context) error {
	var dir string
	if p.postmaster == 0 {
		return nil
	}
	if err := p.probe.QueryRow(ctx, "select current_setting('data_directory')").Scan(&dir); err != nil {
		return nil // only some users may know
	}
	return checkRoom(dir, p.cfg.needed())
}

func checkRoom(dir string, needed int64) error {
	if free, ok := freeBytes(dir); ok && free < needed {
		return refused("it could take %d MB of the disk of %s, where %d MB are free; fewer --jobs take less", needed>>20, dir, free>>20)
	}
	return nil
}

// What Server.Pooler says.
const (
	poolerNone        = "none"
	poolerSession     = "session"
	poolerTransaction = "transaction"
)

// findPooler tells a pooler by the process of the connection: a pooler gives a
// number of its own. In transaction mode a second transaction may be on another
// connection of the server: the guard's, which was given back last.
func (p *postgresPlace) findPooler(ctx context.Context) error {
	var first, second, again int
	pid := func(conn *pgx.Conn, sql string, to *int) func() error {
		return func() error {
			if _, err := conn.Exec(ctx, sql); err != nil || to == nil {
				return err
			}
			return conn.QueryRow(ctx, "select pg_backend_pid()").Scan(to)
		}
	}
	for _, step := range []func() error{
		pid(p.probe, "begin", &first), pid(p.guard, "begin", &second),
		pid(p.probe, "commit", nil), pid(p.guard, "commit", nil),
		pid(p.probe, "begin", &again), pid(p.probe, "commit", nil),
	} {
		if err := step(); err != nil {
			return unavailable(err)
		}
	}
	switch {
	case int(p.probe.PgConn().PID()) == first:
		p.pooler = poolerNone
	case again != first:
		p.pooler = poolerTransaction
	default:
		p.pooler = poolerSession
	}
	return nil
}

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

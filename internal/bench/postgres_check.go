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
		return refused("the connection is read-only: default_transaction_read_only is on, and must be off for this user, database or URL")
	case !mayCreate:
		return refused("the user %s may not create a schema in the database %s; an owner can allow it with: grant create on database %s to %s",
			user, p.database, pgx.Identifier{p.database}.Sanitize(), pgx.Identifier{user}.Sanitize())
	case p.version < 120000:
		return refused("the server is PostgreSQL %s; Later needs 12 or later", version)
	}
	p.postmaster = postmasterOf(pid, p.database)
	return p.checkDisk(ctx)
}

// The bytes that a job takes of the disk, and how often its payload is in that. Chosen
// above what was measured: with a payload of 110 bytes 770 bytes of table and indexes and 850 of
// WAL, with one of 2,000 bytes 3,230 and 3,190; the job log and full pages come on top.
const (
	jobBytes    = 2500
	payloadCopy = 5
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
		return refused("it could take %d MB of the disk of %s, where %d MB are free; fewer --jobs take less, and so does a smaller --payload, --backlog or --scheduled", needed>>20, dir, free>>20)
	}
	return nil
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/later-queue/later"
)

// classify adds the sentinel that err matches; the driver's error stays in the
// chain. The codes are those of PostgreSQL's appendix A.
func (s *Store) classify(err error) error {
	if errors.Is(err, puddle.ErrClosedPool) {
		return fmt.Errorf("%w: %w", later.ErrClosed, err)
	}
	if code := codeOf(err); code != "" {
		return s.classifyCode(code, err)
	}
	if isConnection(err) {
		return fmt.Errorf("%w: %w", later.ErrUnavailable, err)
	}
	return err
}

// codeOf is the server's code for err, whatever driver brought it, or "".
func codeOf(err error) string {
	var server interface{ SQLState() string } // pgx, lib/pq and others have it
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}

// hasCode reports whether err is the server's, with one of codes.
func hasCode(err error, codes ...string) bool { return slices.Contains(codes, codeOf(err)) }

func (s *Store) classifyCode(code string, err error) error {
	switch code {
	case "53100":
		return fmt.Errorf("%w: %w", later.ErrFull, err)
	case "42P01", "3F000", "42703", "42883", "42704": // no such table, schema, column, function, type
		return fmt.Errorf("%w: schema %s lacks what this program needs; run `later migrate up`: %w", later.ErrSchema, s.schema, err)
	case "26000", "42P05": // a prepared statement is missing, or is there already
		return fmt.Errorf("%w: prepared statements get lost, as behind PgBouncer in transaction mode; "+
			"add default_query_exec_mode=exec (or cache_describe) to the database URL: %w", later.ErrUnavailable, err)
	case "25006", // read-only
		"40001", "40P01", "55P03", // kept aborting
		"57014": // statement timeout
		return fmt.Errorf("%w: %w", later.ErrUnavailable, err)
	}
	switch code[:min(len(code), 2)] {
	case "08", // connection
		"28", // the role or its password, which may be changing just now
		"3D", // the database, while it is being restored
		"53", // no memory, too many connections
		"57", // shut down, starting up
		"58": // the server's own system
		return fmt.Errorf("%w: %w", later.ErrUnavailable, err)
	}
	return err
}

// isConnection reports whether err comes from the way to the server. A context
// that ended is one: the statement may have been under way.
func isConnection(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// urlError says what is wrong with a database URL. It shows nothing of the URL
// and keeps no error of the parser's: a password with an unescaped @ or / ends
// up in what the parser takes for a host or a port.
func urlError(err error) error {
	for _, reason := range []string{
		"sslmode is invalid", "invalid connect_timeout", "invalid default_query_exec_mode", "invalid target_session_attrs",
		"unable to read CA file", "unable to add CA to cert pool", "unable to read sslcert", "unable to read sslkey",
		"statement_cache_capacity", "description_cache_capacity", "invalid port", "pool_max_conns", "pool_min_conns",
		"pool_max_conn_lifetime", "pool_max_conn_idle_time", "pool_health_check_period", "failed to read service",
	} {
		if strings.Contains(err.Error(), reason) {
			return fmt.Errorf("postgres: the database URL is not valid: %s (the URL is not shown, it may hold a password)", reason)
		}
	}
	return errors.New("postgres: the database URL is not valid; it is not shown, as it may hold a password. " +
		"It should look like postgres://user:password@host:5432/database, with special characters in the password as %40 and the like")
}

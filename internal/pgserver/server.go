package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// startTimeout is how long a server may take until it answers. Recovery after an
// immediate stop is included. Chosen, not measured: a start takes under a second here.
const startTimeout = 60 * time.Second

// stopTimeout is how long a server may take to stop before it is killed. Chosen.
const stopTimeout = 30 * time.Second

// Config says how a server runs. The zero value is a fresh cluster in a folder of
// its own under the system's folder for temporary files.
type Config struct {
	// Dir is the folder of the server, created when it does not exist. Empty: a
	// new temporary folder. A cluster that is there already is used again.
	Dir string

	// Settings go into the server's configuration file and win over the defaults
	// of this package (see [Start]).
	Settings map[string]string
}

// Server is a PostgreSQL server that this process started. Its methods may be
// called from several goroutines, one after the other takes effect.
type Server struct {
	dir  string
	bin  string
	port int
	user *account
	kept bool // the folder was there before us: Close leaves it

	mu   sync.Mutex
	proc *process // nil while stopped
}

// Start makes a cluster (trust authentication, UTF-8, locale C.UTF-8, superuser
// postgres) and starts a server on a free port of 127.0.0.1. It returns when the
// server answers queries.
//
// Unlike PostgreSQL's own defaults fsync is off: a stop of the server, however rude,
// loses nothing by that; only a crash of the machine does. Commits stay synchronous.
// The time zone is Asia/Kathmandu (5:45 ahead of UTC), so that code which takes the
// session's zone for UTC shows itself.
//
// As root the server runs as the user postgres, or nobody where there is none,
// because PostgreSQL refuses to run as root.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	bin, err := findPostgres(debianPostgres)
	if err != nil {
		return nil, err
	}
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, made, err := makeDir(cfg.Dir, "later-pg-", user)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, port: port, user: user, kept: !made}
	if err := s.init(ctx, cfg.Settings); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// URL is the address of the database postgres for its superuser. It stays the same
// over restarts.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Port is the TCP port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Dir is the server's folder. The data lie in its folder data, the server's
// messages in its file postgres.log.
func (s *Server) Dir() string { return s.dir }

// Start starts a stopped server again, on the same data and port, and returns when
// it answers queries. It is an error when the server runs.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return errors.New("pgserver: the server runs already")
	}
	proc, err := startProcess(command{
		name: filepath.Join(s.bin, "postgres"),
		args: []string{"-D", s.data()},
		dir:  s.dir,
		log:  s.logFile(),
		user: s.user,
		// The server's own immediate shutdown: it takes its children along.
		deathSignal: syscall.SIGQUIT,
	})
	if err != nil {
		return err
	}
	if err := proc.waitReady(ctx, s.URL()); err != nil {
		proc.stop(syscall.SIGQUIT, stopTimeout)
		return err
	}
	s.proc = proc
	return nil
}

// Stop stops the server and returns when it has ended. The mode is one of
// PostgreSQL's: "fast" ends sessions and writes a checkpoint, "immediate" is like a
// crash, and the next start recovers from the log. Stopping a stopped server does nothing.
func (s *Server) Stop(mode string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	signal, ok := map[string]syscall.Signal{"fast": syscall.SIGINT, "immediate": syscall.SIGQUIT}[mode]
	if !ok {
		return fmt.Errorf("pgserver: unknown mode %q of stopping (fast, immediate)", mode)
	}
	if s.proc == nil {
		return nil
	}
	err := s.proc.stop(signal, stopTimeout)
	s.proc = nil
	return err
}

// Restart stops the server in the given mode (see [Server.Stop]) and starts it again.
func (s *Server) Restart(ctx context.Context, mode string) error {
	if err := s.Stop(mode); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Close stops the server at once and removes its folder, unless the folder was there
// before [Start]. Further calls do nothing.
func (s *Server) Close() error {
	err := s.Stop("immediate")
	if s.kept {
		return err
	}
	if rmErr := os.RemoveAll(s.dir); rmErr != nil {
		err = errors.Join(err, fmt.Errorf("pgserver: remove the folder: %w", rmErr))
	}
	return err
}

func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string { return filepath.Join(s.dir, "postgres.log") }

// init makes the cluster where there is none, and writes the configuration.
func (s *Server) init(ctx context.Context, settings map[string]string) error {
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); errors.Is(err, os.ErrNotExist) {
		err := runProcess(ctx, command{
			name: filepath.Join(s.bin, "initdb"),
			args: []string{"-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"},
			dir:  s.dir,
			log:  filepath.Join(s.dir, "initdb.log"),
			user: s.user,
		})
		if err != nil {
			return err
		}
	}
	// The file is included last, so it wins over what initdb wrote.
	name := filepath.Join(s.data(), "later.conf")
	if err := writeFile(name, s.conf(settings), s.user); err != nil {
		return err
	}
	main := filepath.Join(s.data(), "postgresql.conf")
	text, err := os.ReadFile(main)
	if err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	const include = "\ninclude 'later.conf'\n"
	if strings.Contains(string(text), include) {
		return nil
	}
	return writeFile(main, string(text)+include, s.user)
}

// conf is the text of the configuration file.
func (s *Server) conf(settings map[string]string) string {
	all := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    fmt.Sprint(s.port),
		"unix_socket_directories": s.dir,
		"fsync":                   "off",
		"max_connections":         "200",
		"shared_buffers":          "64MB",
		"timezone":                "Asia/Kathmandu",
		"lc_messages":             "C",
		"logging_collector":       "off",
	}
	for name, value := range settings {
		all[name] = value
	}
	var text strings.Builder
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	return text.String()
}

// waitReady returns nil as soon as the address answers a query, and an error with the
// end of the server's messages when the process ended or the time ran out.
func (p *process) waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ask(ctx, url)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("pgserver: %s ended while starting:\n%s", p.name, p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("pgserver: %s does not answer (%w): %w\n%s", p.name, err, context.Cause(ctx), p.logTail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask opens one connection and sends one query.
func ask(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // PgBouncer has no prepared statements
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "select 1")
	return err
}

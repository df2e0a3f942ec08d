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
)

// PgBouncer is a PgBouncer in front of a [Server].
type PgBouncer struct {
	dir  string
	port int

	mu   sync.Mutex
	proc *process // nil when closed
}

// StartPgBouncer starts a PgBouncer in front of the server, in transaction pooling
// mode, and returns when it answers queries. Two server connections serve all
// clients, so that whoever counts on session state gets somebody else's.
// Prepared statements of the protocol are off, as in every PgBouncer before 1.21.
// Settings in cfg go into its section [pgbouncer].
func StartPgBouncer(ctx context.Context, server *Server, cfg Config) (*PgBouncer, error) {
	program, err := findPgBouncer(debianSbin)
	if err != nil {
		return nil, err
	}
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, _, err := makeDir(cfg.Dir, "later-pgbouncer-", user)
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{dir: dir}
	if err := b.start(ctx, program, user, server, cfg.Settings); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// URL is the address of the server's database postgres through this PgBouncer.
func (b *PgBouncer) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", b.port)
}

// Close stops it at once and removes its folder. Further calls do nothing.
func (b *PgBouncer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.proc != nil {
		// It has nothing to save, and what SIGTERM means differs between versions.
		err = b.proc.stop(syscall.SIGKILL, 5*time.Second)
		b.proc = nil
	}
	if rmErr := os.RemoveAll(b.dir); rmErr != nil {
		err = errors.Join(err, fmt.Errorf("pgserver: remove the folder: %w", rmErr))
	}
	return err
}

func (b *PgBouncer) start(ctx context.Context, program string, user *account, server *Server, settings map[string]string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	b.port = port
	ini := filepath.Join(b.dir, "pgbouncer.ini")
	if err := writeFile(ini, b.ini(server, settings), user); err != nil {
		return err
	}
	proc, err := startProcess(command{
		name:        program,
		args:        []string{ini},
		dir:         b.dir,
		log:         filepath.Join(b.dir, "pgbouncer.log"),
		user:        user,
		deathSignal: syscall.SIGKILL,
	})
	if err != nil {
		return err
	}
	b.proc = proc
	return proc.waitReady(ctx, b.URL())
}

// ini is the text of the configuration file.
func (b *PgBouncer) ini(server *Server, settings map[string]string) string {
	all := map[string]string{
		"listen_addr":     "127.0.0.1",
		"listen_port":     fmt.Sprint(b.port),
		"unix_socket_dir": "", // no socket
		// Any name may log in, and becomes the user of the [databases] line.
		"auth_type":         "any",
		"pool_mode":         "transaction",
		"default_pool_size": "2",
		"max_client_conn":   "500",
		// lib/pq sends extra_float_digits at the start of each connection, and
		// PgBouncer refuses what it does not know.
		"ignore_startup_parameters": "extra_float_digits",
		"server_login_retry":        "1",
	}
	for name, value := range settings {
		all[name] = value
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	var text strings.Builder
	fmt.Fprintf(&text, "[databases]\n* = host=127.0.0.1 port=%d user=postgres\n\n[pgbouncer]\n", server.Port())
	for _, name := range names {
		fmt.Fprintf(&text, "%s = %s\n", name, all[name])
	}
	return text.String()
}

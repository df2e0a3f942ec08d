// Package sqlite keeps jobs in an SQLite file: the embedded default, with
// nothing to install.
//
// The file is in WAL mode, and every commit is synced to disk before an
// operation returns. Several processes may work on one file, on one machine: WAL
// needs shared memory, which network file systems do not have. All writes of a
// process go through one goroutine, which takes whatever has queued up while the
// last commit ran into the next one (group commit), so that a sync is shared.
//
// The application may keep its own tables in the same file, and then enqueue
// ([Store.EnqueueSQLTx]) and settle ([Store.DoneSQLTx]) in its own transactions. SQLite
// has one write lock for the whole file: a transaction that holds it makes every
// other writer wait, in all processes, so keep them short, and inside one use the
// methods that take the transaction. Any *sql.Tx of the pure-Go driver
// modernc.org/sqlite on the same file will do.
//
// What the package promises was tested on local file systems of Linux.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/later-queue/later"
)

const (
	// DefaultLogRetention is how long finished attempts stay in the log.
	// Chosen, not measured: a week of questions.
	DefaultLogRetention = 7 * 24 * time.Hour
	// DefaultBusyTimeout is how long an operation waits for another
	// transaction to give up the write lock. Chosen, not measured: longer than
	// any transaction should hold it, shorter than a lease.
	DefaultBusyTimeout = 10 * time.Second
)

// Config is how a store is set up. The zero value is the default.
type Config struct {
	// LogRetention is how long the log keeps finished attempts; 0 is
	// [DefaultLogRetention]. It never concerns jobs or dead jobs.
	LogRetention time.Duration
	// NoLog switches the log off.
	NoLog bool
	// NoMigrate leaves the tables as they are: for those who migrate apart from
	// the start of their program.
	NoMigrate bool
	// Logger gets what the store has to say by itself; nil is slog.Default().
	Logger *slog.Logger
	// BusyTimeout is how long an operation waits for the file's write lock
	// before it fails with [later.ErrUnavailable]; 0 is [DefaultBusyTimeout].
	BusyTimeout time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.LogRetention < 0 {
		return c, fmt.Errorf("sqlite: LogRetention %v is negative", c.LogRetention)
	}
	if c.BusyTimeout < 0 {
		return c, fmt.Errorf("sqlite: BusyTimeout %v is negative", c.BusyTimeout)
	}
	if c.LogRetention == 0 {
		c.LogRetention = DefaultLogRetention
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = DefaultBusyTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// Store keeps jobs in one SQLite file. It implements [later.Store] and
// [later.Migrator], and is safe for concurrent use.
type Store struct {
	*later.Client
	config Config
	pools  *pools
	writer *writer
	// watches are the waiting workers of this process.
	watches *watches
	nextDue nextDueStatement
	// unanswered are claims of this process whose callers got no answer.
	unanswered unanswered
	turns      turnMarks
	dueTenants map[turnKey]*dueTenants
	// gates are those that the writer's goroutine has read last.
	gates *gates
	held  heldBack
	close sync.Once
}

var (
	_ later.Store    = (*Store)(nil)
	_ later.Migrator = (*Store)(nil)
	_ later.Limiter  = (*Store)(nil)
)

// Open opens the file at path, and creates it when there is none; its folder
// must exist. The path ":memory:" is a database in memory, of this store alone,
// which ends with Close: for tests. In memory, unlike in a file, an open
// transaction that has written makes readers wait too. Open brings the tables to the newest version
// unless config says otherwise. Without NoMigrate it fails with
// [later.ErrSchema] when the file was written by a newer version that this
// program cannot work with.
func Open(ctx context.Context, path string, config Config) (*Store, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	pools, err := openPools(ctx, path, config.BusyTimeout)
	if err != nil {
		return nil, fmt.Errorf("open sqlite store %q: %w", path, err)
	}
	s := &Store{config: config, pools: pools, writer: startWriter(pools, config), watches: pools.watches, turns: turnMarks{}, gates: &gates{},
		dueTenants: map[turnKey]*dueTenants{}}
	s.Client = later.NewClient(s)
	if config.NoMigrate {
		return s, nil
	}
	if err := s.Migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open sqlite store %q: %w", path, err), s.Close())
	}
	return s, nil
}

// DB returns connections to the file for the application's own tables and
// transactions. Its transactions begin with BEGIN IMMEDIATE, so they hold the
// write lock from the start, unless they are read-only (sql.TxOptions); they
// wait for it as long as Config.BusyTimeout. The store closes it.
func (s *Store) DB() *sql.DB { return s.pools.app }

// Close ends the store's goroutine and connections. Operations that are under
// way are finished first; those that still wait for their turn fail with
// [later.ErrClosed]. A second call does nothing.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		s.writer.stop()
		err = s.pools.close()
	})
	return err
}

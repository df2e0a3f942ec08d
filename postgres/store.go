package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/combine"
)

const (
	// DefaultSchema is where the tables are when Config.Schema is empty.
	DefaultSchema = "later"
	// DefaultLogRetention is how long finished attempts are kept. Chosen, not
	// measured: last week's trouble can still be looked at.
	DefaultLogRetention = 7 * 24 * time.Hour
	// DefaultPoolSize is the number of connections for running jobs. Chosen: a
	// claim, a settle and a renewal at the same time, and one to spare.
	DefaultPoolSize = 4
)

// Config is what can be set. The zero value is the default.
type Config struct {
	// Schema is where the tables are; "" is [DefaultSchema]. At most 63
	// letters, digits and _, the first no digit, and not beginning with pg_.
	// Letters keep their case.
	Schema string
	// LogRetention is how long finished attempts stay in job_log; 0 is
	// [DefaultLogRetention]. Whole days are dropped, so an attempt stays up to a
	// day longer. Of several processes the one with the shortest decides. It
	// concerns no job and no dead job.
	LogRetention time.Duration
	// NoLog writes no finished attempts into job_log.
	NoLog bool
	// PoolSize bounds the store's own connections, which run jobs: claim,
	// renew, settle and the like; 0 is [DefaultPoolSize].
	PoolSize int
	// NoListen has workers poll only: no connection for notifications is made.
	NoListen bool
	// ListenURL is where workers listen for notifications, if not where the pool
	// connects to: a way to the server itself when the pool goes through a pooler
	// in transaction mode, which passes none on.
	ListenURL string
	// TenantPool serves [Store.TenantTx]; nil is the pool that enqueues. Give one whose role
	// row-level security binds, if that pool's role is a superuser or owns the tables. The
	// caller keeps it.
	TenantPool *pgxpool.Pool
	// TenantSetting is the setting in which policies find the tenant; "" is
	// [DefaultTenantSetting]. Two to four names with points between them, and not one that an
	// extension uses.
	TenantSetting string
	// Logger is told what nobody else is; nil is slog.Default().
	Logger *slog.Logger
}

// Store keeps jobs in Postgres. It is safe for concurrent use.
//
// It uses two pools. The caller's serves what the application does: Enqueue and
// the [later.Operator]. One of the store's own, made when first needed, serves
// what workers do, so that an application that has taken every connection
// cannot keep a worker from renewing its leases.
type Store struct {
	*later.Client

	schema    string // quoted
	name      string // of the schema, as it was given
	config    Config
	log       *slog.Logger
	pool      *pgxpool.Pool
	ownsPool  bool
	rotations rotations
	claims    sync.Map // the statements of claims, see claimSQL
	looks     looks
	gates     gates
	holding   holding
	ear       *ear
	// tenantRoles are those whose tables have been looked at, see setTenant.
	tenantRoles sync.Map

	insertSQL string
	shared    *combine.Combiner[newRow, later.Enqueued] // nil: each call by itself

	mu      sync.Mutex
	runtime *pgxpool.Pool // nil until it is needed
	closed  bool
}

var (
	_ later.Store    = (*Store)(nil)
	_ later.Migrator = (*Store)(nil)
)

// Open connects to the database at url, which is a postgres:// URL or a
// key=value string as pgx reads it, pool settings included. It does not
// migrate. Close ends its connections. No error of it contains the password.
func Open(ctx context.Context, url string, config Config) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, urlError(err)
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		// So that a server that answers nothing is an error and not silence.
		// Chosen, not measured.
		cfg.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s, err := New(pool, config)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.ownsPool = true
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: connect: %w", s.classify(err))
	}
	// A worker may not need this pool again, and an idle connection of each of many
	// workers is one that the others lack.
	pool.Reset()
	return s, nil
}

// New returns a store that enqueues through pool, and whose own connections are
// made with pool's settings. It connects to nothing. The caller keeps pool, and
// closes it after the store.
func New(pool *pgxpool.Pool, config Config) (*Store, error) {
	if pool == nil {
		return nil, errors.New("postgres: the pool is nil")
	}
	if config.Schema == "" {
		config.Schema = DefaultSchema
	}
	if config.LogRetention == 0 {
		config.LogRetention = DefaultLogRetention
	}
	if config.PoolSize == 0 {
		config.PoolSize = DefaultPoolSize
	}
	if config.TenantSetting == "" {
		config.TenantSetting = DefaultTenantSetting
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if err := checkSchemaName(config.Schema); err != nil {
		return nil, err
	}
	if err := checkSettingName(config.TenantSetting); err != nil {
		return nil, err
	}
	if config.LogRetention < 0 {
		return nil, fmt.Errorf("postgres: LogRetention %v is negative", config.LogRetention)
	}
	if config.PoolSize < 0 || config.PoolSize > maxPoolSize {
		return nil, fmt.Errorf("postgres: PoolSize %d is not from 1 to %d", config.PoolSize, maxPoolSize)
	}
	s := &Store{
		schema: pgx.Identifier{config.Schema}.Sanitize(),
		name:   config.Schema,
		config: config,
		log:    config.Logger,
		pool:   pool,
	}
	s.rotations.alone = config.PoolSize == 1
	s.ear = newEar(s)
	if config.ListenURL != "" {
		cfg, err := pgx.ParseConfig(config.ListenURL)
		if err != nil {
			return nil, urlError(err)
		}
		s.ear.direct = cfg
	}
	s.Client = later.NewClient(s)
	s.insertSQL = s.sql(insertRows)
	s.share()
	return s, nil
}

// maxPoolSize is far above what any server allows.
const maxPoolSize = 10_000

var schemaName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func checkSchemaName(name string) error {
	if !schemaName.MatchString(name) {
		return fmt.Errorf("postgres: Schema %q is not 1 to 63 letters, digits and _, the first no digit", later.ClipText(name, 100))
	}
	if lower := strings.ToLower(name); strings.HasPrefix(lower, "pg_") || lower == "information_schema" {
		return fmt.Errorf("postgres: Schema %q belongs to the server", name)
	}
	return nil
}

// sql puts the schema into a statement.
func (s *Store) sql(statement string) string {
	return strings.ReplaceAll(statement, "{schema}", s.schema)
}

// runtimePool returns the pool that serves workers.
func (s *Store) runtimePool() (*pgxpool.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, later.ErrClosed
	}
	if s.runtime != nil {
		return s.runtime, nil
	}
	cfg := s.pool.Config()
	cfg.MaxConns = int32(s.config.PoolSize)
	cfg.MinConns, cfg.MinIdleConns = 0, 0
	knowDirect(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg) // connects to nothing yet
	if err != nil {
		return nil, err
	}
	s.runtime = pool
	return pool, nil
}

// appPool returns the pool that serves the application.
func (s *Store) appPool() (*pgxpool.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, later.ErrClosed
	}
	return s.pool, nil
}

// Close ends the store's own connections, after what runs on them has ended. Calls
// of Enqueue that still wait for their statement to begin fail with [later.ErrClosed]. A
// pool that was given to New stays open. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	runtime, again := s.runtime, s.closed
	s.closed, s.runtime = true, nil
	s.mu.Unlock()
	s.looks.close()
	s.ear.close()
	if s.shared != nil {
		s.shared.Close()
	}
	if runtime != nil {
		runtime.Close()
	}
	if s.ownsPool && !again {
		s.pool.Close()
	}
	return nil
}

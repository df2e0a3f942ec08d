// Package open opens the store that a URL names.
package open

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/spelling"
)

// ErrURL is matched by the error for a database URL that cannot be right.
var ErrURL = errors.New("invalid database URL")

// DefaultURL is the database of those who name none.
const DefaultURL = "sqlite:later.db"

// Config is what can be set beside the URL. The zero value is the default.
type Config struct {
	// Schema is the Postgres schema of the tables; "" is "later". It is refused
	// for SQLite, which has no schemas.
	Schema string
	// NoMigrate opens an SQLite file as it is. Otherwise its tables are brought
	// to the newest version; those of Postgres never are.
	NoMigrate bool
	// MustExist refuses an SQLite file that does not exist yet, with an error
	// that matches [ErrNoFile], instead of creating it.
	MustExist bool
	// Brief is for those who run a few statements and close the store. On
	// Postgres they are not prepared then, which works behind PgBouncer in
	// transaction mode too, where prepared statements get lost.
	Brief bool
	// LogRetention, NoLog and Logger are those of the stores.
	LogRetention time.Duration
	NoLog        bool
	Logger       *slog.Logger
	// ListenURL and NoListen are those of the Postgres store. They are refused for
	// SQLite, with an error that matches [ErrListen].
	ListenURL string
	NoListen  bool
}

// ErrListen is matched by the error for a ListenURL or NoListen that cannot be right.
var ErrListen = errors.New("wrong setting for listening")

// ErrNoFile means that the SQLite file does not exist.
var ErrNoFile = errors.New("no such database file")

// scheme is one kind of store.
type scheme struct {
	names   []string // before the colon
	example string
	open    func(ctx context.Context, url string, config Config) (later.Store, error)
	sql     func(ctx context.Context, url string, config Config, down bool) (string, error)
}

// schemes are all kinds of store: a new one is a line here and a file beside
// this one.
var schemes = []scheme{
	{names: []string{"sqlite"}, example: "sqlite:later.db", open: openSQLite, sql: sqliteSQL},
	{names: []string{"postgres", "postgresql"}, example: "postgres://user@host/name", open: openPostgres, sql: postgresSQL},
}

// Store opens the store at url: sqlite:FILE, or a Postgres URL. No error of it
// shows the URL's password.
func Store(ctx context.Context, url string) (later.Store, error) {
	return StoreWith(ctx, url, Config{})
}

// StoreWith is [Store] with settings.
func StoreWith(ctx context.Context, url string, config Config) (later.Store, error) {
	s, err := find(url)
	if err != nil {
		return nil, err
	}
	store, err := s.open(ctx, url, config)
	if err != nil {
		return nil, hideSecrets(err, url)
	}
	return store, nil
}

// MigrationSQL returns the SQL of all migrations for the kind of database that
// url names, up or down, without connecting to it.
func MigrationSQL(ctx context.Context, url string, config Config, down bool) (string, error) {
	s, err := find(url)
	if err != nil {
		return "", err
	}
	sql, err := s.sql(ctx, url, config, down)
	if err != nil {
		return "", hideSecrets(err, url)
	}
	return sql, nil
}

// Schemes returns the beginnings of URLs, for completion.
func Schemes() []string {
	var all []string
	for _, s := range schemes {
		prefix, _, _ := strings.Cut(s.example, ":")
		if strings.HasPrefix(s.example, prefix+"://") {
			prefix += "://"
		} else {
			prefix += ":"
		}
		all = append(all, prefix)
	}
	return all
}

func find(url string) (scheme, error) {
	name, _, found := strings.Cut(url, ":")
	var names, examples []string
	for _, s := range schemes {
		for _, known := range s.names {
			if found && strings.EqualFold(name, known) {
				return s, nil
			}
			names = append(names, known)
		}
		examples = append(examples, s.example)
	}
	right := "right are " + strings.Join(examples, " and ")
	switch {
	case url == "":
		return scheme{}, fmt.Errorf("%w: it is empty; %s", ErrURL, right)
	case !isSchemeName(name) || !found:
		// The text itself is shown only where it cannot hold a password.
		if isWord(url) {
			return scheme{}, fmt.Errorf("%w: %q has no scheme; %s", ErrURL, url, right)
		}
		if looksLikeFile(url) {
			return scheme{}, fmt.Errorf("%w: %q has no scheme; for a file write sqlite:%s", ErrURL, url, url)
		}
		return scheme{}, fmt.Errorf("%w: it has no scheme; %s", ErrURL, right)
	default:
		return scheme{}, fmt.Errorf("%w: unknown scheme %q%s; %s", ErrURL, name, spelling.DidYouMean(name, names), right)
	}
}

func isSchemeName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r >= '0' && r <= '9' || r == '+' || r == '-' || r == '.')) {
			return false
		}
	}
	return s != "" && len(s) <= 30
}

// isWord reports whether s is a plain name, such as that of a database.
func isWord(s string) bool {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	return s != "" && len(s) <= 40 && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0
}

func looksLikeFile(s string) bool {
	return len(s) <= 200 && !strings.ContainsAny(s, "@:=?\x00\n") &&
		(strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".db") || strings.HasSuffix(s, ".sqlite"))
}

package bench

import (
	"context"
	"strings"

	"github.com/later-queue/later/internal/open"
)

// enter makes room for a run in the database of cfg.
func enter(ctx context.Context, cfg Config) (place, error) {
	if err := checkURL(ctx, cfg); err != nil {
		return nil, err
	}
	if isSQLite(cfg.URL) {
		return enterSQLite(ctx, cfg)
	}
	return enterPostgres(ctx, cfg)
}

// Clean removes what runs have left that were killed, in the database that url
// names. It returns all of it; what is in use, or foreign, is still there.
func Clean(ctx context.Context, url string) ([]Leftover, error) {
	cfg := Config{URL: url}
	if err := checkURL(ctx, cfg); err != nil {
		return nil, err
	}
	if isSQLite(url) {
		return cleanSQLite(cfg)
	}
	return cleanPostgres(ctx, cfg)
}

// checkURL finds what is wrong with the URL, in the words that every command has
// for that, before anything is connected to.
func checkURL(ctx context.Context, cfg Config) error {
	_, err := open.MigrationSQL(ctx, cfg.URL, open.Config{}, false)
	return err
}

func isSQLite(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return strings.EqualFold(scheme, "sqlite")
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
)

// opening says how a command needs its database.
type opening int

const (
	// existing refuses a file that does not exist: a command that only looks
	// must not make an empty database out of a mistyped name. Nor does it
	// migrate.
	existing opening = iota
	// creating makes an SQLite file, and its tables.
	creating
	// asIs makes the file, but does not look at the tables.
	asIs
	// existingAsIs refuses a file that does not exist, and does not look at
	// the tables.
	existingAsIs
)

// openConfig is what a worker's store needs beside the global flags.
type openConfig struct {
	works     bool         // it claims jobs, and runs many statements
	logger    *slog.Logger // nil: warnings only
	retention time.Duration
	listenURL string
	noListen  bool
}

// withStore opens the database, checks that its tables fit, runs use, and
// closes the database.
func (a *App) withStore(ctx context.Context, how opening, use func(store later.Store) error) error {
	return a.withStoreConfig(ctx, how, openConfig{}, use)
}

func (a *App) withStoreConfig(ctx context.Context, how opening, config openConfig, use func(store later.Store) error) (err error) {
	if config.logger == nil {
		config.logger = a.logger(slog.LevelWarn)
	}
	store, err := a.Open(ctx, a.flags.db, open.Config{
		Schema: a.flags.schema, MustExist: how == existing || how == existingAsIs, NoMigrate: how != creating,
		Brief: !config.works, Logger: config.logger, LogRetention: config.retention,
		ListenURL: config.listenURL, NoListen: config.noListen,
	})
	if err != nil {
		return a.fromVariable(err)
	}
	defer func() {
		if closing := store.Close(); closing != nil && err == nil {
			err = fmt.Errorf("close the database: %w", closing)
		}
	}()
	if how == existing || how == creating {
		if err := store.CheckSchema(ctx); err != nil {
			return err
		}
	}
	return use(store)
}

// fromVariable names LATER_DB in the error for a URL that came from there.
func (a *App) fromVariable(err error) error {
	if errors.Is(err, open.ErrURL) && a.flags.dbSource == dbVariable {
		return fmt.Errorf("%s: %w", dbVariable, err)
	}
	return err
}

// looking makes a command that opens the database and looks or steers.
func (a *App) looking(run func(ctx context.Context, store later.Store, args []string) error) func(*cobra.Command, []string) error {
	return a.interruptible(func(ctx context.Context, args []string) error {
		return a.withStore(ctx, existing, func(store later.Store) error { return run(ctx, store, args) })
	})
}

// completionTimeout bounds how long a shell waits for a completion. Chosen: a
// person who presses Tab does not wait longer.
const completionTimeout = 2 * time.Second

func completeURL(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.HasPrefix(word, "sqlite:") {
		return nil, cobra.ShellCompDirectiveDefault // the shell completes the file's name
	}
	return open.Schemes(), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completeFrom completes a flag from the database. A database that cannot be
// opened completes nothing.
func (a *App) completeFrom(words func(ctx context.Context, store later.Store) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var found []string
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		err := errors.Join(a.prepare(cmd), a.withStore(ctx, existing, func(store later.Store) (err error) {
			found, err = words(ctx, store)
			return err
		}))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

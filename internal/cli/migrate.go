package cli

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/internal/terminal"
)

func migrateCommand(a *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create and change the tables",
		Long: `Create and change the tables.

An SQLite file is migrated by itself when a job is enqueued or a worker starts; a
Postgres database only here, so that whoever may change it decides when. Old and
new programs run side by side across one migration: migrate first, deploy then.`,
		RunE: unknownCommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(migrateUp(a), migrateDown(a), migrateStatus(a), migratePrint(a))
	return cmd
}

func migrateUp(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Bring the tables to the newest version",
		Long: `Bring the tables to the newest version. Safe beside running workers, from several
places at once, and when there is nothing to do.`,
		Example: `  later migrate up
  later migrate up --db postgres://app@localhost/shop --schema later`,
		Args: arguments(),
		RunE: a.migrating(func(ctx context.Context, store later.Store, m later.Migrator) error {
			before, err := m.Migrations(ctx)
			if err != nil {
				return err
			}
			if err := store.Migrate(ctx); err != nil {
				return err
			}
			after, err := m.Migrations(ctx)
			if err != nil {
				return err
			}
			return a.printMigrated(before, after)
		}),
	}
}

func migrateDown(a *App) *cobra.Command {
	var to int
	var yes bool
	cmd := &cobra.Command{
		Use:   "down --to VERSION",
		Short: "Go back to an older version of the tables",
		Long: `Go back to an older version of the tables. What is in the tables and columns that go
is lost; --to 0 drops everything: all jobs, dead jobs and the log. It asks first.

Stop the workers before: they do not work with tables that are missing.`,
		Example: `  later migrate down --to 1
  later migrate down --to 0 --yes`,
		Args: arguments(),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("to") {
			return usageError("--to VERSION is missing").next("`later migrate status` lists them; 0 is nothing at all")
		}
		return a.migrating(func(ctx context.Context, store later.Store, m later.Migrator) error {
			return a.migrateDownTo(ctx, store, m, to, yes)
		})(cmd, args)
	}
	addNumber(cmd.Flags(), &to, "to", 0, 0, math.MaxInt32, "the `version` that stays; 0 is nothing at all")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *App) migrateDownTo(ctx context.Context, store later.Store, m later.Migrator, to int, yes bool) error {
	before, err := m.Migrations(ctx)
	if err != nil {
		return err
	}
	if newest := newestVersion(before); to > newest {
		return usageError("--to is %d; versions go from 0 (nothing at all) to %d", to, newest).next("`later migrate status` lists them")
	}
	going := 0
	for _, migration := range before {
		if migration.Version > to && !migration.AppliedAt.IsZero() {
			going++
		}
	}
	if going > 0 {
		lost := "what is in their tables and columns is lost"
		if to == 0 {
			lost = "all tables go, with " + a.countForLoss(ctx, store) + " and the log"
		}
		if err := a.confirm(ctx, yes, fmt.Sprintf("%s of %s will be undone: %s",
			plural(going, "migration", "migrations"), open.Redact(a.flags.db), lost)); err != nil {
			return err
		}
	}
	if err := m.MigrateDown(ctx, to); err != nil {
		return err
	}
	after, err := m.Migrations(ctx)
	if err != nil {
		return err
	}
	return a.printMigrated(before, after)
}

// newestVersion is the newest that this program or the database knows.
func newestVersion(list []later.MigrationStatus) int {
	newest := 0
	for _, migration := range list {
		newest = max(newest, migration.Version)
	}
	return newest
}

// countForLoss says how many jobs there are.
func (a *App) countForLoss(ctx context.Context, store later.Store) string {
	rows, err := store.Status(ctx)
	if err != nil {
		return "all jobs" // of tables that do not fit this program they cannot be counted
	}
	var dead, other int64
	for _, r := range rows {
		if r.State == later.StateDead {
			dead += r.Count
		} else {
			other += r.Count
		}
	}
	return fmt.Sprintf("%s, %s", plural64(other, "waiting or running job", "waiting or running jobs"), plural64(dead, "dead job", "dead jobs"))
}

func migrateStatus(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List the migrations, and which are done",
		Long: `List the migrations, and which are done. It changes nothing. One that this program
does not know was made by a newer one.`,
		Example: `  later migrate status
  later migrate status --json | jq '.migrations[] | select(.applied_at == null)'`,
		Args: arguments(),
		RunE: a.interruptible(func(ctx context.Context, _ []string) error {
			return a.withMigrator(ctx, existingAsIs, func(_ later.Store, m later.Migrator) error {
				list, err := m.Migrations(ctx)
				if err != nil {
					return err
				}
				return a.printMigrations(list)
			})
		}),
	}
}

func migratePrint(a *App) *cobra.Command {
	var down bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the migrations as SQL",
		Long: `Print the migrations as SQL, for those who run them with a tool of their own. It
needs no database: --db only says for which kind.`,
		Example: `  later migrate print --db postgres:// --schema jobs > later.sql
  later migrate print --down`,
		Args: arguments(),
	}
	cmd.RunE = a.interruptible(func(ctx context.Context, _ []string) error {
		sql, err := open.MigrationSQL(ctx, a.flags.db, open.Config{Schema: a.flags.schema}, down)
		if err != nil {
			return a.fromVariable(err)
		}
		if a.flags.json {
			return a.printJSON(struct {
				SQL string `json:"sql"`
			}{sql})
		}
		return a.printf("%s", sql)
	})
	cmd.Flags().BoolVar(&down, "down", false, "the way back")
	return cmd
}

// migrating makes a command of one that changes the tables.
func (a *App) migrating(run func(ctx context.Context, store later.Store, m later.Migrator) error) func(*cobra.Command, []string) error {
	return a.interruptible(func(ctx context.Context, _ []string) error {
		return a.withMigrator(ctx, asIs, func(store later.Store, m later.Migrator) error { return run(ctx, store, m) })
	})
}

func (a *App) withMigrator(ctx context.Context, how opening, use func(store later.Store, m later.Migrator) error) error {
	return a.withStore(ctx, how, func(store later.Store) error {
		m, ok := store.(later.Migrator)
		if !ok {
			return usageError("%s has no migrations", open.Redact(a.flags.db))
		}
		return use(store, m)
	})
}

type migrationView struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at"`
	Known     bool       `json:"known"`
}

func viewMigrations(list []later.MigrationStatus) []migrationView {
	views := []migrationView{}
	for _, m := range list {
		views = append(views, migrationView{m.Version, m.Name, instant(m.AppliedAt), m.Known})
	}
	return views
}

// printMigrated says what has changed.
func (a *App) printMigrated(before, after []later.MigrationStatus) error {
	version := func(list []later.MigrationStatus) int {
		n := 0
		for _, m := range list {
			if !m.AppliedAt.IsZero() {
				n = max(n, m.Version)
			}
		}
		return n
	}
	from, to := version(before), version(after)
	if a.flags.json {
		return a.printJSON(struct {
			From       int             `json:"from"`
			To         int             `json:"to"`
			Migrations []migrationView `json:"migrations"`
		}{from, to, viewMigrations(after)})
	}
	if from == to {
		return a.printf("nothing to do: the tables have version %d\n", to)
	}
	return a.printf("the tables went from version %d to %d\n", from, to)
}

func (a *App) printMigrations(list []later.MigrationStatus) error {
	if a.flags.json {
		return a.printJSON(struct {
			Migrations []migrationView `json:"migrations"`
		}{viewMigrations(list)})
	}
	t := terminal.NewTable(terminal.Column{Title: "version", Right: true}, terminal.Column{Title: "name"}, terminal.Column{Title: "applied"})
	for _, m := range list {
		applied := terminal.Cell{Text: "no: run later migrate up", Paint: a.palette.Warn}
		switch {
		case !m.AppliedAt.IsZero() && !m.Known:
			applied = terminal.Cell{Text: stamp(m.AppliedAt) + ", by a newer program", Paint: a.palette.Warn}
		case !m.AppliedAt.IsZero():
			applied = terminal.Cell{Text: stamp(m.AppliedAt)}
		}
		t.Cells(terminal.Cell{Text: fmt.Sprint(m.Version)}, terminal.Cell{Text: m.Name}, applied)
	}
	return a.printTable(t)
}

// Package cli is the command later: one file for each of its commands.
package cli

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/internal/terminal"
)

// App is the command with its surroundings. The zero value is that of a process.
type App struct {
	In       io.Reader                                                                      // nil: standard input
	Out, Err io.Writer                                                                      // nil: standard output and standard error
	Env      func(name string) string                                                       // nil: os.Getenv
	Signals  func() *signals                                                                // nil: those of the process
	Open     func(ctx context.Context, url string, config open.Config) (later.Store, error) // nil: open.StoreWith

	flags   globals
	palette terminal.Palette
	exit    int // of a command that has reported its errors itself
}

// globals are the flags that every command has.
type globals struct {
	db       string
	dbSource string // what named db: --db or LATER_DB
	schema   string
	json     bool
	noColor  bool
}

// The variables that stand in for flags.
const (
	dbVariable     = "LATER_DB"
	schemaVariable = "LATER_SCHEMA"
)

// maker makes one of the commands. A new command is a file and a line here.
type maker func(a *App) *cobra.Command

// groups order the commands in the help by what a person wants to do.
var groups = []struct {
	id, title string
	commands  []maker
}{
	{"run", "Enqueue and run jobs:", []maker{enqueueCommand, workCommand, drainCommand, demoCommand}},
	{"look", "Look:", []maker{statusCommand, queuesCommand, tenantsCommand, listCommand, showCommand, workersCommand}},
	{"steer", "Steer:", []maker{retryCommand, cancelCommand, deleteCommand, deadCommand, pauseCommand, resumeCommand, limitCommand}},
	{"setup", "Set up:", []maker{migrateCommand, benchCommand, completionCommand, versionCommand}},
	{"", "", []maker{docsCommand}},
}

// Run runs the command with its arguments, the program's name not included, and
// returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	a.complete()
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	if err := root.ExecuteContext(ctx); err != nil {
		// The flags may not have been read as far as --json.
		a.flags.json = a.flags.json || slices.Contains(args, "--json")
		return a.report(err)
	}
	return a.exit
}

func (a *App) complete() {
	if a.In == nil {
		a.In = os.Stdin
	}
	if a.Out == nil {
		a.Out = os.Stdout
	}
	if a.Err == nil {
		a.Err = os.Stderr
	}
	if a.Env == nil {
		a.Env = os.Getenv
	}
	if a.Signals == nil {
		a.Signals = processSignals
	}
	if a.Open == nil {
		a.Open = open.StoreWith
	}
	a.palette = terminal.NewPalette(false)
}

const rootHelp = `Later runs background jobs from a table in a database that you already have.

A first job, with nothing installed:

  later enqueue greet '{"name":"Ada"}'
  later work --exec greet='cat > greeting.json' --until-empty
  later status

The database is named by --db or LATER_DB: sqlite:later.db (the default, a file
in the current directory) or postgres://user@host/name. A password is safer in
LATER_DB, PGPASSWORD or ~/.pgpass than in --db, which every user of the machine can
see. Every command is safe beside running workers; those that destroy something ask
first.

Output is for people. With --json it is one JSON object for programs: field names
stay, ids are strings (they go up to 2^63), times are RFC 3339 in UTC, durations
are in milliseconds, and max_attempts 2147483647 means unlimited. Errors are then
JSON on standard error.

Exit codes:
  0    done
  1    failed
  2    the command, a flag or the job's data is wrong: nothing was changed
  3    no such job, pause or limit
  4    refused, because the job is running, or dead where that matters, or its key held
  5    the database cannot be reached or is full: try again
  6    the tables are missing or of another version: later migrate
  130  ended by Ctrl-C (SIGINT) before it had finished; 143 by SIGTERM`

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "later",
		Short:             "Run background jobs from a table in your database",
		Long:              rootHelp,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.ArbitraryArgs, // so that an unknown command is told by us
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
		RunE:              unknownCommand,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.flags.db, "db", "", "database `URL`; else LATER_DB, else "+open.DefaultURL)
	flags.StringVar(&a.flags.schema, "schema", "", "Postgres `schema` of the tables; else LATER_SCHEMA, else later")
	flags.BoolVar(&a.flags.json, "json", false, "print JSON")
	flags.BoolVar(&a.flags.noColor, "no-color", false, "no colours; also with NO_COLOR set, and always when the output is no terminal")
	root.SetFlagErrorFunc(flagError)
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version") // without cobra's -v, which is verbosity elsewhere
	root.InitDefaultHelpFlag()
	for _, group := range groups {
		if group.id != "" {
			root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		}
		for _, maker := range group.commands {
			cmd := maker(a)
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("setup")
	cobra.CheckErr(root.RegisterFlagCompletionFunc("db", completeURL))
	cobra.CheckErr(root.RegisterFlagCompletionFunc("schema", cobra.NoFileCompletions))
	return root
}

// prepare reads the environment before a command runs.
func (a *App) prepare(cmd *cobra.Command) error {
	a.flags.dbSource = "--db"
	if a.flags.db == "" {
		a.flags.db, a.flags.dbSource = a.Env(dbVariable), dbVariable
	}
	if a.flags.db == "" {
		a.flags.db = open.DefaultURL
	}
	if !cmd.Flags().Changed("schema") {
		a.flags.schema = a.Env(schemaVariable)
		// Of use to Postgres only, and so no fault in a shell where both kinds are used.
		if strings.HasPrefix(a.flags.db, "sqlite:") {
			a.flags.schema = ""
		}
	}
	a.palette = terminal.NewPalette(a.colours(a.Out))
	return nil
}

// colours reports whether w is to be coloured (https://no-color.org).
func (a *App) colours(w io.Writer) bool {
	return !a.flags.noColor && a.Env("NO_COLOR") == "" && a.Env("TERM") != "dumb" && terminal.Is(w)
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usageError("unknown command %q%s", cmd.CommandPath()+" "+args[0], didYouMean(args[0], names)).
		next("`%s --help` lists the commands", cmd.CommandPath())
}

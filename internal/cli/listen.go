package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/later-queue/later/internal/open"
)

// listenVariable stands in for --listen-url: the URL may have a password in it.
const listenVariable = "LATER_LISTEN_URL"

// listenFlags say where a worker on Postgres hears of new jobs. Those of drain, which
// waits for none, stay zero.
type listenFlags struct {
	url      string
	off      bool
	variable bool // the URL is that of listenVariable
}

func (f *listenFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "listen-url", "", "Postgres: listen for new jobs at this `URL`, where --db is a pooler that passes none on; else "+listenVariable+", else --db")
	flags.BoolVar(&f.off, "no-listen", false, "Postgres: do not listen for new jobs, which saves a connection; they are found after --poll at the latest")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("listen-url", cobra.NoFileCompletions))
}

// read reads the variable, and finds what is wrong with the flags by themselves. untilEmpty says that
// the worker never waits.
func (f *listenFlags) read(a *App, cmd *cobra.Command, untilEmpty bool) error {
	given := cmd.Flags().Changed("listen-url")
	switch {
	case untilEmpty && (given || f.off):
		name := "--no-listen"
		if given {
			name = "--listen-url"
		}
		return usageError("%s is of no use with --until-empty, which waits for no job", name)
	case given && f.off:
		return usageError("--listen-url and --no-listen exclude each other; leave one out")
	case given && f.url == "":
		return usageError("--listen-url is empty; it is a direct way to the server, postgres://user@host/name")
	case !given && !f.off && !untilEmpty && !strings.HasPrefix(a.flags.db, "sqlite:"):
		// For SQLite the variable is no fault, in a shell where both kinds are used.
		f.url = a.Env(listenVariable)
		f.variable = f.url != ""
	}
	return nil
}

// problem is the error of a worker, where it may be the flags' fault. It names the variable if the URL
// came from there.
func (f *listenFlags) problem(err error) error {
	switch {
	case !errors.Is(err, open.ErrListen):
		return err
	case f.variable:
		return usageError("%s: %w", listenVariable, err)
	}
	return usageError("%w", err)
}

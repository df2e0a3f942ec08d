package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/age"
	"github.com/later-queue/later/internal/terminal"
)

// scopeWords are how a scope is named on the command line.
const scopeWords = "queue|kind|tenant NAME"

func pauseCommand(a *App) *cobra.Command {
	var by, reason string
	cmd := &cobra.Command{
		Use:   "pause [" + scopeWords + "]",
		Short: "Keep the jobs of a queue, a kind or a tenant from starting",
		Long: `Keep the jobs of a queue, a kind (in all queues) or a tenant from starting, in every
worker, until "later resume". It is stored in the database. Jobs that run go on; what
waits stays as it is, loses no attempt, and holds up no other job.

Without a name, it lists what is paused, since when, by whom and why.`,
		Example: `  later pause queue mail --reason 'the provider is down'
  later pause tenant acme
  later pause
  later resume queue mail`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return arguments("queue|kind|tenant", "NAME")(cmd, args)
		},
		ValidArgsFunction: completeScope,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			if cmd.Flags().Changed("by") || cmd.Flags().Changed("reason") {
				return usageError("--by and --reason are of use with something to pause only")
			}
			return a.looking(func(ctx context.Context, store later.Store, _ []string) error { return a.listPauses(ctx, store) })(cmd, args)
		}
		scope, err := parseScope(args)
		if err != nil {
			return err
		}
		if err := later.CheckPause(scope, by, reason); err != nil {
			return err
		}
		return a.looking(func(ctx context.Context, store later.Store, _ []string) error {
			if err := store.Pause(ctx, scope, by, reason); err != nil {
				return err
			}
			return a.told(scope, "is paused")
		})(cmd, args)
	}
	cmd.Flags().StringVar(&by, "by", currentUser(), "`who` pauses it, for those who ask later")
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why, for those who ask later")
	return cmd
}

func resumeCommand(a *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume " + scopeWords,
		Short: "Let the jobs of a queue, a kind or a tenant start again",
		Long: `Let the jobs of a queue, a kind or a tenant start again that was paused. Workers that
wait look for them at once. What is not paused is refused with exit code 3.`,
		Example:           `  later resume queue mail`,
		Args:              arguments("queue|kind|tenant", "NAME"),
		ValidArgsFunction: completeScope,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		scope, err := parseScope(args)
		if err != nil {
			return err
		}
		return a.looking(func(ctx context.Context, store later.Store, _ []string) error {
			if err := store.Resume(ctx, scope); err != nil {
				return noScope(err, fmt.Sprintf("resume %v: it is not paused", scope), "`later pause` lists what is paused")
			}
			return a.told(scope, "goes on")
		})(cmd, args)
	}
	return cmd
}

// noScope says what is not there of a scope, where the store's error is about a job, and where to look.
func noScope(err error, text, hint string) error {
	if !errors.Is(err, later.ErrNotFound) {
		return err
	}
	return (&problem{err: errors.New(text), code: "not_found", exit: exitNotFound}).next("%s", hint)
}

func completeScope(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []string{string(later.ScopeQueue), string(later.ScopeKind), string(later.ScopeTenant)}, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func parseScope(args []string) (later.Scope, error) {
	scope := later.Scope{Of: later.ScopeOf(args[0]), Name: args[1]}
	return scope, scope.Check()
}

// currentUser is who uses this machine, as far as that can be told.
func currentUser() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil && name != "" {
		name += "@" + host
	}
	return later.CleanText(name, later.MaxByBytes)
}

// told says what became of a scope.
func (a *App) told(scope later.Scope, what string) error {
	if a.flags.json {
		return a.printJSON(struct {
			Of     later.ScopeOf `json:"of"`
			Name   string        `json:"name"`
			Result string        `json:"result"`
		}{scope.Of, scope.Name, what})
	}
	return a.printf("%s %s\n", terminal.Safe(scope.String()), what)
}

// pauseView is a pause with --json.
type pauseView struct {
	Of     later.ScopeOf `json:"of"`
	Name   string        `json:"name"`
	Since  time.Time     `json:"since"`
	By     string        `json:"by"`
	Reason string        `json:"reason"`
}

func takePauses(ctx context.Context, store later.Store) ([]pauseView, error) {
	list, err := store.Pauses(ctx)
	views := make([]pauseView, len(list))
	for i, p := range list {
		views[i] = pauseView{p.Scope.Of, p.Scope.Name, p.Since.UTC(), p.By, p.Reason}
	}
	return views, err
}

func (a *App) listPauses(ctx context.Context, store later.Store) error {
	list, err := takePauses(ctx, store)
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(struct {
			Paused []pauseView `json:"paused"`
		}{list})
	}
	if len(list) == 0 {
		return a.printf("nothing is paused\n")
	}
	now, err := storeTime(ctx, store)
	if err != nil {
		return err
	}
	t := terminal.NewTable(terminal.Column{Title: "paused"}, terminal.Column{Title: "name", Max: 40}, terminal.Column{Title: "since"},
		terminal.Column{Title: "by", Max: 40}, terminal.Column{Title: "reason", Rest: true})
	for _, p := range list {
		t.Row(string(p.Of), p.Name, age.Short(now.Sub(p.Since)), p.By, p.Reason)
	}
	return a.printTable(t)
}

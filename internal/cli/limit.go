package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/terminal"
	"github.com/later-queue/later/internal/why"
)

func limitCommand(a *App) *cobra.Command {
	var f limitFlags
	cmd := &cobra.Command{
		Use:   "limit [" + scopeWords + " | tenants]",
		Short: "Limit how jobs of a queue, a kind or a tenant start",
		Long: `Limit how jobs of a queue, a kind (in all queues) or a tenant start, over all workers
together. It is stored in the database, and holds for every claim from then on. A job
is under the limits of its queue, its kind and its tenant, and starts when all of them
let it. What waits stays as it is, loses no attempt, and holds up no other job.

  --max-running  how many run at once; 0 is none. What runs goes on, and counts
  --rate         how many start in a time, and --burst how many of them at once
  --ordered      one after the other, in the order of priority, time and id; one that
                 fails keeps its place until it has ended
  --on-dead      what a dead job does to those behind it where they are ordered
  --weight       how many jobs a tenant has in its turn, where another has one

What is not named stays: "limit queue mail --rate 10/s" keeps its --max-running. The
word none takes one off: --max-running none, --rate none. --none takes the whole limit
off; where there is none it is refused with exit code 3.

"limit tenants" sets the limit of each tenant, counted by itself, as far as the tenant
has none of its own. With a scope alone it shows what holds, which jobs fill it, and
when the next one may start; without a scope it lists all limits.`,
		Example: `  later limit queue mail --rate 100/1m --burst 20
  later limit kind report.build --max-running 2
  later limit tenant acme --ordered --on-dead blocks
  later limit tenants --max-running 5
  later limit tenant acme --none
  later limit`,
		Args:              limitArguments,
		ValidArgsFunction: completeLimitScope,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		changes, err := f.changes(cmd)
		if err != nil {
			return err
		}
		if !changes.any() && cmd.Flags().Changed("by") {
			return usageError("--by is of use with something to limit only")
		}
		if len(args) == 0 {
			if changes.any() || f.none {
				return usageError("a limit is of a queue, a kind or a tenant").next("usage: %s", cmd.UseLine())
			}
			return a.limiting(func(ctx context.Context, store later.Store, limits later.Limiter) error {
				return a.listLimits(ctx, store, limits)
			})(cmd, args)
		}
		scope, err := parseLimitScope(args)
		if err != nil {
			return err
		}
		return a.limiting(func(ctx context.Context, store later.Store, limits later.Limiter) error {
			switch {
			case f.none:
				return a.removeLimit(ctx, limits, scope)
			case changes.any():
				return a.changeLimit(ctx, limits, scope, changes, f.by)
			}
			return a.showLimit(ctx, store, limits, scope)
		})(cmd, args)
	}
	f.add(cmd)
	return cmd
}

// everyTenant is the scope of the default for each tenant.
var everyTenant = later.Scope{Of: later.ScopeTenants}

func limitArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case args[0] == string(later.ScopeTenants):
		return arguments("tenants")(cmd, args)
	}
	return arguments("queue|kind|tenant", "NAME")(cmd, args)
}

func parseLimitScope(args []string) (later.Scope, error) {
	if args[0] == string(later.ScopeTenants) {
		return everyTenant, nil
	}
	scope, err := parseScope(args)
	switch scope.Of {
	case later.ScopeQueue, later.ScopeKind, later.ScopeTenant:
		return scope, err
	}
	return scope, usageError("a limit is of a queue, a kind, a tenant or tenants, not of %q", later.CleanText(args[0], 40))
}

func completeLimitScope(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	words, directive := completeScope(cmd, args, word)
	if len(args) == 0 {
		words = append(words, string(later.ScopeTenants))
	}
	return words, directive
}

// limiterOf is the part of a store that limits.
func limiterOf(store later.Store) (later.Limiter, bool) {
	limits, ok := store.(later.Limiter)
	return limits, ok
}

// limiting is looking for what needs limits.
func (a *App) limiting(run func(ctx context.Context, store later.Store, limits later.Limiter) error) func(*cobra.Command, []string) error {
	return a.looking(func(ctx context.Context, store later.Store, _ []string) error {
		limits, ok := limiterOf(store)
		if !ok {
			return errors.New("this database has no limits")
		}
		return run(ctx, store, limits)
	})
}

// findLimit is the limit that a scope has of its own.
func findLimit(ctx context.Context, limits later.Limiter, scope later.Scope) (found later.ScopeLimit, ok bool, err error) {
	list, err := limits.Limits(ctx)
	for _, l := range list {
		if l.Scope == scope {
			return l, true, err
		}
	}
	return later.ScopeLimit{Scope: scope}, false, err
}

func (a *App) changeLimit(ctx context.Context, limits later.Limiter, scope later.Scope, changes limitChanges, by string) error {
	before, had, err := findLimit(ctx, limits, scope)
	if err != nil {
		return err
	}
	limit, err := changes.of(scope, before.Limit)
	if err != nil {
		return err
	}
	if limit == (later.Limit{}) {
		if !had {
			return usageError("%v has no limit to take off", scope)
		}
		return a.removeLimit(ctx, limits, scope)
	}
	if err := later.CheckLimit(scope, limit, by); err != nil {
		return asFlag(err)
	}
	if err := limits.SetLimit(ctx, scope, limit, by); err != nil {
		return err
	}
	return a.tellLimit(ctx, limits, scope)
}

func (a *App) removeLimit(ctx context.Context, limits later.Limiter, scope later.Scope) error {
	if err := limits.RemoveLimit(ctx, scope); err != nil {
		return noScope(err, fmt.Sprintf("%v has no limit of its own", scope), "`later limit` lists the limits")
	}
	return a.tellLimit(ctx, limits, scope)
}

// tellLimit says what holds now.
func (a *App) tellLimit(ctx context.Context, limits later.Limiter, scope later.Scope) error {
	own, ok, err := findLimit(ctx, limits, scope)
	if err != nil {
		return err
	}
	holds := own.Limit
	if scope != everyTenant {
		standing, err := limits.Standing(ctx, scope)
		if err != nil {
			return err
		}
		holds = standing.Limit
	}
	if a.flags.json {
		return a.printJSON(viewLimit(own, holds))
	}
	return a.printf("%s: %s\n", terminal.Safe(scope.String()), holdsText(scope, ok, own.Limit, holds))
}

// holdsText says what holds for a scope, and when that is not its own, whose it is.
func holdsText(scope later.Scope, own bool, limit, holds later.Limit) string {
	text := why.LimitText(holds)
	if scope.Of == later.ScopeTenant && why.LimitText(limit) != text {
		if !own {
			return text + ", as every tenant"
		}
		return fmt.Sprintf("%s (its own: %s)", text, why.LimitText(limit))
	}
	return text
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
)

func retryCommand(a *App) *cobra.Command {
	return a.eachCommand(&cobra.Command{
		Use:   "retry ID…",
		Short: "Make waiting jobs due now, or bring dead ones back",
		Long: `Make waiting jobs due now, or bring dead ones back: with all their attempts, their
errors kept, their expiry removed, and a new idempotency key, because it is a new
decision. A running job is refused with exit code 4, and so is a dead one whose key
(--unique) another job holds by now.

Many dead jobs at once: "later dead retry".`,
		Example: `  later retry 42
  later retry 42 43 44`,
	}, func(ctx context.Context, store later.Store, id int64) (string, error) {
		return "is due now", store.Retry(ctx, id)
	})
}

// eachCommand completes a command that does something to each of its ids.
func (a *App) eachCommand(cmd *cobra.Command, do func(ctx context.Context, store later.Store, id int64) (string, error)) *cobra.Command {
	cmd.Args = arguments("ID…")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		return a.looking(func(ctx context.Context, store later.Store, _ []string) error {
			return a.each(ctx, ids, func(ctx context.Context, id int64) (string, error) {
				text, err := do(ctx, store, id)
				return text, explainMissing(ctx, store, id, err)
			})
		})(cmd, args)
	}
	return cmd
}

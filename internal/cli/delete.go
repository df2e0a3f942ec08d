package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
)

func deleteCommand(a *App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete ID…",
		Short: "Remove waiting or dead jobs for good",
		Long: `Remove waiting or dead jobs for good. Their payloads are lost; it asks first. A
running job is refused with exit code 4: "later cancel" asks its worker to stop.`,
		Example: `  later delete 42
  later delete 42 43 --yes`,
		Args:              arguments("ID…"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		return a.looking(func(ctx context.Context, store later.Store, _ []string) error {
			what := fmt.Sprintf("%s (%s) will be removed for good", plural(len(ids), "job", "jobs"), later.ClipText(strings.Join(args, ", "), 100))
			if err := a.confirm(ctx, yes, what); err != nil {
				return err
			}
			return a.each(ctx, ids, func(ctx context.Context, id int64) (string, error) {
				return "is deleted", explainMissing(ctx, store, id, store.Delete(ctx, id))
			})
		})(cmd, args)
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
)

func cancelCommand(a *App) *cobra.Command {
	return a.eachCommand(&cobra.Command{
		Use:   "cancel ID…",
		Short: "End jobs that wait, and ask the workers of running ones to stop them",
		Long: `End jobs that wait, and ask the workers of running ones to stop them. A worker looks
for such requests about once a second; the handler's context ends, and a command of
"later work --exec" gets SIGTERM. A handler that has finished by then is done, not
cancelled. What a handler did before is not undone.

A cancelled job is gone; the log keeps that it was cancelled. A dead job is refused
with exit code 4: delete it instead.`,
		Example: `  later cancel 42
  later list --kind report --limit 1000 --json | jq -r '.jobs[].id' | xargs later cancel`,
	}, func(ctx context.Context, store later.Store, id int64) (string, error) {
		running, err := store.Cancel(ctx, id)
		if running {
			return "is running; its worker was asked to stop it", err
		}
		return "is cancelled", err
	})
}

package cli

import (
	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func completionCommand(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell",
		Long: `Print the completion script of a shell: bash, zsh, fish or powershell. It completes
commands and flags, and queues and kinds from the database that --db or LATER_DB
names.`,
		Example: `  source <(later completion bash)
  later completion zsh > "${fpath[1]}/_later"
  later completion fish > ~/.config/fish/completions/later.fish`,
		Args:      arguments("SHELL"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Out, true)
			case "zsh":
				return root.GenZshCompletion(a.Out)
			case "fish":
				return root.GenFishCompletion(a.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.Out)
			}
			return usageError("there is no completion for %q%s; there are bash, zsh, fish and powershell", args[0], didYouMean(args[0], shells))
		},
	}
}

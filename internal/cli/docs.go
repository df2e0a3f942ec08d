package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// docsCommand prints docs/cli.md: the page cannot say anything else than --help.
func docsCommand(a *App) *cobra.Command {
	return &cobra.Command{
		Use:    "docs",
		Short:  "Print the page of all commands as Markdown",
		Hidden: true,
		Args:   arguments(),
		RunE:   func(cmd *cobra.Command, _ []string) error { return writeDocs(a.Out, cmd.Root()) },
	}
}

func writeDocs(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString("# The command `later`\n\n<!-- Made from the --help texts by `make docs`; a test compares. Change those. -->\n")
	writeCommand(&b, root)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCommand(b *strings.Builder, cmd *cobra.Command) {
	if cmd.HasParent() {
		fmt.Fprintf(b, "\n## %s\n", cmd.CommandPath())
	}
	fmt.Fprintf(b, "\n%s\n", paragraphs(cmd.Long))
	if cmd.Runnable() && cmd.HasParent() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindent(cmd.Example))
	}
	if flags := cmd.LocalFlags().FlagUsagesWrapped(0); strings.TrimSpace(flags) != "" {
		fmt.Fprintf(b, "\n```\n%s```\n", flags)
	}
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() && child.Name() != "help" {
			writeCommand(b, child)
		}
	}
}

// paragraphs puts what is indented in a help text into code blocks.
func paragraphs(text string) string {
	var out []string
	for _, part := range strings.Split(text, "\n\n") {
		switch lines := strings.SplitAfterN(part, "\n", 2); {
		case strings.HasPrefix(part, "  "):
			part = "```\n" + unindent(part) + "\n```"
		case len(lines) == 2 && strings.HasPrefix(lines[1], "  "):
			part = lines[0] + "\n```\n" + unindent(lines[1]) + "\n```"
		}
		out = append(out, part)
	}
	return strings.Join(out, "\n\n")
}

func unindent(text string) string {
	return strings.ReplaceAll("\n"+text, "\n  ", "\n")[1:]
}

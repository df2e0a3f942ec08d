package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/age"
	"github.com/later-queue/later/internal/terminal"
)

func listCommand(a *App) *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List waiting, running and dead jobs",
		Long: `List waiting, running and dead jobs, the newest first. Jobs that have ended are in the
log: "later show ID" finds them.

Payloads are cut to one line, and characters that are not visible are written as
\n, \x1b or \u202e, so that no job can play tricks with your terminal. With --json
payloads are whole.`,
		Example: `  later list
  later list --state retry --queue mail
  later list --tenant acme --limit 100
  later list --json | jq -r '.jobs[] | select(.attempt > 3) | .id'`,
		Args: arguments(),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := f.filter(cmd)
		if err != nil {
			return err
		}
		return a.looking(func(ctx context.Context, store later.Store, _ []string) error { return a.list(ctx, store, filter) })(cmd, args)
	}
	f.addState(cmd)
	f.add(a, cmd)
	f.addPage(cmd)
	return cmd
}

// jobsView is a page of jobs with --json.
type jobsView struct {
	Jobs []jobView `json:"jobs"`
	// NextBefore is what --before takes for the next page; null: there is none.
	NextBefore *string `json:"next_before"`
}

func (a *App) list(ctx context.Context, store later.Store, filter later.Filter) error {
	limit := filter.Limit
	filter.Limit++ // one more shows whether there is another page
	jobs, err := store.List(ctx, filter)
	if err != nil {
		return err
	}
	next := ""
	if len(jobs) > limit {
		jobs = jobs[:limit]
		next = formatID(jobs[limit-1].ID)
	}
	if a.flags.json {
		view := jobsView{Jobs: []jobView{}, NextBefore: optional(next)}
		for _, j := range jobs {
			view.Jobs = append(view.Jobs, viewJob(j))
		}
		return a.printJSON(view)
	}
	if len(jobs) == 0 {
		return a.printf("no jobs\n")
	}
	if err := a.printTable(a.jobTable(jobs)); err != nil {
		return err
	}
	if next != "" {
		return a.printf("%s\n", a.palette.Faint("… more: add --before "+next))
	}
	return nil
}

func (a *App) jobTable(jobs []*later.JobInfo) *terminal.Table {
	t := terminal.NewTable(
		terminal.Column{Title: "id", Right: true}, terminal.Column{Title: "state"}, terminal.Column{Title: "queue", Max: 20, Drop: 2},
		terminal.Column{Title: "kind", Max: 30}, terminal.Column{Title: "tenant", Max: 20, Drop: 1}, terminal.Column{Title: "attempt", Right: true, Drop: 4},
		terminal.Column{Title: "when"}, terminal.Column{Title: "payload", Max: 60, Rest: true, Drop: 3})
	for _, j := range jobs {
		t.Cells(terminal.Cell{Text: formatID(j.ID)}, a.stateCell(j.State), terminal.Cell{Text: j.Queue}, terminal.Cell{Text: j.Kind},
			terminal.Cell{Text: j.Tenant}, terminal.Cell{Text: attempts(j)}, terminal.Cell{Text: when(j)}, terminal.Cell{Text: payloadLine(j.Payload)})
	}
	return t
}

func (a *App) stateCell(state later.State) terminal.Cell {
	paints := map[later.State]terminal.Paint{
		later.StateRunning: a.palette.Good, later.StateDead: a.palette.Bad, later.StateLost: a.palette.Bad,
		later.StateRetry: a.palette.Warn, later.StateScheduled: a.palette.Faint, later.StateEnded: a.palette.Faint,
	}
	return terminal.Cell{Text: string(state), Paint: paints[state]}
}

func attempts(j *later.JobInfo) string {
	if j.MaxAttempts == later.UnlimitedAttempts {
		return fmt.Sprintf("%d/∞", j.Attempt)
	}
	return fmt.Sprintf("%d/%d", j.Attempt, j.MaxAttempts)
}

// when is the time that matters in the job's state.
func when(j *later.JobInfo) string {
	switch j.State {
	case later.StateScheduled, later.StateRetry:
		return age.Relative(j.RunAt, j.Now)
	case later.StateReady:
		return "due " + age.Relative(j.RunAt, j.Now)
	case later.StateRunning:
		return "for " + age.Short(j.Now.Sub(j.ClaimedAt))
	case later.StateLost:
		return "lost " + age.Relative(j.LeaseUntil, j.Now)
	case later.StateDead:
		return "died " + age.Relative(j.DiedAt, j.Now)
	}
	return ""
}

// payloadLineBytes is more than a line of a table shows of a payload.
const payloadLineBytes = 1 << 10

// payloadLine is the payload's beginning without line ends.
func payloadLine(payload json.RawMessage) string {
	text := later.ClipText(strings.ToValidUTF8(string(payload[:min(len(payload), payloadLineBytes)]), "\uFFFD"), payloadLineBytes)
	if len(payload) > payloadLineBytes {
		text += "…"
	}
	return strings.Join(strings.Fields(text), " ")
}

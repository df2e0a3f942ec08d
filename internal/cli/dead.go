package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/terminal"
)

func deadCommand(a *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Look at dead jobs, bring them back, or drop them",
		Long: `Look at dead jobs, bring them back, or drop them. A job is dead when it is out of
attempts, when its handler said that no retry can help, or when it keeps killing its
workers. It stays, with its errors, until a person acts.`,
		RunE: unknownCommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(deadListCommand(a), deadShowCommand(a), deadRetryCommand(a), deadDropCommand(a))
	return cmd
}

func deadShowCommand(a *App) *cobra.Command {
	cmd := showing(a, `Show all that is known of a dead job. The same as "later show", but that a job which
is not dead is refused with exit code 3.`, `  later dead show 42`, func(job *later.JobInfo) error {
		if job.State != later.StateDead {
			return (&problem{err: fmt.Errorf("job %d is not dead but %s", job.ID, job.State), code: "not_found", exit: exitNotFound}).
				next("`later show %d` shows it", job.ID)
		}
		return nil
	})
	cmd.Short = "Show a dead job"
	return cmd
}

func deadListCommand(a *App) *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead jobs, grouped by what killed them",
		Long: `List dead jobs: first in groups of kind, reason and error, then the newest one by
one. The groups are counted over the newest 1000 that the filters select.`,
		Example: `  later dead list
  later dead list --kind mail --error "connection refused"
  later dead list --json | jq '.groups[0]'`,
		Args: arguments(),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := f.filter(cmd)
		if err != nil {
			return err
		}
		filter.State = later.StateDead
		return a.looking(func(ctx context.Context, store later.Store, _ []string) error { return a.deadList(ctx, store, filter) })(cmd, args)
	}
	f.add(a, cmd)
	f.addDead(cmd)
	f.addPage(cmd)
	return cmd
}

// groupedJobs is how many dead jobs the groups are made of. Chosen: it is read
// within a second.
const groupedJobs = 1000

// deadGroup are dead jobs with the same cause.
type deadGroup struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	Error  string `json:"error"` // its first line
	Count  int    `json:"count"`
	Newest string `json:"newest_id"`
}

func (a *App) deadList(ctx context.Context, store later.Store, filter later.Filter) error {
	limit := filter.Limit
	filter.Limit, filter.NoPayload = max(limit, groupedJobs)+1, true
	jobs, err := store.List(ctx, filter)
	if err != nil {
		return err
	}
	more := len(jobs) == filter.Limit
	groups := groupDead(jobs)
	next := ""
	if len(jobs) > limit {
		jobs = jobs[:limit]
		next = formatID(jobs[limit-1].ID)
	}
	if a.flags.json {
		if jobs, err = withPayloads(ctx, store, jobs); err != nil {
			return err
		}
		view := struct {
			Groups []deadGroup `json:"groups"`
			// Complete: the groups count all that the filters select.
			Complete bool `json:"groups_complete"`
			jobsView
		}{groups, !more, jobsView{Jobs: []jobView{}, NextBefore: optional(next)}}
		for _, j := range jobs {
			view.Jobs = append(view.Jobs, viewJob(j))
		}
		return a.printJSON(view)
	}
	if len(jobs) == 0 {
		return a.printf("no dead jobs\n")
	}
	if err := a.printGroups(groups, more); err != nil {
		return err
	}
	return a.printDead(jobs, next)
}

// withPayloads reads dead jobs again, with all that belongs to them. One that was
// brought back or dropped meanwhile is left out.
func withPayloads(ctx context.Context, store later.Store, jobs []*later.JobInfo) ([]*later.JobInfo, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	filter := later.Filter{State: later.StateDead, Limit: len(jobs)}
	for _, j := range jobs {
		filter.IDs = append(filter.IDs, j.ID)
	}
	return store.List(ctx, filter)
}

// groupDead counts by cause, the largest group first.
func groupDead(jobs []*later.JobInfo) []deadGroup {
	groups := []deadGroup{}
	at := map[deadGroup]int{}
	for _, j := range jobs { // the newest first
		key := deadGroup{Kind: j.Kind, Reason: string(j.DeadReason), Error: lastErrorLine(j)}
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key] = i
			groups = append(groups, key)
			groups[i].Newest = formatID(j.ID)
		}
		groups[i].Count++
	}
	slices.SortStableFunc(groups, func(x, y deadGroup) int { return y.Count - x.Count })
	return groups
}

func lastErrorLine(j *later.JobInfo) string {
	if len(j.Errors) == 0 {
		return ""
	}
	line, _, _ := strings.Cut(j.Errors[len(j.Errors)-1].Error, "\n")
	return later.ClipText(line, 200)
}

// shownGroups is how many groups are shown to a person: each error may be
// another one.
const shownGroups = 20

func (a *App) printGroups(groups []deadGroup, more bool) error {
	t := terminal.NewTable(terminal.Column{Title: "count", Right: true}, terminal.Column{Title: "kind", Max: 30},
		terminal.Column{Title: "reason"}, terminal.Column{Title: "error", Max: 100, Rest: true})
	for _, g := range groups[:min(len(groups), shownGroups)] {
		t.Cells(terminal.Cell{Text: fmt.Sprint(g.Count)}, terminal.Cell{Text: g.Kind},
			terminal.Cell{Text: g.Reason, Paint: a.palette.Bad}, terminal.Cell{Text: g.Error})
	}
	if err := a.printTable(t); err != nil {
		return err
	}
	if len(groups) > shownGroups {
		if err := a.printf("%s\n", a.palette.Faint(fmt.Sprintf("… and %s more", plural(len(groups)-shownGroups, "group", "groups")))); err != nil {
			return err
		}
	}
	if more {
		return a.printf("%s\n\n", a.palette.Faint(fmt.Sprintf("(counted over the newest %d)", groupedJobs)))
	}
	return a.printf("\n")
}

func (a *App) printDead(jobs []*later.JobInfo, next string) error {
	t := terminal.NewTable(terminal.Column{Title: "id", Right: true}, terminal.Column{Title: "kind", Max: 30}, terminal.Column{Title: "queue", Max: 20, Drop: 2},
		terminal.Column{Title: "tenant", Max: 20, Drop: 1}, terminal.Column{Title: "died"}, terminal.Column{Title: "reason"}, terminal.Column{Title: "error", Max: 100, Rest: true})
	for _, j := range jobs {
		t.Cells(terminal.Cell{Text: formatID(j.ID)}, terminal.Cell{Text: j.Kind}, terminal.Cell{Text: j.Queue}, terminal.Cell{Text: j.Tenant},
			terminal.Cell{Text: strings.TrimPrefix(when(j), "died ")}, terminal.Cell{Text: string(j.DeadReason), Paint: a.palette.Bad},
			terminal.Cell{Text: lastErrorLine(j)})
	}
	if err := a.printTable(t); err != nil {
		return err
	}
	if next != "" {
		return a.printf("%s\n", a.palette.Faint("… more: add --before "+next))
	}
	return nil
}

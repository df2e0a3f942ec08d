package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/age"
	"github.com/later-queue/later/internal/terminal"
)

func queuesCommand(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "queues",
		Short: "List the queues, with what is paused and limited",
		Long: `List the queues that have jobs, a pause or a limit: how many jobs are in which state, how
long the oldest one that is due has been waiting, who paused the queue, and its limit.

It counts as "later status" does, which reads the whole table: with ten million jobs
that takes seconds.`,
		Example: `  later queues
  later queues --json | jq '.queues[] | select(.oldest_due_ms > 60000)'`,
		Args: arguments(),
		RunE: a.looking(func(ctx context.Context, store later.Store, _ []string) error {
			queues, now, err := takeQueues(ctx, store)
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.printJSON(struct {
					Queues []queueView `json:"queues"`
				}{queues})
			}
			if len(queues) == 0 {
				return a.printf("no queues\n")
			}
			return a.printTable(a.queueTable(queues, now))
		}),
	}
}

// queueView is a queue with --json.
type queueView struct {
	queueStatus
	Paused *pauseView `json:"paused"` // null: it is not
	Limit  *limitView `json:"limit"`  // null: none
}

func takeQueues(ctx context.Context, store later.Store) ([]queueView, time.Time, error) {
	rows, err := store.Status(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	held, err := takeHeld(ctx, store, later.ScopeQueue)
	if err != nil {
		return nil, time.Time{}, err
	}
	now, err := storeTime(ctx, store)
	if err != nil {
		return nil, now, err
	}
	queues := []queueView{}
	for _, q := range countQueues(rows, now) {
		queues = append(queues, queueView{queueStatus: q, Paused: held.paused[q.Queue], Limit: held.limits[q.Queue]})
	}
	for name := range held.names { // also those without jobs
		if !slices.ContainsFunc(queues, func(q queueView) bool { return q.Queue == name }) {
			queues = append(queues, queueView{queueStatus: queueStatus{Queue: name, Counts: noCounts()}, Paused: held.paused[name], Limit: held.limits[name]})
		}
	}
	slices.SortFunc(queues, func(x, y queueView) int { return strings.Compare(x.Queue, y.Queue) })
	return queues, now, nil
}

// heldView is what is paused and limited of queues or of tenants, by name.
type heldView struct {
	paused map[string]*pauseView
	limits map[string]*limitView
	names  map[string]bool // in either
}

func takeHeld(ctx context.Context, store later.Store, of later.ScopeOf) (heldView, error) {
	held := heldView{map[string]*pauseView{}, map[string]*limitView{}, map[string]bool{}}
	pauses, err := takePauses(ctx, store)
	if err != nil {
		return held, err
	}
	for _, p := range pauses {
		if p.Of == of {
			held.paused[p.Name], held.names[p.Name] = &p, true
		}
	}
	limits, ok := limiterOf(store)
	if !ok {
		return held, nil
	}
	list, err := limits.Limits(ctx)
	if err != nil {
		return held, err
	}
	for _, l := range list {
		if l.Scope.Of == of {
			view := viewLimit(l, l.Limit)
			held.limits[l.Scope.Name], held.names[l.Scope.Name] = &view, true
		}
	}
	return held, nil
}

func (a *App) queueTable(queues []queueView, now time.Time) *terminal.Table {
	states := []later.State{later.StateReady, later.StateRunning, later.StateScheduled, later.StateRetry, later.StateLost, later.StateDead}
	columns := []terminal.Column{{Title: "queue", Max: 30}, {Title: "oldest due", Right: true}}
	for _, state := range states {
		columns = append(columns, terminal.Column{Title: string(state), Right: true})
	}
	t := terminal.NewTable(append(columns, terminal.Column{Title: "limit", Max: 50}, terminal.Column{Title: "paused", Rest: true})...)
	for _, q := range queues {
		cells := append([]terminal.Cell{{Text: q.Queue}}, a.countCells(states, q.Counts, q.OldestDueMS, q.OldestDue != nil)...)
		t.Cells(append(cells, a.limitCell(q.Limit), a.pauseCell(q.Paused, now))...)
	}
	return t
}

func (a *App) limitCell(l *limitView) terminal.Cell {
	if l == nil {
		return terminal.Cell{Text: "-", Paint: a.palette.Faint}
	}
	return terminal.Cell{Text: l.Holds}
}

func (a *App) pauseCell(p *pauseView, now time.Time) terminal.Cell {
	if p == nil {
		return terminal.Cell{Text: "-", Paint: a.palette.Faint}
	}
	return terminal.Cell{Text: pausedText(p.By, p.Reason, now.Sub(p.Since)), Paint: a.palette.Warn}
}

func pausedText(by, reason string, since time.Duration) string {
	text := fmt.Sprintf("for %s by %s", age.Short(since), by)
	if reason != "" {
		text += ": " + reason
	}
	return text
}

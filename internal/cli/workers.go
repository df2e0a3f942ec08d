package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/age"
	"github.com/later-queue/later/internal/terminal"
	"github.com/later-queue/later/internal/why"
)

func workersCommand(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "workers",
		Short: "List the workers, and which of them are alive",
		Long: `List the workers that have been heard of in the last minutes, with the queues that they
serve and the kinds that they know. How many jobs each runs is counted by the leases,
which reads the whole table.

A worker tells every 15 seconds that it is alive; one that is silent for a minute has
died or is cut off, and its jobs run elsewhere once their leases end.`,
		Example: `  later workers
  later workers --json | jq -r '.workers[] | select(.alive | not) | .name'`,
		Args: arguments(),
		RunE: a.looking(func(ctx context.Context, store later.Store, _ []string) error {
			fleet, err := takeFleet(ctx, store)
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.printJSON(struct {
					Workers []workerView `json:"workers"`
				}{fleet.workers})
			}
			return a.printFleet(fleet)
		}),
	}
}

// workerView is a worker with --json.
type workerView struct {
	Name      string     `json:"name"`
	Alive     bool       `json:"alive"`
	Host      string     `json:"host"`
	PID       int        `json:"pid"`
	Version   string     `json:"version"`
	Queues    []string   `json:"queues"`
	Kinds     []string   `json:"kinds"`
	Tenants   []string   `json:"tenants"` // null: all
	Slots     int        `json:"slots"`
	Running   int        `json:"running"`
	StartedAt *time.Time `json:"started_at"`
	SeenAt    *time.Time `json:"seen_at"`
}

func viewWorker(w later.WorkerInfo, now time.Time) workerView {
	return workerView{
		Name: w.Name, Alive: now.Sub(w.SeenAt) <= why.SilentAfter, Host: w.Host, PID: w.PID, Version: w.Version, Queues: w.Queues, Kinds: w.Kinds, Tenants: w.Tenants,
		Slots: w.Slots, Running: w.Running, StartedAt: instant(w.StartedAt), SeenAt: instant(w.SeenAt),
	}
}

func (a *App) workerTable(workers []workerView, now time.Time) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Title: "worker", Max: 40}, terminal.Column{Title: "seen"}, terminal.Column{Title: "up", Drop: 1},
		terminal.Column{Title: "running", Right: true}, terminal.Column{Title: "queues", Max: 40},
		terminal.Column{Title: "tenants", Max: 30, Drop: 2}, terminal.Column{Title: "kinds", Rest: true})
	for _, w := range workers {
		seen := terminal.Cell{Text: age.Relative(*w.SeenAt, now), Paint: a.palette.Good}
		if !w.Alive {
			seen = terminal.Cell{Text: "silent for " + age.Short(now.Sub(*w.SeenAt)), Paint: a.palette.Bad}
		} else if w.SeenAt.After(now) {
			seen.Text = "now" // it was seen between the two looks
		}
		t.Cells(terminal.Cell{Text: w.Name}, seen, terminal.Cell{Text: age.Short(now.Sub(*w.StartedAt))},
			terminal.Cell{Text: fmt.Sprintf("%d/%d", w.Running, w.Slots)},
			terminal.Cell{Text: strings.Join(w.Queues, " ")}, terminal.Cell{Text: tenantWords(w.Tenants)}, terminal.Cell{Text: strings.Join(w.Kinds, " ")})
	}
	return t
}

// tenantWords are the tenants whose jobs a worker runs; "all" if nothing else is said.
func tenantWords(tenants []string) string {
	if tenants == nil {
		return "all"
	}
	var words []string
	for _, name := range tenants {
		if name == "" {
			name = "-" // jobs without one
		}
		words = append(words, name)
	}
	return strings.Join(words, " ")
}

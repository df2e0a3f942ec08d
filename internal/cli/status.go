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

func statusCommand(a *App) *cobra.Command {
	var watch bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Count the jobs by queue and state, and look at the workers",
		Long: `Count the jobs by queue and state, and look at the workers. The first number to look
at is the age of the oldest job that is due: an empty queue and a stuck worker differ
in it.

  scheduled  not due yet
  ready      due, and waiting for a worker
  running    leased by a worker
  retry      failed, and not due yet
  lost       the lease of its worker has ended; the next claim takes it
  dead       out of attempts; waits for a person: later dead list

Ready jobs that no live worker takes, because none of those that serve the queue has a
handler for the kind, or runs the jobs of the tenant, are named below the table; the
newest 1000 are looked at. So are ordered queues, kinds and tenants in which nothing
runs behind a dead job, as far as the newest 100 dead jobs show it. How
many jobs each worker runs is counted by the leases.

With --watch the picture is redrawn until Ctrl-C; with --json, or when the output is
no terminal, it is printed again and again. Counting reads the whole table: with
millions of jobs it is done less often than asked for, so that it takes at most a
fifth of the time.`,
		Example: `  later status
  later status --watch --interval 5s
  later status --json | jq .oldest_due_ms`,
		Args: arguments(),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if interval < minInterval {
			return usageError("--interval is %v; it is at least %v", interval, minInterval)
		}
		if cmd.Flags().Changed("interval") && !watch {
			return usageError("--interval is of use with --watch only")
		}
		return a.looking(func(ctx context.Context, store later.Store, _ []string) error {
			if watch {
				return a.watch(ctx, interval, func(ctx context.Context) (picture, error) { return a.takeStatus(ctx, store) })
			}
			s, err := a.takeStatus(ctx, store)
			if err != nil {
				return err
			}
			return a.printPicture(s)
		})(cmd, args)
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until Ctrl-C")
	addDuration(cmd.Flags(), &interval, "interval", time.Second, "with --watch: the time between two looks")
	return cmd
}

// minInterval is the shortest time between two looks. Chosen: nobody reads
// faster.
const minInterval = 100 * time.Millisecond

// queueStatus are the counts of one queue.
type queueStatus struct {
	Queue     string                `json:"queue"`
	Counts    map[later.State]int64 `json:"counts"`
	OldestDue *time.Time            `json:"oldest_due"`
	// OldestDueMS is how long the oldest due job has been waiting.
	OldestDueMS int64 `json:"oldest_due_ms"`
}

// statusView is a look at everything; with --json it is printed as it is.
type statusView struct {
	At          time.Time             `json:"at"`
	Counts      map[later.State]int64 `json:"counts"`
	OldestDueMS int64                 `json:"oldest_due_ms"`
	Queues      []queueStatus         `json:"queues"`
	// Slots are those of the workers that are alive.
	Slots   int          `json:"slots"`
	Workers []workerView `json:"workers"`
	// RunningElsewhere are running jobs of workers that are not alive or not listed.
	RunningElsewhere int `json:"running_elsewhere"`
	// Paused are the queues, kinds and tenants whose jobs do not start.
	Paused []pauseView `json:"paused"`
	// Blocked are ordered scopes in which nothing runs behind a dead job.
	Blocked []blockedView `json:"blocked"`
	// Unserved are ready jobs that none of the live workers takes.
	Unserved unservedView `json:"ready_without_worker"`

	app   *App
	fleet *fleetView
}

// countedStates in the order of a job's life.
var countedStates = []later.State{
	later.StateScheduled, later.StateReady, later.StateRunning, later.StateRetry, later.StateLost, later.StateDead,
}

func noCounts() map[later.State]int64 {
	counts := map[later.State]int64{}
	for _, state := range countedStates {
		counts[state] = 0 // a program finds every state
	}
	return counts
}

func (a *App) takeStatus(ctx context.Context, store later.Store) (*statusView, error) {
	rows, err := store.Status(ctx)
	if err != nil {
		return nil, err
	}
	fleet, err := takeFleet(ctx, store)
	if err != nil {
		return nil, err
	}
	now := fleet.now
	s := &statusView{
		At: now.UTC(), Counts: noCounts(), Slots: fleet.slots, Workers: fleet.workers,
		RunningElsewhere: fleet.unlisted + fleet.silent, Unserved: unservedView{Kinds: []string{}, Complete: true}, app: a, fleet: fleet,
	}
	s.Queues = countQueues(rows, now)
	for _, q := range s.Queues {
		for state, n := range q.Counts {
			s.Counts[state] += n
		}
		s.OldestDueMS = max(s.OldestDueMS, q.OldestDueMS)
	}
	if s.Paused, err = takePauses(ctx, store); err != nil {
		return nil, err
	}
	if s.Blocked, err = takeBlocked(ctx, store, s.Counts[later.StateDead]); err != nil {
		return nil, err
	}
	if fleet.alive > 0 && s.Counts[later.StateReady] > 0 {
		if s.Unserved, err = findUnserved(ctx, store, fleet.workers); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// countQueues puts the counts of each queue together, by name.
func countQueues(rows []later.StatusRow, now time.Time) []queueStatus {
	queues, at := []queueStatus{}, map[string]int{}
	for _, row := range rows {
		i, known := at[row.Queue]
		if !known {
			i = len(queues)
			at[row.Queue] = i
			queues = append(queues, queueStatus{Queue: row.Queue, Counts: noCounts()})
		}
		q := &queues[i]
		q.Counts[row.State] += row.Count
		if !row.Oldest.IsZero() && (q.OldestDue == nil || row.Oldest.Before(*q.OldestDue)) {
			q.OldestDue = instant(row.Oldest)
			q.OldestDueMS = max(0, now.Sub(row.Oldest).Milliseconds())
		}
	}
	slices.SortFunc(queues, func(x, y queueStatus) int { return strings.Compare(x.Queue, y.Queue) })
	return queues
}

// storeTime is the database's clock, as far as a job shows it; else this
// machine's.
func storeTime(ctx context.Context, store later.Store) (time.Time, error) {
	jobs, err := store.List(ctx, later.Filter{Limit: 1, NoPayload: true})
	if err != nil {
		return time.Time{}, err
	}
	if len(jobs) == 0 {
		return time.Now(), nil
	}
	return jobs[0].Now, nil
}

func (s *statusView) json() any { return s }

// shownPauses is how many pauses are named in a status. Chosen: the others are a command away.
const shownPauses = 5

func (s *statusView) pausedLines() []string {
	if len(s.Paused) == 0 {
		return nil
	}
	var lines []string
	for _, p := range s.Paused[:min(len(s.Paused), shownPauses)] {
		scope := later.Scope{Of: p.Of, Name: p.Name}
		line := fmt.Sprintf("paused: %s for %s, by %s", terminal.Safe(scope.String()), age.Short(s.At.Sub(p.Since)), terminal.Safe(p.By))
		if p.Reason != "" {
			line += ": " + terminal.Safe(p.Reason)
		}
		lines = append(lines, s.app.palette.Warn(line))
	}
	if more := len(s.Paused) - shownPauses; more > 0 {
		lines = append(lines, s.app.palette.Warn(fmt.Sprintf("paused: %d more: later pause", more)))
	}
	return append(lines, "")
}

func (s *statusView) lines(width int) []string {
	p := s.app.palette
	if len(s.Queues) == 0 {
		return slices.Concat([]string{"no jobs", ""}, s.pausedLines(), s.fleet.lines(s.app, width))
	}
	columns := []terminal.Column{{Title: "queue", Max: 30}, {Title: "oldest due", Right: true}}
	for _, state := range countedStates {
		columns = append(columns, terminal.Column{Title: string(state), Right: true})
	}
	t := terminal.NewTable(columns...)
	for _, q := range s.Queues {
		t.Cells(s.row(q.Queue, nil, q.Counts, q.OldestDueMS, q.OldestDue != nil)...)
	}
	if len(s.Queues) > 1 {
		t.Cells(s.row("all", p.Strong, s.Counts, s.OldestDueMS, s.OldestDueMS > 0)...)
	}
	lines := append(append(t.Lines(width, p.Head), ""), s.pausedLines()...)
	if dead := s.Counts[later.StateDead]; dead > 0 {
		lines = append(lines, p.Bad(plural64(dead, "dead job", "dead jobs"))+": later dead list", "")
	}
	if len(s.Blocked) > 0 {
		for _, b := range s.Blocked[:min(len(s.Blocked), shownBlocked)] {
			lines = append(lines, p.Bad(terminal.Safe(b.line())))
		}
		if more := len(s.Blocked) - shownBlocked; more > 0 {
			lines = append(lines, p.Bad(fmt.Sprintf("blocked: %d more", more)))
		}
		lines = append(lines, "")
	}
	if line := s.Unserved.line(); line != "" {
		lines = append(lines, p.Warn(line), "")
	}
	return append(lines, s.fleet.lines(s.app, width)...)
}

// oldAfter is when the oldest due job is painted as old. Chosen: a worker that
// polls every second is far behind then.
const oldAfter = time.Minute

func (s *statusView) row(name string, paint terminal.Paint, counts map[later.State]int64, oldest int64, due bool) []terminal.Cell {
	return append([]terminal.Cell{{Text: name, Paint: paint}}, s.app.countCells(countedStates, counts, oldest, due)...)
}

// countCells are how long the oldest due job waits, in ms, and the counts of states.
func (a *App) countCells(states []later.State, counts map[later.State]int64, oldest int64, due bool) []terminal.Cell {
	p := a.palette
	oldestCell := terminal.Cell{Text: "-", Paint: p.Faint}
	if due {
		waited := time.Duration(oldest) * time.Millisecond
		oldestCell = terminal.Cell{Text: age.Short(waited)}
		if waited > oldAfter {
			oldestCell.Paint = p.Warn
		}
	}
	cells := []terminal.Cell{oldestCell}
	paints := map[later.State]terminal.Paint{later.StateRunning: p.Good, later.StateRetry: p.Warn, later.StateLost: p.Bad, later.StateDead: p.Bad}
	for _, state := range states {
		cell := terminal.Cell{Text: fmt.Sprint(counts[state]), Paint: paints[state]}
		if counts[state] == 0 {
			cell = terminal.Cell{Text: "-", Paint: p.Faint}
		}
		cells = append(cells, cell)
	}
	return cells
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/age"
	"github.com/later-queue/later/internal/terminal"
	"github.com/later-queue/later/internal/why"
)

func showCommand(a *App) *cobra.Command {
	return showing(a, `Show all that is known of a job: its payload with every digit, its attempts, the
errors with their stacks, and why it is not running: what is paused, which jobs fill
a limit, until when a rate holds it back, which job comes first where they run in
order, or that no worker takes it. It changes nothing.

A job that has ended is shown from the log, as long as that reaches back.`, `  later show 42
  later show 42 --payload > payload.json
  later show 42 --json | jq -r .why.text`, nil)
}

// showing makes a command that shows a job; check may refuse it.
func showing(a *App, long, example string, check func(*later.JobInfo) error) *cobra.Command {
	var onlyPayload, full bool
	cmd := &cobra.Command{
		Use:               "show ID",
		Short:             "Show a job, and why it is not running",
		Long:              long,
		Example:           example,
		Args:              arguments("ID"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := parseID(args[0])
		if err != nil {
			return err
		}
		return a.looking(func(ctx context.Context, store later.Store, _ []string) error {
			job, err := store.Find(ctx, id)
			if err != nil {
				return err
			}
			if check != nil {
				if err := check(job); err != nil {
					return err
				}
			}
			if onlyPayload {
				return a.printPayload(job)
			}
			limits, _ := limiterOf(store) // a store without limits holds nothing back by one
			reason, err := why.Ask(ctx, store, limits, job)
			if err != nil {
				return err
			}
			if a.flags.json {
				view := viewJob(job)
				view.Why = &reason
				return a.printJSON(view)
			}
			_, err = io.WriteString(a.Out, a.jobText(job, reason, full))
			return err
		})(cmd, args)
	}
	cmd.Flags().BoolVar(&onlyPayload, "payload", false, "print the payload only, byte for byte")
	cmd.Flags().BoolVar(&full, "full", false, "do not shorten a long payload")
	return cmd
}

// printPayload prints the payload's own bytes; on a terminal what is not
// visible is escaped.
func (a *App) printPayload(job *later.JobInfo) error {
	if job.State == later.StateEnded {
		return &problem{err: fmt.Errorf("job %d has ended, and the log keeps no payloads", job.ID), code: "not_found", exit: exitNotFound}
	}
	_, err := a.safeJSON(a.Out).Write(job.Payload)
	if err == nil && terminal.Is(a.Out) {
		err = a.printf("\n")
	}
	return err
}

// shownPayload is how much of a payload is shown without --full. Chosen: some
// screens full.
const shownPayload = 16 << 10

func (a *App) jobText(j *later.JobInfo, reason why.Reason, full bool) string {
	var b strings.Builder
	state := a.stateCell(j.State)
	if state.Paint != nil {
		state.Text = state.Paint(state.Text)
	}
	fmt.Fprintf(&b, "%s  %s  %s\n\n", a.palette.Strong("job "+formatID(j.ID)), a.palette.Strong(terminal.Safe(j.Kind)), state.Text)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %s  %s\n", a.palette.Faint(fmt.Sprintf("%-11s", name)), terminal.Safe(text))
		}
	}
	line("why", reason.Text)
	line("next", reason.Next)
	line("queue", j.Queue)
	line("tenant", j.Tenant)
	line("unique", uniqueText(j))
	if j.State != later.StateEnded {
		a.jobFields(j, line)
	}
	if len(j.Payload) > 0 {
		b.WriteString("\n" + a.section("payload") + indent(prettyJSON(j.Payload, full)))
	}
	if len(j.Checkpoint) > 0 {
		b.WriteString("\n" + a.section("checkpoint") + indent(prettyJSON(j.Checkpoint, full)))
	}
	if len(j.Errors) > 0 {
		b.WriteString("\n" + a.section("errors"))
		for _, e := range j.Errors {
			fmt.Fprintf(&b, "  %s %s, on worker %s\n", a.palette.Bad(fmt.Sprintf("attempt %d", e.Attempt)), moment(e.At, j.Now), terminal.Safe(e.Worker))
			b.WriteString(indent(indent(terminal.SafeLines(strings.TrimRight(e.Error, "\n")))))
		}
	}
	if len(j.Log) > 0 {
		b.WriteString("\n" + a.section("log"))
		width, _ := terminal.Size(a.Out)
		b.WriteString(indent(strings.Join(a.logTable(j.Log).Lines(max(0, width-2), a.palette.Faint), "\n")))
	}
	return b.String()
}

func (a *App) jobFields(j *later.JobInfo, line func(name, text string)) {
	line("priority", fmt.Sprintf("%d", j.Priority))
	line("created", moment(j.CreatedAt, j.Now))
	line("due", moment(j.RunAt, j.Now))
	tried := fmt.Sprintf("%d of %d", j.Attempt, j.MaxAttempts)
	if j.MaxAttempts == later.UnlimitedAttempts {
		tried = fmt.Sprintf("%d, unlimited", j.Attempt)
	}
	if j.Crashes > 0 {
		tried += fmt.Sprintf("; %s ended with a lost worker", plural(j.Crashes, "attempt", "attempts"))
	}
	if j.Generation > 0 {
		tried += fmt.Sprintf("; brought back from the dead %s", plural(j.Generation, "time", "times"))
	}
	line("attempt", tried)
	line("timeout", j.Timeout.String())
	line("expires", moment(j.ExpiresAt, j.Now))
	if j.Worker != "" {
		line("worker", j.Worker)
		line("claimed", moment(j.ClaimedAt, j.Now))
		line("lease until", moment(j.LeaseUntil, j.Now))
	}
	line("cancelled", moment(j.CancelAt, j.Now))
	line("died", moment(j.DiedAt, j.Now))
	line("reason", string(j.DeadReason))
	names := make([]string, 0, len(j.Headers))
	for name := range j.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		line("header", name+"="+j.Headers[name])
	}
	line("idempotency", j.IdempotencyKey())
}

// uniqueText is the job's key; empty without one.
func uniqueText(j *later.JobInfo) string {
	switch {
	case j.UniqueKey == "":
		return ""
	case j.State == later.StateDead:
		return j.UniqueKey + " (free, and taken again when the job is retried)"
	case j.UniqueUntil == later.UntilStarted:
		return j.UniqueKey + " (until it starts)"
	}
	return j.UniqueKey + " (until it has left the table)"
}

func (a *App) section(title string) string { return a.palette.Strong(title) + "\n" }

func (a *App) logTable(log []later.LogEntry) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Title: "attempt", Right: true}, terminal.Column{Title: "outcome"}, terminal.Column{Title: "finished"},
		terminal.Column{Title: "took", Right: true}, terminal.Column{Title: "worker", Max: 40}, terminal.Column{Title: "error", Max: 100, Rest: true})
	for _, l := range log {
		took := ""
		if !l.StartedAt.IsZero() {
			took = age.Short(l.FinishedAt.Sub(l.StartedAt))
		}
		first, _, _ := strings.Cut(l.Error, "\n")
		t.Row(fmt.Sprint(l.Attempt), string(l.Outcome), stamp(l.FinishedAt), took, l.Worker, first)
	}
	return t
}

// moment is a time with its distance from now; empty when it is not set.
func moment(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", stamp(t), age.Relative(t, now))
}

// prettyJSON indents JSON, whose numbers and strings stay as they are.
func prettyJSON(raw json.RawMessage, full bool) string {
	if cut := len(raw) - shownPayload; cut > 0 && !full {
		text := strings.ToValidUTF8(string(raw[:shownPayload]), "")
		return terminal.SafeLines(text) + fmt.Sprintf("\n… %d more bytes: --full shows all, --payload prints it as it is", cut)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return terminal.SafeLines(string(raw))
	}
	return terminal.SafeLines(b.String())
}

// indent puts two spaces before each line, and ends the last one.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

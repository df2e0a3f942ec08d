package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/age"
	"github.com/later-queue/later/worker"
)

func drainCommand(a *App) *cobra.Command {
	f := workFlags{untilEmpty: true}
	cmd := &cobra.Command{
		Use:   "drain --exec KIND=COMMAND | --http KIND=URL …",
		Short: "Run jobs until none is due, and end",
		Long: `Run jobs until none is due, and end: for cron, and for functions on a schedule. It is
"later work --until-empty". Jobs that are put off or retried meanwhile are left to
the next time; the command says when the first of these is due, unless --tenant is
given. So are jobs that a pause or a limit holds back.

--budget bounds the whole: claiming ends early enough for what runs to finish, and
what does not is stopped and given back, without an attempt being counted. The
command prints what it did, and whether anything that is due is left; both are exit
code 0.
` + handlerHelp,
		Example: `  later drain --exec mail=./mail.sh
  * * * * * later drain --db sqlite:/var/lib/app/later.db --exec mail=/opt/app/mail.sh
  later drain --budget 10m --http invoice=https://app.example/jobs/invoice --json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.work(cmd, &f) },
	}
	f.add(a, cmd)
	return cmd
}

// nextDueTimeout bounds the question of when the next job is due. Chosen: it is answered in
// milliseconds, and the work is done without the answer.
const nextDueTimeout = 2 * time.Second

// drainOnce runs jobs until none is due; a budget of 0 is no limit. nextDue is that of the store.
func (a *App) drainOnce(ctx context.Context, w *worker.Worker, budget time.Duration, nextDue func(context.Context) (time.Duration, bool, error)) error {
	outer := ctx
	if budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, budget)
		defer cancel()
	}
	sum, err := w.Drain(ctx)
	end := "no job is due any more"
	if !sum.Empty {
		end = "ended before everything that is due was run"
	}
	view := summaryView{Claimed: sum.Claimed, Outcomes: sum.Outcomes, Refused: sum.Refused, Unclear: sum.Unclear, Empty: &sum.Empty}
	if sum.Empty && err == nil {
		ctx, cancel := context.WithTimeout(outer, nextDueTimeout)
		defer cancel()
		// The jobs are done, whether this is known or not.
		if in, ok, err := nextDue(ctx); ok && err == nil {
			view.NextDueMS = new(max(0, in.Milliseconds()))
		}
	}
	return errors.Join(err, a.printSummary(view, end))
}

// summaryView is what a worker has done, with --json.
type summaryView struct {
	Claimed  int64                   `json:"claimed"`
	Outcomes map[later.Outcome]int64 `json:"outcomes"`
	Refused  int64                   `json:"refused"`
	Unclear  int64                   `json:"unclear"`
	Empty    *bool                   `json:"empty,omitempty"` // of drain
	// NextDueMS is how long it is until the next job of these queues and kinds is due, where there
	// is one and it is known; of drain, when it is empty.
	NextDueMS *int64 `json:"next_due_ms,omitempty"`
}

func summaryOf(w *worker.Worker) summaryView {
	s := w.Stats()
	return summaryView{Claimed: s.Claimed, Outcomes: s.Outcomes, Refused: s.Refused, Unclear: s.Unclear}
}

// outcomes in the order in which they are told.
var outcomes = []later.Outcome{
	later.OutcomeDone, later.OutcomeRetry, later.OutcomeSnoozed, later.OutcomeReleased,
	later.OutcomeDead, later.OutcomeCancelled, later.OutcomeExpired,
}

func (a *App) printSummary(s summaryView, end string) error {
	if a.flags.json {
		for _, outcome := range outcomes {
			if _, counted := s.Outcomes[outcome]; !counted {
				s.Outcomes[outcome] = 0
			}
		}
		return a.printJSON(s)
	}
	text := fmt.Sprintf("%s: claimed %d", end, s.Claimed)
	for _, outcome := range outcomes {
		if n := s.Outcomes[outcome]; n > 0 {
			text += fmt.Sprintf(", %s %d", outcome, n)
		}
	}
	if s.Refused > 0 {
		text += fmt.Sprintf(", refused %d (their leases were lost)", s.Refused)
	}
	if s.NextDueMS != nil {
		now := time.Now()
		text += "; the next is due " + age.Relative(now.Add(time.Duration(*s.NextDueMS)*time.Millisecond), now)
	}
	return a.printf("%s\n", text)
}

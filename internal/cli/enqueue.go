package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/request"
)

const enqueueHelp = `Store a job, and print its id. When the command returns with exit code 0, the job
is on the disk and will be run, unless it expires or is cancelled first.

PAYLOAD is JSON, which the handler receives byte for byte: 9223372036854775807
keeps its digits. @FILE reads it from a file, - from standard input; left out it
is {}.

A job that expires before it is due is refused. One that has expired by this
machine's clock is stored, with a warning: the database's clock decides.

With --unique a second job with the same key is not stored while the first one holds
it: until that is done, or until it has started (--unique-until started), or for a
time (--unique-window). The id printed is then that of the job that holds the key, and
standard error says what was done to it. The exit code is 0 all the same.

The command does not try again by itself. After exit code 5 the job may have been
stored or not: "later list" tells.

With --bulk many jobs are read, one JSON object a line:

  {"kind": "mail", "payload": {"to": "ada@example.com"}, "delay": "10m"}

Fields are kind, payload, queue, priority, tenant, delay or run_at, max_attempts,
timeout, expires_in or expires_at, headers, unique_key, unique_until or unique_window,
sliding, on_conflict, and latest. KIND and the flags count where a line says nothing.
A file is checked as a whole before its first job is stored. Standard input is stored
in batches as it comes: a bad line stops it, and the error says which lines were
stored and how to go on. With --atomic all jobs are stored in one transaction or none
is.`

// enqueueFlags are those of enqueue besides the job's.
type enqueueFlags struct {
	job      jobFlags
	bulk     string
	atomic   bool
	fromLine int
}

func enqueueCommand(a *App) *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "enqueue KIND [PAYLOAD | @FILE | -]",
		Short: "Store a job, or many",
		Long:  enqueueHelp,
		Example: `  later enqueue order.confirm '{"order_id": 42}'
  later enqueue report @report.json --in 3d --tenant acme --max-attempts unlimited
  curl -s https://example.com/x.json | later enqueue import - --queue slow --timeout 2h
  later enqueue digest --tenant acme --unique digest --in 5m --on-conflict both --latest 1h
  later enqueue mail --bulk mails.jsonl`,
		Args:              arguments("[KIND]", "[PAYLOAD]"),
		ValidArgsFunction: a.completeKind,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts, err := f.job.options(cmd.Flags())
		if err != nil {
			return err
		}
		job := request.Job{Options: opts}
		if len(args) > 0 {
			job.Kind = args[0]
		}
		if cmd.Flags().Changed("bulk") {
			if len(args) > 1 {
				return usageError("PAYLOAD and --bulk are both given; with --bulk the lines have the payloads")
			}
			return a.interruptible(func(ctx context.Context, _ []string) error { return a.enqueueBulk(ctx, &f, job) })(cmd, args)
		}
		for _, name := range []string{"atomic", "from-line"} {
			if cmd.Flags().Changed(name) {
				return usageError("--%s is of use with --bulk only", name)
			}
		}
		if len(args) == 0 {
			return usageError("KIND is missing").next("usage: %s", cmd.UseLine())
		}
		return a.interruptible(func(ctx context.Context, _ []string) error { return a.enqueueOne(ctx, job, args[1:]) })(cmd, args)
	}
	f.job.add(cmd.Flags())
	cmd.Flags().StringVar(&f.bulk, "bulk", "", "store a job for each line of JSON in this `file`; - is standard input")
	cmd.Flags().BoolVar(&f.atomic, "atomic", false, "with --bulk: all jobs or none, in one transaction")
	addNumber(cmd.Flags(), &f.fromLine, "from-line", 1, 1, math.MaxInt, "with --bulk: begin at this `line`")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("queue", a.completeFrom(storedQueues)))
	return cmd
}

func (a *App) enqueueOne(ctx context.Context, job request.Job, args []string) error {
	if len(args) > 0 {
		payload, err := a.readPayload(ctx, args[0])
		if err != nil {
			return err
		}
		job.Payload = payload
	}
	if err := job.CheckExpiry(); err != nil {
		return inFlags(err)
	}
	if job.NeverRuns(time.Now()) {
		fmt.Fprintln(a.Err, "later: by this machine's clock the job has expired when it is due, and will not run")
	}
	r := job.Request()
	built, err := later.Build(r.Args, r.Options) // before the database is opened, or made
	if err != nil {
		return a.explainPayload(inFlags(err))
	}
	return a.withStore(ctx, creating, func(store later.Store) error {
		done, err := store.Insert(ctx, []later.NewJob{built})
		if err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
		return a.printEnqueued(done[0])
	})
}

// enqueuedView is what became of a request, with --json; of one without a key only
// the id.
type enqueuedView struct {
	ID      string      `json:"id"`
	Outcome string      `json:"outcome,omitempty"`
	Holder  later.State `json:"holder,omitempty"`
}

func (a *App) printEnqueued(done later.Enqueued) error {
	if a.flags.json {
		view := enqueuedView{ID: formatID(done.ID), Holder: done.Holder}
		if done.Outcome != later.Inserted {
			view.Outcome = done.Outcome.String()
		}
		return a.printJSON(view)
	}
	if done.Outcome != later.Inserted {
		fmt.Fprintf(a.Err, "later: no new job: job %d (%s) has the key, and was %s\n", done.ID, done.Holder, doneTo[done.Outcome])
	}
	return a.printf("%d\n", done.ID)
}

// doneTo says what was done to the holder of a key.
var doneTo = map[later.EnqueueOutcome]string{
	later.Skipped:              "left as it is",
	later.Replaced:             "given this payload",
	later.Postponed:            "put off",
	later.ReplacedAndPostponed: "given this payload and put off",
}

// readPayload reads the payload that an argument stands for.
func (a *App) readPayload(ctx context.Context, arg string) (json.RawMessage, error) {
	read := func(in io.Reader) (json.RawMessage, error) {
		// One byte more than allowed, for the check to see.
		data, err := io.ReadAll(io.LimitReader(in, later.MaxPayloadBytes+1))
		if err != nil {
			return nil, fmt.Errorf("read the payload: %w", err)
		}
		if data == nil {
			data = []byte{}
		}
		return data, nil
	}
	switch {
	case arg == "-":
		return read(until(ctx, a.In))
	case len(arg) > 1 && arg[0] == '@': // no JSON begins so
		file, err := os.Open(arg[1:])
		if err != nil {
			return nil, usageError("payload file: %w", err)
		}
		defer file.Close()
		return read(file)
	}
	return json.RawMessage(arg), nil
}

// explainPayload adds what is mostly wrong with a payload from a shell.
func (a *App) explainPayload(err error) error {
	if !errors.Is(err, later.ErrPayload) {
		return err
	}
	return (&problem{err: err, code: "invalid", exit: exitUsage}).
		next(`write JSON in single quotes: '{"a":1}', and a text as '"text"'`)
}

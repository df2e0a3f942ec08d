package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later/internal/bench"
	"github.com/later-queue/later/worker"
)

const benchHelp = `Measure Later on your own database: how many jobs a second are enqueued and done, how
soon a job starts, and what a job costs in CPU time, write-ahead log and commits.

It works in a schema of its own (on SQLite: in a folder beside the file) and removes
it at the end, after Ctrl-C and errors too; a second Ctrl-C ends it at once, and it names
what it leaves. Your tables are not touched; but the server is kept busy, so think before
you run it beside users. What a killed run has left is named by the next one, and removed
by --clean: by the same user, its owner, or by a superuser.

The phases:

  bulk     one caller enqueues --jobs jobs, --batch in each call
  drain    workers do them as fast as they can; the handler does nothing
  singles  --callers goroutines enqueue one job in each call, for the time of --for
  steady   --rate jobs a second are enqueued one by one while workers run
  trickle  one job every 50 ms, with nothing else to do

Each worker has a store and connections of its own, as in a process of its own. All of
them, and those who enqueue, share the CPU time of this one process: when "busy" is near
100% for each CPU here, that is the limit, and not the database.

The defaults are those of a worker and take about 45 s; docs/bench.md explains how to
read the figures, and each field of --json. When a phase fails or the command is
interrupted, the phases that have ended are printed, with "complete" false.`

// benchFlags are those that are not a field of the benchmark's own settings.
type benchFlags struct {
	config bench.Config
	phases []string
	quiet  bool
	clean  bool
	// made is what the run has made and not removed yet, nil before and after.
	made atomic.Pointer[string]
}

func benchCommand(a *App) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast it is on your database",
		Long:  benchHelp,
		Example: `  later bench --db postgres://app@localhost/shop
  later bench --jobs 1000000 --workers 2 --concurrency 500 --phases bulk,drain
  later bench --hold-snapshot --backlog 1000000 --json > bench.json
  later bench --clean`,
		Args: arguments(),
	}
	flags := cmd.Flags()
	c := &f.config
	addNumber(flags, &c.Jobs, "jobs", bench.DefaultJobs, 1, bench.MaxJobs, "`number` of jobs of bulk and drain")
	addNumber(flags, &c.Batch, "batch", bench.DefaultBatch, 1, bench.MaxBatch, "`number` of jobs in each call of bulk")
	addNumber(flags, &c.Callers, "callers", bench.DefaultCallers, 1, bench.MaxCallers, "`number` of goroutines of singles")
	addNumber(flags, &c.Rate, "rate", bench.DefaultRate, 1, bench.MaxSteady, "`number` of jobs a second of steady")
	addDuration(flags, &c.For, "for", bench.DefaultFor, "time for which singles, steady and trickle enqueue")
	addDuration(flags, &c.Timeout, "timeout", bench.DefaultTimeout, "time after which all is ended and removed")
	addNumber(flags, &c.Workers, "workers", 1, 1, 1000, "`number` of workers, each with connections of its own")
	addNumber(flags, &c.Concurrency, "concurrency", worker.DefaultConcurrency, 1, worker.MaxConcurrency, "`number` of jobs that run at once in each worker")
	addNumber(flags, &c.Payload, "payload", bench.DefaultPayload, bench.MinPayload, bench.MaxPayload, "`bytes` of each job's payload")
	addNumber(flags, &c.Kinds, "kinds", 1, 1, 1000, "`number` of kinds that the jobs are spread over")
	addNumber(flags, &c.Tenants, "tenants", 0, 0, bench.MaxSpread, "`number` of tenants that the jobs are spread over; 0 is none")
	addNumber(flags, &c.Priorities, "priorities", 1, 1, 1000, "`number` of priorities that the jobs are spread over")
	flags.BoolVar(&c.NoLog, "no-log", false, "write no finished attempts into the job log")
	addNumber(flags, &c.Backlog, "backlog", 0, 0, bench.MaxJobs, "`number` of other ready jobs that wait in front, of a kind without a worker")
	addNumber(flags, &c.Scheduled, "scheduled", 0, 0, bench.MaxJobs, "`number` of jobs that wait beside for next week")
	flags.BoolVar(&c.HoldSnapshot, "hold-snapshot", false, "drain once more while another connection holds an old snapshot, and keep it held in the later phases")
	flags.StringSliceVar(&f.phases, "phases", nil, "measure these `phases` only: "+strings.Join(phaseNames(), ", "))
	flags.BoolVar(&f.quiet, "quiet", false, "show no progress")
	flags.BoolVar(&f.clean, "clean", false, "remove what killed runs have left, unless it belongs to somebody else, and measure nothing")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("phases", cobra.FixedCompletions(phaseNames(), cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = a.interruptibleWith(func(ctx context.Context, _ []string) error {
		if cmd.Flags().Changed("schema") {
			return usageError("--schema is of no use here, because the benchmark has a schema of its own; leave it out")
		}
		if f.clean {
			return a.cleanBench(ctx)
		}
		return a.bench(ctx, &f)
	}, func(second *signalError) error { return a.benchLeft(&f, second) })
	return cmd
}

func phaseNames() []string {
	var names []string
	for _, p := range bench.Phases() {
		names = append(names, string(p))
	}
	return names
}

func (a *App) bench(ctx context.Context, f *benchFlags) error {
	cfg := f.config
	cfg.URL, cfg.Logger = a.flags.db, a.logger(benchLogLevel)
	for _, name := range f.phases {
		if !slices.Contains(phaseNames(), name) {
			return usageError("--phases has %q%s; there are %s", name, didYouMean(name, phaseNames()), strings.Join(phaseNames(), ", "))
		}
		cfg.Phases = append(cfg.Phases, bench.Phase(name))
	}
	if cfg.HoldSnapshot && len(cfg.Phases) > 0 && !slices.ContainsFunc(cfg.Phases, func(p bench.Phase) bool { return p != bench.Bulk }) {
		return usageError("--hold-snapshot is of no use with --phases bulk, which ends before the snapshot is taken; add drain or a later phase")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"--for", cfg.For}, {"--timeout", cfg.Timeout}} {
		if d.value < time.Millisecond {
			return usageError("%s is %v; it is at least 1ms", d.name, d.value)
		}
	}
	if jobs := float64(cfg.Rate) * cfg.For.Seconds(); jobs > bench.MaxSteady {
		return usageError("--rate %d for %v is %.0f jobs; at most %d are remembered, so one of the two must be less", cfg.Rate, cfg.For, jobs, bench.MaxSteady)
	}
	progress := a.newBenchProgress(f.quiet)
	cfg.Progress = progress.step
	cfg.Made = func(place string) { f.made.Store(&place) }
	report, err := bench.Run(ctx, cfg)
	f.made.Store(nil) // or the report says that it is still there
	progress.finish()
	if report != nil {
		err = errors.Join(a.printBench(report), err)
	}
	return benchProblem(a.fromVariable(err))
}

// benchProblem says what to do about what only this command refuses or ends.
func benchProblem(err error) error {
	switch {
	case errors.Is(err, bench.ErrRefused):
		return (&problem{err: err, code: "refused", exit: exitFailed}).next("nothing was changed")
	case errors.Is(err, bench.ErrTimeout):
		return (&problem{err: err, code: "interrupted", exit: exitFailed}).next("a longer --timeout, fewer --jobs or a shorter --for would do")
	}
	return err
}

// benchLeft says what is left of a run that a second signal has ended at once.
func (a *App) benchLeft(f *benchFlags, second *signalError) error {
	p := &problem{err: second, code: "interrupted", exit: exitSignal + second.number}
	if place := f.made.Load(); place != nil {
		p.err = fmt.Errorf("%w for the second time: %s is not removed", second, *place)
		p.hint = "`" + a.cleanCommand() + "` removes it"
	}
	return p
}

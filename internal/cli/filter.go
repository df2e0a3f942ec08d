package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
)

// filterFlags select jobs.
type filterFlags struct {
	state, queue, kind, tenant, before string
	error, reason                      string
	limit                              int
}

// states are what --state takes.
var states = []string{
	string(later.StateScheduled), string(later.StateReady), string(later.StateRunning), string(later.StateRetry),
	string(later.StateLost), string(later.StateDead),
}

var deadReasons = []string{
	string(later.DeadFailed), string(later.DeadPermanent), string(later.DeadUndecodable), string(later.DeadTimeout),
	string(later.DeadExpired), string(later.DeadLost),
}

// maxListLimit bounds one page. Chosen: with payloads of 10 KB it takes 100 MB.
const maxListLimit = 10_000

func (f *filterFlags) add(a *App, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.queue, "queue", "", "of this `queue` only")
	cmd.Flags().StringVar(&f.kind, "kind", "", "of this `kind` only")
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "of this `tenant` only; an empty one selects the jobs without")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("queue", a.completeFrom(storedQueues)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("kind", a.completeFrom(storedKinds)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("tenant", cobra.NoFileCompletions))
}

func (f *filterFlags) addPage(cmd *cobra.Command) {
	addNumber(cmd.Flags(), &f.limit, "limit", 20, 1, maxListLimit, "at most this `number` of jobs, up to "+strconv.Itoa(maxListLimit))
	cmd.Flags().StringVar(&f.before, "before", "", "the page of jobs older than this `id`")
}

func (f *filterFlags) addState(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.state, "state", "", "in this `state` only: "+strings.Join(states, ", "))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp)))
}

func (f *filterFlags) addDead(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.error, "error", "", "whose last error contains this `text`")
	cmd.Flags().StringVar(&f.reason, "reason", "", "dead for this `reason`: "+strings.Join(deadReasons, ", "))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("error", cobra.NoFileCompletions))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(deadReasons, cobra.ShellCompDirectiveNoFileComp)))
}

// filter checks the flags. Names are checked so that a mistyped one is told
// apart from one of which there are no jobs.
func (f *filterFlags) filter(cmd *cobra.Command) (later.Filter, error) {
	filter := later.Filter{
		State: later.State(f.state), Queue: f.queue, Kind: f.kind, ErrorLike: f.error, Reason: later.DeadReason(f.reason), Limit: f.limit,
	}
	flags := cmd.Flags()
	if flags.Changed("state") && !slices.Contains(states, f.state) {
		return filter, usageError("--state is %q%s; there are %s", f.state, didYouMean(f.state, states), strings.Join(states, ", "))
	}
	if flags.Changed("reason") && !slices.Contains(deadReasons, f.reason) {
		return filter, usageError("--reason is %q%s; there are %s", f.reason, didYouMean(f.reason, deadReasons), strings.Join(deadReasons, ", "))
	}
	if flags.Changed("queue") {
		if err := later.CheckName("--queue", f.queue); err != nil {
			return filter, err
		}
	}
	if flags.Changed("kind") {
		if err := later.CheckName("--kind", f.kind); err != nil {
			return filter, err
		}
	}
	if flags.Changed("error") && f.error == "" {
		return filter, usageError("--error is empty; leave it out for any error")
	}
	if flags.Changed("tenant") {
		if err := later.CheckTenant(f.tenant); err != nil {
			return filter, inFlags(err)
		}
		filter.Tenant = &f.tenant
	}
	if flags.Changed("before") {
		id, err := parseID(f.before)
		if err != nil {
			return filter, err
		}
		filter.Before = id
	}
	return filter, nil
}

// completionJobs is how many of the newest jobs a completion looks at: cheap
// whatever the size of the table.
const completionJobs = 200

// storedQueues are the queues of the newest jobs and of the workers.
func storedQueues(ctx context.Context, store later.Store) ([]string, error) {
	return storedNames(ctx, store,
		func(w later.WorkerInfo) []string { return w.Queues }, func(j *later.JobInfo) string { return j.Queue })
}

// storedKinds are the kinds of the newest jobs and of the workers.
func storedKinds(ctx context.Context, store later.Store) ([]string, error) {
	return storedNames(ctx, store,
		func(w later.WorkerInfo) []string { return w.Kinds }, func(j *later.JobInfo) string { return j.Kind })
}

func storedNames(ctx context.Context, store later.Store,
	ofWorker func(later.WorkerInfo) []string, ofJob func(*later.JobInfo) string) ([]string, error) {
	workers, err := store.Workers(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := store.List(ctx, later.Filter{Limit: completionJobs, NoPayload: true})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, w := range workers {
		names = append(names, ofWorker(w)...)
	}
	for _, j := range jobs {
		names = append(names, ofJob(j))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// completeKind completes KIND, the first argument.
func (a *App) completeKind(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // PAYLOAD, perhaps @file
	}
	return a.completeFrom(storedKinds)(cmd, args, word)
}

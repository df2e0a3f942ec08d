package cli

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

const handlerHelp = `
A command of --exec gets the payload on standard input and the rest in its
environment: LATER_JOB_ID, LATER_KIND, LATER_QUEUE, LATER_ATTEMPT,
LATER_MAX_ATTEMPTS, LATER_TENANT, LATER_IDEMPOTENCY_KEY and more. Its exit code
decides:

  0   done
  65  dead at once: no retry can help
  75  put off, without counting the attempt
  *   failed: retried later, up to the job's max attempts

The last line of its output may say more: "later: after 30s because the API is busy".
No shell is needed for a plain command with quoted words; pipes, variables and the
like are given to /bin/sh.

An endpoint of --http gets the payload by POST, signed as Standard Webhooks says, when
there is a key. 2xx is done; 408, 425, 429 and 5xx are retried, after Retry-After; any
other 4xx and a redirect is dead at once, a wrong key or path (401, 403, 404) too, but
for the statuses of --http-retry. Addresses that are not public are refused without
--allow-private.

A job may run more than once: when a worker dies under it, another one runs it again.
Make what it does safe to repeat.`

const workHelp = `Run jobs: those of the kinds that have a handler here, until SIGTERM or Ctrl-C. Other
kinds are left alone. Any number of workers can share a database.
` + handlerHelp + `

At SIGTERM or Ctrl-C the worker claims no more, lets the running jobs finish for
--drain-timeout, then stops them and gives them back, without an attempt being
counted. A second signal does that at once, and the exit code is 128 and the signal's
number. When the worker is killed, its jobs run elsewhere once their leases end.`

// workFlags are those of work and of drain.
type workFlags struct {
	handlers    handlerFlags
	queues      []string
	concurrency int
	kindSlots   []string
	tenants     []string
	lowestEvery int
	lease, poll time.Duration
	drain       time.Duration
	name        string
	untilEmpty  bool
	budget      time.Duration
	logJSON     bool
	logLevel    string
	retention   time.Duration
	listen      listenFlags
}

// defaultBudget is less than the minute between two ticks of cron, by what the
// start and the end take.
const defaultBudget = 50 * time.Second

func workCommand(a *App) *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use:   "work --exec KIND=COMMAND | --http KIND=URL …",
		Short: "Run jobs with commands and HTTP endpoints",
		Long:  workHelp,
		Example: `  later work --exec thumbnail=./thumbnail.sh --concurrency 8
  later work --exec mail='python3 mail.py' --http invoice=https://app.example/jobs/invoice
  later work --queue mail=3 --queue default --exec mail=./mail --exec report=./report
  later work --exec mail=./mail --exec report=./report --concurrency 20 --kind-slots report=2
  later work --exec greet='cat > greeting.json' --until-empty`,
		Args: arguments(),
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("budget") && !f.untilEmpty {
			return usageError("--budget is of use with --until-empty only")
		}
		if err := f.listen.read(a, cmd, f.untilEmpty); err != nil {
			return err
		}
		return a.work(cmd, &f)
	}
	f.add(a, cmd)
	f.listen.add(cmd)
	cmd.Flags().BoolVar(&f.untilEmpty, "until-empty", false, "end when no job is due any more, as \"later drain\" does, and say when the next one is due")
	return cmd
}

func (f *workFlags) add(a *App, cmd *cobra.Command) {
	flags := cmd.Flags()
	f.handlers.add(cmd)
	flags.StringArrayVar(&f.queues, "queue", nil, "serve this `queue[=share]`; repeatable; shares divide the slots while all queues have work (default \"default\")")
	addNumber(flags, &f.concurrency, "concurrency", worker.DefaultConcurrency, 1, worker.MaxConcurrency, "`number` of jobs that run at once")
	flags.StringArrayVar(&f.kindSlots, "kind-slots", nil, "run at most so many jobs of a kind at once here: `KIND=N`; repeatable; \"later limit kind\" is for all workers together")
	flags.StringArrayVar(&f.tenants, "tenant", nil, "run the jobs of this `tenant` only, \"\" being those without; repeatable (default all)")
	addNumber(flags, &f.lowestEvery, "lowest-every", worker.DefaultLowestEvery, 0, math.MaxInt32, "one claim in this `number` begins at the lowest priority, so that none waits for ever; 0 is never")
	addDuration(flags, &f.lease, "lease", worker.DefaultLease, "time after a crash until another worker takes the job; renewed while the job runs")
	addDuration(flags, &f.poll, "poll", worker.DefaultPoll, "time between two looks for jobs when there are none")
	addDuration(flags, &f.drain, "drain-timeout", worker.DefaultDrainTimeout, "time that running jobs have to finish after the first signal")
	flags.StringVar(&f.name, "name", "", "`name` in leases and lists, to which a random suffix is added (default HOST-PID)")
	addDuration(flags, &f.budget, "budget", defaultBudget, "end after this time at the latest, with what then runs given back; 0 is no limit")
	flags.BoolVar(&f.logJSON, "log-json", false, "log JSON")
	flags.StringVar(&f.logLevel, "log-level", "info", "`level` of the log: debug (each job), info, warn, error")
	addDuration(flags, &f.retention, "log-retention", 0, "time for which finished attempts stay in the job log (default 7d)")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("queue", a.completeFrom(storedQueues)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("kind-slots", a.completeFrom(storedKinds)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("tenant", cobra.NoFileCompletions))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp)))
}

var logLevels = []string{"debug", "info", "warn", "error"}

// config reads the flags; its errors name them.
func (f *workFlags) config(a *App) (worker.Config, error) {
	version, _ := buildVersion()
	cfg := worker.Config{Concurrency: f.concurrency, Lease: f.lease, Poll: f.poll, DrainTimeout: f.drain, Name: f.name, Version: version}
	for _, d := range []struct {
		flag         string
		value, least time.Duration
	}{
		{"--lease", f.lease, worker.MinLease}, {"--poll", f.poll, time.Millisecond}, {"--drain-timeout", f.drain, time.Millisecond},
	} {
		if d.value < d.least {
			return cfg, usageError("%s is %v; it is at least %v", d.flag, d.value, d.least)
		}
	}
	if f.name != "" {
		if err := later.CheckName("--name", f.name); err != nil {
			return cfg, err
		}
	}
	for _, text := range f.queues {
		queue, err := parseQueue(text)
		if err != nil {
			return cfg, err
		}
		if slices.ContainsFunc(cfg.Queues, func(q worker.Queue) bool { return q.Name == queue.Name }) {
			return cfg, usageError("--queue names %s twice", queue.Name)
		}
		cfg.Queues = append(cfg.Queues, queue)
	}
	for _, tenant := range f.tenants {
		if err := later.CheckTenant(tenant); err != nil {
			return cfg, usageError("--%w", err)
		}
		if slices.Contains(cfg.Tenants, tenant) {
			return cfg, usageError("--tenant names %q twice", tenant)
		}
		cfg.Tenants = append(cfg.Tenants, tenant)
	}
	if cfg.LowestEvery = f.lowestEvery; cfg.LowestEvery == 0 {
		cfg.LowestEvery = -1
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil || !slices.Contains(logLevels, f.logLevel) {
		return cfg, usageError("--log-level is %q%s; there are %s", f.logLevel, didYouMean(f.logLevel, logLevels), strings.Join(logLevels, ", "))
	}
	cfg.Logger = a.logger(level)
	if f.logJSON {
		cfg.Logger = a.jsonLogger(level)
	}
	return cfg, nil
}

func parseQueue(text string) (worker.Queue, error) {
	name, share, shared := strings.Cut(text, "=")
	if err := later.CheckName("--queue", name); err != nil {
		return worker.Queue{}, err
	}
	queue := worker.Queue{Name: name}
	if shared {
		n, err := strconv.Atoi(share)
		if err != nil || n < 1 || n > maxShare {
			return queue, usageError("--queue %s has the share %q; it goes from 1 to %d", name, later.CleanText(share, 40), maxShare)
		}
		queue.Share = n
	}
	return queue, nil
}

// parseKindSlots reads --kind-slots for the kinds that have a handler.
func (f *workFlags) parseKindSlots(kinds []string) (map[string]int, error) {
	slots := map[string]int{}
	for _, text := range f.kindSlots {
		kind, number, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usageError("--kind-slots %q has no =; it is written as KIND=N", later.CleanText(text, 60))
		}
		if !slices.Contains(kinds, kind) {
			return nil, usageError("--kind-slots has the kind %q%s, which has no --exec or --http", later.CleanText(kind, 60), didYouMean(kind, kinds))
		}
		if _, given := slots[kind]; given {
			return nil, usageError("--kind-slots names %s twice", kind)
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > worker.MaxConcurrency {
			return nil, usageError("--kind-slots %s has the number %q; it goes from 1 to %d", kind, later.CleanText(number, 40), worker.MaxConcurrency)
		}
		slots[kind] = n
	}
	return slots, nil
}

// queueNames are the queues that the worker serves.
func queueNames(cfg worker.Config) []string {
	if len(cfg.Queues) == 0 {
		return []string{later.DefaultQueue} // as worker.Config says
	}
	var names []string
	for _, q := range cfg.Queues {
		names = append(names, q.Name)
	}
	return names
}

// maxShare is the worker's own bound.
const maxShare = 1_000_000

// noStore stands in for a store while only the settings are checked.
type noStore struct{ later.Store }

// work runs a worker until a signal comes or, with --until-empty, until no job
// is due.
func (a *App) work(cmd *cobra.Command, f *workFlags) error {
	cfg, err := f.config(a)
	if err != nil {
		return err
	}
	if f.budget < 0 {
		return usageError("--budget is %v; it must not be negative", f.budget)
	}
	if cmd.Flags().Changed("log-retention") && f.retention <= 0 {
		return usageError("--log-retention is %v; it must be more than nothing", f.retention)
	}
	config := openConfig{works: true, logger: cfg.Logger, retention: f.retention, listenURL: f.listen.url, noListen: f.listen.off}
	handlers, err := f.handlers.handlers(a, f.concurrency, cfg.Logger)
	if err != nil {
		return err
	}
	if cfg.KindSlots, err = f.parseKindSlots(handlers.Kinds()); err != nil {
		return err
	}
	if _, err := worker.New(noStore{}, handlers, cfg); err != nil { // before a database is opened, or made
		return usageError("%w", err)
	}
	s := a.newShutdown(cmd.Context(), cfg.Logger)
	defer s.end()
	err = a.withStoreConfig(s.ctx, creating, config, func(store later.Store) error {
		w, err := worker.New(store, handlers, cfg)
		if err != nil {
			return err
		}
		s.watch(w)
		if f.untilEmpty {
			return a.drainOnce(s.ctx, w, f.budget, func(ctx context.Context) (time.Duration, bool, error) {
				if len(cfg.Tenants) > 0 {
					return 0, false, nil // whose job is due next the store does not say
				}
				return store.NextDue(ctx, queueNames(cfg), handlers.Kinds())
			})
		}
		err = w.Run(s.ctx)
		return errors.Join(err, a.printSummary(summaryOf(w), "stopped"))
	})
	if second := s.second(); second != nil {
		return errors.Join(second, err)
	}
	if first := s.first(); first != nil && errors.Is(err, context.Canceled) {
		return first // before the worker ran
	}
	return f.listen.problem(err)
}

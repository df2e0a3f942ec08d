package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/pgserver"
)

// childEnv marks a process that the controller started.
const childEnv = "LATER_CHAOS_CHILD"

// config is what a run is made of.
type config struct {
	store    string
	jobs     int
	workers  int
	kills    int
	restarts int
	lease    time.Duration
	seed     int64
	spread   time.Duration // of the enqueues
	limit    time.Duration
	dir      string
}

func main() {
	var err error
	if os.Getenv(childEnv) != "" && len(os.Args) > 1 && os.Args[1] == "work" {
		err = runWorker(os.Args[2:])
	} else {
		err = control(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func control(args []string) error {
	var cfg config
	flags := flag.NewFlagSet("chaos", flag.ExitOnError)
	flags.StringVar(&cfg.store, "store", "sqlite", "postgres (a server of its own) or sqlite (a file of its own)")
	flags.IntVar(&cfg.jobs, "jobs", 20_000, "jobs to enqueue")
	flags.IntVar(&cfg.workers, "workers", 4, "worker processes")
	flags.IntVar(&cfg.kills, "kills", 20, "how many workers to kill at least")
	flags.IntVar(&cfg.restarts, "restarts", 2, "how often to restart the database (postgres only)")
	flags.DurationVar(&cfg.lease, "lease", 2*time.Second, "the workers' lease")
	flags.Int64Var(&cfg.seed, "seed", 1, "of the faults and of the jobs")
	flags.DurationVar(&cfg.spread, "spread", 20*time.Second, "over which the jobs are enqueued")
	flags.DurationVar(&cfg.limit, "limit", 30*time.Minute, "after which the run has failed")
	flags.StringVar(&cfg.dir, "dir", "", "for the event logs; kept when given, or when a promise was broken")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, cfg.limit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	result, err := runChaos(ctx, cfg, self, os.Stdout)
	if err != nil {
		return err
	}
	if len(result.violations) > 0 {
		return fmt.Errorf("%d broken promises", len(result.violations))
	}
	return nil
}

// run is one run.
type run struct {
	cfg    config
	self   string // the program to start workers with
	dir    string
	url    string
	server *pgserver.Server // nil for SQLite
	out    io.Writer
}

// result is what a run found.
type result struct {
	kills, stops, drains, restarts, processes int
	history                                   history
	violations                                []violation
}

// random is the run's source of numbers for one purpose.
func (r *run) random(purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(r.cfg.seed), purpose))
}

// runChaos does a whole run and checks it.
func runChaos(ctx context.Context, cfg config, self string, out io.Writer) (*result, error) {
	r := &run{cfg: cfg, self: self, dir: cfg.dir, out: out}
	if r.dir == "" {
		dir, err := os.MkdirTemp("", "later-chaos-")
		if err != nil {
			return nil, err
		}
		r.dir = dir
	}
	dir, err := filepath.Abs(r.dir)
	if err != nil {
		return nil, err
	}
	r.dir = dir
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, err
	}
	if err := r.openDatabase(ctx); err != nil {
		return nil, err
	}
	if r.server != nil {
		defer r.server.Close()
	}
	result, err := r.do(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w (logs in %s)", err, r.dir)
	}
	r.print(result)
	if cfg.dir == "" && len(result.violations) == 0 {
		if err := os.RemoveAll(r.dir); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func (r *run) openDatabase(ctx context.Context) error {
	switch r.cfg.store {
	case "sqlite":
		r.url = "sqlite:" + filepath.Join(r.dir, "chaos.db")
		r.cfg.restarts = 0
		return nil
	case "postgres":
		server, err := pgserver.Start(ctx, pgserver.Config{})
		if err != nil {
			return err
		}
		r.server, r.url = server, server.URL()
		return nil
	default:
		return fmt.Errorf("--store is %q; it is postgres or sqlite", r.cfg.store)
	}
}

// do enqueues, hurts, lets everything end, and checks.
func (r *run) do(ctx context.Context) (*result, error) {
	eng, err := openEngine(ctx, r.url)
	if err != nil {
		return nil, err
	}
	defer eng.Close()
	if err := eng.setUp(ctx); err != nil {
		return nil, err
	}
	p, f := newProducer(r), newFleet(r, r.cfg.workers)
	defer f.kill()
	work, stop := context.WithCancel(ctx)
	defer stop()
	enqueued := make(chan error, 1)
	go func() { enqueued <- p.enqueueAll(work, eng, r.cfg.spread) }()
	operator, stopOperator := context.WithCancel(work)
	var operating sync.WaitGroup
	operating.Go(func() { p.operate(operator, eng.Store) })

	restarts, err := r.hurt(ctx, f, enqueued)
	stopOperator()
	operating.Wait()
	if err != nil {
		return nil, err
	}
	if err := r.settleDown(ctx, eng, f); err != nil {
		return nil, err
	}
	f.drain(10 * time.Second)
	result := &result{kills: f.kills, stops: f.stops, drains: f.drains, restarts: restarts, processes: f.count}
	h := &result.history
	*h = history{lease: r.cfg.lease, acked: p.acked, unsure: p.unsure, inTx: p.inTx, revived: p.revived}
	if h.events, err = readEvents(r.dir); err != nil {
		return nil, err
	}
	if h.truth, err = eng.truth(ctx); err != nil {
		return nil, err
	}
	result.violations = h.check()
	return result, nil
}

// hurt goes on until everything is enqueued and enough harm was done.
func (r *run) hurt(ctx context.Context, f *fleet, enqueued <-chan error) (restarts int, err error) {
	random := r.random(1)
	var thaws sync.WaitGroup
	defer thaws.Wait()
	restarted := time.Now()
	pause := r.cfg.spread / time.Duration(r.cfg.restarts+1)
	all := false
	for !all || f.kills < r.cfg.kills || restarts < r.cfg.restarts {
		if err := f.fill(); err != nil {
			return restarts, err
		}
		select {
		case err := <-enqueued:
			if err != nil {
				return restarts, fmt.Errorf("enqueue: %w", err)
			}
			all, enqueued = true, nil
		case <-time.After(time.Duration(random.Float64() * float64(r.cfg.spread) / float64(r.cfg.kills+1))):
			f.hurt(random, &thaws)
		case <-ctx.Done():
			return restarts, ctx.Err()
		}
		if r.server != nil && restarts < r.cfg.restarts && time.Since(restarted) > pause {
			if err := r.server.Restart(ctx, "immediate"); err != nil {
				return restarts, fmt.Errorf("restart the database: %w", err)
			}
			restarts++
			restarted = time.Now()
		}
	}
	return restarts, nil
}

// settleDown waits until no job is left, while workers that end by themselves
// are replaced and nothing else is hurt.
func (r *run) settleDown(ctx context.Context, eng *engine, f *fleet) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := f.fill(); err != nil {
			return err
		}
		waiting, err := eng.waiting(ctx)
		if err == nil && waiting == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d jobs had not ended (%w; last error: %v)", waiting, ctx.Err(), err)
		}
	}
}

// print tells what was done and what was found.
func (r *run) print(res *result) {
	outcomes := map[string]int{}
	for _, entry := range res.history.truth.log {
		outcomes[string(entry.Outcome)]++
	}
	kinds := map[string]int{}
	inTx := map[later.Lease]bool{}
	for _, e := range res.history.events {
		kinds[e.kind]++
		if e.kind == evAccept && e.word == doneInTx {
			inTx[later.Lease{ID: e.id, Token: e.token}] = true
		}
	}
	stale := 0 // without the refusals that tell the runtime that DoneTx was committed
	for _, e := range res.history.events {
		if e.kind == evRefuse && !inTx[later.Lease{ID: e.id, Token: e.token}] {
			stale++
		}
	}
	fmt.Fprintf(r.out, "store %s, seed %d, lease %v\n", r.cfg.store, r.cfg.seed, r.cfg.lease)
	fmt.Fprintf(r.out, "jobs acknowledged %d, unsure %d; worker processes %d: %d killed, %d stopped and continued, %d drained; %d database restarts\n",
		len(res.history.acked), len(res.history.unsure), res.processes, res.kills, res.stops, res.drains, res.restarts)
	fmt.Fprintf(r.out, "claims %d, handler starts %d, settles accepted %d, stale ones refused %d; logged outcomes %v; dead now %d\n",
		kinds[evClaim], kinds[evBegin], kinds[evAccept], stale, outcomes, len(res.history.truth.dead))
	for i, v := range res.violations {
		if i == 20 {
			fmt.Fprintf(r.out, "… and %d more\n", len(res.violations)-i)
			break
		}
		fmt.Fprintln(r.out, "BROKEN", v)
	}
	if len(res.violations) == 0 {
		fmt.Fprintln(r.out, "all promises kept")
	}
}

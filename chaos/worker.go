package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/later-queue/later/worker"
)

// runWorker is a worker process: it works until SIGTERM, then drains.
func runWorker(args []string) error {
	flags := flag.NewFlagSet("work", flag.ContinueOnError)
	url := flags.String("db", "", "")
	dir := flags.String("dir", "", "")
	name := flags.String("name", "", "")
	seed := flags.Int64("seed", 1, "")
	lease := flags.Duration("lease", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	log, err := newRecorder(*dir, *name)
	if err != nil {
		return err
	}
	output, err := os.OpenFile(*dir+"/"+*name+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	eng, err := openEngine(ctx, *url)
	if err != nil {
		return err
	}
	defer eng.Close()

	w := &work{seed: *seed, lease: *lease, eng: eng, log: log}
	run, err := worker.New(&recordingStore{Store: eng.Store, log: log}, w.handlers(), worker.Config{
		Name:         *name,
		Queues:       []worker.Queue{{Name: "default", Share: 3}, {Name: "bulk", Share: 1}},
		Concurrency:  40,
		Lease:        *lease,
		Poll:         100 * time.Millisecond,
		Grace:        time.Second,
		DrainTimeout: 2 * time.Second,
		Logger:       slog.New(slog.NewTextHandler(output, nil)),
	})
	if err != nil {
		return err
	}
	if err := run.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("worker %s: %w", *name, err)
	}
	return nil
}

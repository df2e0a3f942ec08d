// Command lab races Later against other queues, side by side, on one machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/later-queue/later/internal/spelling"
	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/registry"
)

const usage = `usage:
  lab list                                 contenders, their settings, and races
  lab race [RACE…] [flags]                 run races, all of them by default
  lab report [-data data] [-docs ../docs]  write docs/benchmarks.md and its pictures from the results
  lab contender NAME VERB [ARGUMENT…]      be a contender, for the driver

Settings of a race are printed by: lab race -h
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{"help"}
	}
	switch args[0] {
	case "contender":
		return contend(ctx, args[1:])
	case "race":
		return races(ctx, args[1:])
	case "report":
		return writeReport(args[1:])
	case "list":
		return list()
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	fmt.Fprint(os.Stderr, usage)
	return fmt.Errorf("there is no command %q%s", args[0], spelling.DidYouMean(args[0], []string{"list", "race", "report", "contender"}))
}

func contend(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return contender.ErrUsage
	}
	entry, err := registry.Find(args[0])
	if err != nil {
		return err
	}
	if entry.Go == nil {
		return fmt.Errorf("%s is a program of its own: %q", entry.Name, slices.Concat(entry.Program, args[1:]))
	}
	env, err := contender.FromEnvironment()
	if err != nil {
		return err
	}
	p := contender.Process{Def: entry.Go, Env: env, In: os.Stdin, Out: os.Stdout}
	if text := os.Getenv("LAB_HANDLER"); text != "" {
		if p.Handler, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("LAB_HANDLER: %w", err)
		}
	}
	return p.Run(ctx, args[1], args[2:]...)
}

package cli

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/later-queue/later/internal/demo"
)

// demoView is the tally as --json prints it.
type demoView struct {
	OK     bool        `json:"ok"`
	Checks []checkView `json:"checks"`
	Dead   []jobView   `json:"dead"`
}

type checkView struct {
	Text   string   `json:"text"`
	Source string   `json:"source"`
	OK     bool     `json:"ok"`
	Faults []string `json:"faults"`
}

func demoCommand(a *App) *cobra.Command {
	var config demo.Config
	keep := true
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a small shop, its workers, and what goes wrong",
		Long: `A small shop takes 200 orders. Each is stored in one transaction with the job
that confirms it by mail; some are rolled back. Four worker processes do the
jobs, while the mail service fails at random, two jobs cannot be done at all, one
worker is killed (SIGKILL) in the middle of its work and one gets SIGTERM.

At the end the shop's own tables and the mails are compared, order by order:
each order is confirmed exactly once and has one mail, and an order that was
rolled back has none. The exit code is 1 if that does not add up.

It takes 15 to 20 s. Everything is in an SQLite file in a new
folder, which stays, so that you can look at it. With --db postgres://… it is in
a schema of its own in that database; LATER_DB is not read here.`,
		Example: `  later demo
  later demo --seed 7 --dir ./demo
  later demo --db postgres://localhost/test --keep=false`,
		Args: arguments(),
	}
	flags := cmd.Flags()
	flags.BoolVar(&keep, "keep", true, "keep the files and the schema; --keep=false removes them if all is well")
	flags.StringVar(&config.Dir, "dir", "", "`folder` for the files, kept in any case; else a new one among the temporary files")
	flags.Int64Var(&config.Seed, "seed", 1, "decides about the customers, the mail service's faults and the victims")
	addNumber(flags, &config.Orders, "orders", demo.DefaultOrders, 1, math.MaxInt32, "`number` of orders to take")
	flags.DurationVar(&config.Spread, "over", demo.DefaultSpread, "`time` that it takes to take them")
	cobra.CheckErr(cmd.MarkFlagDirname("dir"))

	cmd.RunE = a.interruptible(func(ctx context.Context, _ []string) error {
		config.Remove = !keep
		if cmd.Flags().Changed("db") {
			config.DB = a.flags.db
		}
		if cmd.Flags().Changed("schema") {
			config.Schema = a.flags.schema
		}
		config.Out, config.Command = a.Out, calledAs()
		if a.flags.json {
			config.Out = a.Err
		}
		config.Colour = a.colours(config.Out)
		tally, err := demo.Run(ctx, config)
		if errors.Is(err, demo.ErrConfig) {
			return usageError("%w", err)
		}
		if tally != nil && a.flags.json {
			err = errors.Join(err, a.printJSON(viewTally(tally)))
		}
		return err
	})
	cmd.AddCommand(&cobra.Command{
		Use: "worker", Hidden: true, Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return demo.RunWorker(cmd.Context()) },
	})
	return cmd
}

// calledAs is what the person types to run this program.
func calledAs() string {
	self, err := os.Executable()
	if err == nil && strings.Contains(self, "go-build") { // where `go run` builds
		return "go run ./cmd/later"
	}
	return "later"
}

func viewTally(t *demo.Tally) demoView {
	v := demoView{OK: t.OK(), Checks: []checkView{}, Dead: []jobView{}}
	for _, c := range t.Checks {
		v.Checks = append(v.Checks, checkView{Text: c.Text, Source: c.Source, OK: len(c.Faults) == 0, Faults: append([]string{}, c.Faults...)})
	}
	for _, job := range t.Dead {
		v.Dead = append(v.Dead, viewJob(job))
	}
	return v
}

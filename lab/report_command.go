package main

import (
	"errors"
	"flag"

	"github.com/later-queue/later/lab/report"
)

// writeReport writes docs/benchmarks.md and its pictures from the results.
func writeReport(args []string) error {
	flags := flag.NewFlagSet("lab report", flag.ContinueOnError)
	from := flags.String("data", "data", "folder with the results")
	docs := flags.String("docs", "../docs", "folder for benchmarks.md and benchmarks/")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	source, err := report.Load(*from)
	if err != nil {
		return err
	}
	return report.Write(source, *docs)
}

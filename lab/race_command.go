package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/later-queue/later/lab/drive"
	"github.com/later-queue/later/lab/race"
	"github.com/later-queue/later/lab/registry"
)

// races runs the races that args name.
func races(ctx context.Context, args []string) error {
	var o race.Options
	var only string
	flags := flag.NewFlagSet("lab race", flag.ContinueOnError)
	flags.BoolVar(&o.Quick, "quick", false, "small sizes and one round: for trying, the figures are worth nothing")
	flags.IntVar(&o.Rounds, "rounds", 0, "rounds of each lane (0: as the race says)")
	flags.Int64Var(&o.Jobs, "jobs", 0, "jobs of a race (0: as the race says)")
	flags.IntVar(&o.Seconds, "seconds", 0, "seconds of a race that goes by time (0: as the race says)")
	flags.StringVar(&only, "only", "", "contenders, separated by commas (empty: all)")
	flags.StringVar(&o.Lane, "lane", "", "only lanes whose printed name contains this (empty: all)")
	flags.StringVar(&o.Out, "out", "", "folder for the results (empty: data, or data/quick when the sizes or the contenders are not those of the races)")
	names, err := parseMixed(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if only != "" {
		o.Only = strings.Split(only, ",")
	}
	for _, name := range o.Only {
		if _, err := registry.Find(name); err != nil {
			return err
		}
	}
	entered := race.All
	if len(names) > 0 {
		entered = nil
		for _, name := range names {
			r, err := race.Find(name)
			if err != nil {
				return err
			}
			entered = append(entered, r)
		}
	}
	if o.Root, err = drive.Root(); err != nil {
		return err
	}
	if o.Out == "" {
		o.Out = filepath.Join(o.Root, "data")
		if o.Quick || o.Jobs > 0 || o.Seconds > 0 || len(o.Only) > 0 || o.Lane != "" {
			o.Out = filepath.Join(o.Out, "quick")
		}
	}
	o.Progress = os.Stdout
	meeting, err := race.NewMeeting(o)
	if err != nil {
		return err
	}
	for _, r := range entered {
		if err := meeting.Run(ctx, r); err != nil {
			return errors.Join(fmt.Errorf("race %s: %w", r.Name, err), meeting.Close())
		}
	}
	return meeting.Close()
}

// parseMixed parses flags that may stand before, between and behind the names.
func parseMixed(flags *flag.FlagSet, args []string) (names []string, err error) {
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		args = flags.Args()
		if len(args) > 0 {
			names = append(names, args[0])
			args = args[1:]
		}
	}
	return names, nil
}

// list prints who and what there is.
func list() error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, e := range registry.Entries {
		if e.Go == nil {
			fmt.Fprintf(t, "%s\ton %s\t%s\n", e.Name, e.Database, strings.Join(e.Program, " "))
			continue
		}
		settings := slices.Sorted(maps.Keys(e.Go.Settings))
		fmt.Fprintf(t, "%s\ton %s\tversion %s\tsettings %s\n", e.Name, e.Database, e.Go.Version, strings.Join(settings, ", "))
	}
	fmt.Fprintln(t)
	for _, r := range race.All {
		fmt.Fprintf(t, "%s\t%d lanes, %d rounds\t%s\n", r.Name, len(r.Lanes), r.Rounds, r.About)
	}
	return t.Flush()
}

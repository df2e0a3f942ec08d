package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
)

func deadRetryCommand(a *App) *cobra.Command {
	return deadMany(a, &cobra.Command{
		Use:   "retry [ID…]",
		Short: "Bring dead jobs back",
		Long: `Bring dead jobs back: due now, with all their attempts, their errors kept, their
expiry removed, and a new idempotency key. The jobs are those with the given ids, or
those that the filters select; without either it is refused, unless --all is given.

It works in portions and can be ended at any time: jobs that were brought back stay
so. Each job is brought back once, also if it is dead again before the command has
ended. It asks first when more than one job is selected by filters.

A job whose key (--unique) another one holds by now stays dead; the exit code is 4 then,
when all others have been brought back.`,
		Example: `  later dead retry 42 43
  later dead retry --kind mail --error "connection refused"
  later dead retry --all --yes`,
	}, deadWork{verb: "retry", past: "brought back", warn: "will be brought back and run again", one: func(ctx context.Context, s later.Store, f later.Filter) (int, error) {
		return s.RetryDead(ctx, f)
	}, rest: func(ctx context.Context, s later.Store, id int64) error { return s.Retry(ctx, id) }})
}

func deadDropCommand(a *App) *cobra.Command {
	return deadMany(a, &cobra.Command{
		Use:   "drop [ID…]",
		Short: "Remove dead jobs for good",
		Long: `Remove dead jobs for good, with their payloads and errors. The jobs are those with the
given ids, or those that the filters select; without either it is refused, unless
--all is given. It always asks first.

It works in portions and can be ended at any time: jobs that were dropped stay so.`,
		Example: `  later dead drop 42
  later dead drop --kind old_report --reason permanent
  later dead drop --all --yes`,
	}, deadWork{verb: "drop", past: "dropped", warn: "will be removed for good", always: true, one: func(ctx context.Context, s later.Store, f later.Filter) (int, error) {
		return s.DropDead(ctx, f)
	}})
}

// deadWork is what is done to many dead jobs.
type deadWork struct {
	verb, past, warn string
	always           bool // ask also when single jobs are named
	one              func(ctx context.Context, store later.Store, f later.Filter) (int, error)
	// rest does it to one job that the former has passed over; nil: it passes over none.
	rest func(ctx context.Context, store later.Store, id int64) error
}

// deadPortion is how many jobs one transaction changes. Chosen: it holds its
// locks for some milliseconds.
const deadPortion = 200

func deadMany(a *App, cmd *cobra.Command, work deadWork) *cobra.Command {
	var f filterFlags
	var all, yes bool
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := f.filter(cmd)
		if err != nil {
			return err
		}
		if filter.IDs, err = parseIDs(args); err != nil {
			return err
		}
		filtered := false
		for _, name := range []string{"queue", "kind", "tenant", "error", "reason"} {
			filtered = filtered || cmd.Flags().Changed(name)
		}
		switch {
		case !filtered && !all && len(args) == 0:
			return usageError("no dead jobs are named").next("give ids, a filter such as --kind, or --all")
		case all && (filtered || len(args) > 0):
			return usageError("--all excludes ids and filters")
		case filtered && len(args) > 0:
			return usageError("ids and filters exclude each other")
		}
		filter.State = later.StateDead
		return a.looking(func(ctx context.Context, store later.Store, _ []string) error {
			return a.doToDead(ctx, store, filter, work, yes)
		})(cmd, args)
	}
	f.add(a, cmd)
	f.addDead(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all dead jobs")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// doToDead lists the ids first, and then does the work to them in portions: so
// the question can name a number, and a job that dies again meanwhile is not
// taken a second time.
func (a *App) doToDead(ctx context.Context, store later.Store, filter later.Filter, work deadWork, yes bool) error {
	ids, died, err := deadIDs(ctx, store, filter)
	if err != nil {
		return err
	}
	if missing := len(filter.IDs) - len(ids); missing > 0 && len(ids) == 0 {
		text := "none of these jobs is dead"
		if missing == 1 {
			text = fmt.Sprintf("job %d is not dead", filter.IDs[0])
		}
		return (&problem{err: errors.New(text), code: "not_found", exit: exitNotFound}).next("`later dead list` shows those that are")
	} else if missing > 0 {
		stay := "are not dead and stay as they are"
		if missing == 1 {
			stay = "is not dead and stays as it is"
		}
		fmt.Fprintf(a.Err, "later: %d of these jobs %s\n", missing, stay)
	}
	if len(ids) > 0 && (work.always || len(filter.IDs) == 0 && len(ids) > 1) {
		if err := a.confirm(ctx, yes, fmt.Sprintf("%s %s", plural(len(ids), "dead job", "dead jobs"), work.warn)); err != nil {
			return err
		}
	}
	bar := a.newProgress(work.verb, len(ids))
	defer bar.finish()
	done := 0
	for start := 0; start < len(ids); start += deadPortion {
		filter.IDs = ids[start:min(start+deadPortion, len(ids))]
		filter.Limit = len(filter.IDs)
		n, err := work.one(ctx, store, filter)
		if err != nil && !errors.Is(err, later.ErrKeyHeld) {
			p := *classify(err, a.flags.db)
			p.err = err
			return (&p).next("%s %s before", plural(done, "job was", "jobs were"), work.past)
		}
		done += n
		bar.add(len(filter.IDs))
	}
	bar.finish()
	var held *later.KeyHeldError
	if work.rest != nil && done < len(ids) {
		n, stays, err := theRest(ctx, store, ids, died, work.rest)
		if err != nil {
			return err
		}
		done, held = done+n, stays
	}
	if a.flags.json {
		err = a.printJSON(struct {
			Count int `json:"count"`
		}{done})
	} else {
		err = a.printf("%s %s\n", plural(done, "job", "jobs"), work.past)
	}
	if err == nil && held != nil {
		return held
	}
	return err
}

// theRest does the work to each of those jobs that are still dead as they were, and
// says which of them stay so because their keys are held.
func theRest(ctx context.Context, store later.Store, ids []int64, died map[int64]time.Time,
	work func(context.Context, later.Store, int64) error) (done int, held *later.KeyHeldError, err error) {
	for start := 0; start < len(ids); start += deadPortion {
		portion := ids[start:min(start+deadPortion, len(ids))]
		jobs, err := store.List(ctx, later.Filter{State: later.StateDead, IDs: portion, Limit: len(portion), NoPayload: true})
		if err != nil {
			return done, held, err
		}
		for _, j := range jobs {
			if !j.DiedAt.Equal(died[j.ID]) {
				continue // it was brought back, and has died again
			}
			var stays *later.KeyHeldError
			switch err := work(ctx, store, j.ID); {
			case errors.As(err, &stays) && held == nil:
				held = stays
			case stays != nil:
				held.Count++
			case err == nil:
				done++
			case !errors.Is(err, later.ErrNotFound) && !errors.Is(err, later.ErrRunning) && !errors.Is(err, later.ErrInvalid):
				return done, held, err
			}
		}
	}
	return done, held, nil
}

// deadIDs returns the ids of all dead jobs that filter selects, newest first, and when
// each has died.
func deadIDs(ctx context.Context, store later.Store, filter later.Filter) (ids []int64, died map[int64]time.Time, err error) {
	died = map[int64]time.Time{}
	filter.Limit, filter.NoPayload = deadPortion, true
	for {
		jobs, err := store.List(ctx, filter)
		if err != nil {
			return nil, nil, err
		}
		for _, j := range jobs {
			ids, died[j.ID] = append(ids, j.ID), j.DiedAt
		}
		if len(jobs) < filter.Limit {
			return ids, died, nil
		}
		filter.Before = jobs[len(jobs)-1].ID
	}
}

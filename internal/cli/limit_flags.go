package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/request"
)

// limitFlags are the parts of a limit on the command line.
type limitFlags struct {
	maxRunning, rate, burst, onDead, weight string
	ordered, none                           bool
	by                                      string
}

// noneWord takes a part of a limit off.
const noneWord = "none"

func (f *limitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.maxRunning, "max-running", "", fmt.Sprintf("how `many` run at once: 0 to %d, or none for any number", later.MaxCap))
	flags.StringVar(&f.rate, "rate", "", "how many start in a time: `N/TIME`, such as 100/1m, 5/s or 1000/d; or none")
	flags.StringVar(&f.burst, "burst", "", "how `many` start at once after a quiet time; 1 spreads them evenly (default 1)")
	flags.BoolVar(&f.ordered, "ordered", false, "one after the other; --ordered=false takes it off")
	flags.StringVar(&f.onDead, "on-dead", "", "what a dead job does where they are ordered: `go-by` (the next one runs) or blocks (default go-by)")
	flags.StringVar(&f.weight, "weight", "", fmt.Sprintf("how `many` jobs a tenant has in its turn: 1 to %d, or none for 1", later.MaxWeight))
	flags.BoolVar(&f.none, "none", false, "take the limit off")
	flags.StringVar(&f.by, "by", currentUser(), "`who` sets it, for those who ask later")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("on-dead", cobra.FixedCompletions([]string{deadGoesBy, deadBlocks}, cobra.ShellCompDirectiveNoFileComp)))
	for _, name := range []string{"max-running", "rate", "burst", "weight", "by"} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
}

// limitChanges are what flags say about a limit; nil stays as it is.
type limitChanges struct {
	maxRunning **int
	rate       *later.Rate // without its burst
	burst      *int
	ordered    *bool
	onDead     *later.OnDead
	weight     *int
}

func (c limitChanges) any() bool { return c != limitChanges{} }

// changes reads the flags; its errors name them.
func (f *limitFlags) changes(cmd *cobra.Command) (c limitChanges, err error) {
	changed := cmd.Flags().Changed
	if changed("max-running") {
		var most *int
		if f.maxRunning != noneWord {
			n, err := parseCount("--max-running", f.maxRunning, 0, later.MaxCap, true)
			if err != nil {
				return c, err
			}
			most = &n
		}
		c.maxRunning = &most
	}
	if changed("rate") {
		var rate later.Rate
		if f.rate != noneWord {
			if rate, err = parseRate("--rate", f.rate); err != nil {
				return c, err
			}
		}
		c.rate = &rate
	}
	if changed("burst") {
		n, err := parseCount("--burst", f.burst, 1, maxStarts, false)
		if err != nil {
			return c, err
		}
		c.burst = &n
	}
	if changed("ordered") {
		c.ordered = &f.ordered
	}
	if changed("on-dead") {
		onDead, err := parseOnDead(f.onDead)
		if err != nil {
			return c, err
		}
		c.onDead = &onDead
	}
	if changed("weight") {
		n := 0
		if f.weight != noneWord {
			if n, err = parseCount("--weight", f.weight, 1, later.MaxWeight, true); err != nil {
				return c, err
			}
		}
		c.weight = &n
	}
	if f.none && c.any() {
		return c, usageError("--none takes the whole limit off, and goes with no other part of it")
	}
	return c, nil
}

// of is the limit of a scope after the changes.
func (c limitChanges) of(scope later.Scope, limit later.Limit) (later.Limit, error) {
	if c.maxRunning != nil {
		limit.MaxRunning = *c.maxRunning
	}
	if c.rate != nil {
		burst := limit.Rate.Burst
		if limit.Rate = *c.rate; *c.rate != (later.Rate{}) {
			limit.Rate.Burst = burst
		}
	}
	if c.burst != nil {
		if limit.Rate.N == 0 {
			return limit, usageError("--burst is of a rate, and %v has none", scope).next("add --rate N/TIME")
		}
		limit.Rate.Burst = *c.burst
	}
	if c.ordered != nil {
		if limit.Ordered = *c.ordered; !limit.Ordered {
			limit.OnDead = later.DeadGoesBy
		}
	}
	if c.onDead != nil {
		if !limit.Ordered {
			return limit, usageError("--on-dead is of what is ordered, and %v is not", scope).next("add --ordered")
		}
		limit.OnDead = *c.onDead
	}
	if c.weight != nil {
		limit.Weight = *c.weight
	}
	if most := limit.MaxRunning; limit.Ordered && most != nil && *most != 1 {
		fault := usageError("%v cannot be ordered, which is one at a time, and have --max-running %d", scope, *most)
		if c.maxRunning == nil {
			return limit, fault.next("add --max-running none")
		}
		return limit, fault.next("add --ordered=false")
	}
	return limit, nil
}

// maxStarts is the most that a rate and a burst may have ([later.Rate]).
const maxStarts = 1_000_000

func parseCount(flag, text string, least, most int, orNone bool) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n >= least && n <= most {
		return n, nil
	}
	reason := fmt.Sprintf("is %q; it goes from %d to %d", later.CleanText(text, 40), least, most)
	if orNone {
		reason += ", or is none"
	}
	return 0, &later.FieldError{Field: flag, Reason: reason}
}

// periods are the units that a rate may name without a number.
var periods = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

// parseRate reads N/TIME: 100/1m, 100/m, 100/min, 5/1.5s, 1000/2d.
func parseRate(flag, text string) (later.Rate, error) {
	fault := &later.FieldError{Field: flag, Reason: fmt.Sprintf(
		"is %q; a rate is written as 100/1m, with s, m, h or d for the time, or is none", later.CleanText(text, 40))}
	number, unit, ok := strings.Cut(text, "/")
	number, unit = strings.TrimSpace(number), strings.TrimSpace(unit)
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return later.Rate{}, fault
	}
	period, known := periods[unit]
	if !known {
		if count, isMin := strings.CutSuffix(unit, "min"); isMin {
			unit = count + "m"
		}
		if period, err = request.Duration(flag, unit); err != nil {
			return later.Rate{}, fault
		}
	}
	switch { // what is left is checked with its burst
	case n < 1 || n > maxStarts:
		fault.Reason = fmt.Sprintf("is %q; the number of starts goes from 1 to %d", later.CleanText(text, 40), maxStarts)
		return later.Rate{}, fault
	case period <= 0:
		return later.Rate{}, fault
	}
	return later.Rate{N: n, Period: period}, nil
}

// What a dead job does, as words.
const (
	deadGoesBy = "go-by"
	deadBlocks = "blocks"
)

func parseOnDead(text string) (later.OnDead, error) {
	switch text {
	case deadGoesBy:
		return later.DeadGoesBy, nil
	case deadBlocks:
		return later.DeadBlocks, nil
	}
	return "", usageError("--on-dead is %q%s; it is %s or %s", later.CleanText(text, 40), didYouMean(text, []string{deadGoesBy, deadBlocks}), deadGoesBy, deadBlocks)
}

// limitFieldFlags are the fields of a [later.Limit] as a person sets them.
var limitFieldFlags = map[string]string{
	"MaxRunning": "--max-running", "Rate": "--rate", "OnDead": "--on-dead", "Weight": "--weight", "by": "--by",
}

// asFlag names the flag in the error of a limit that cannot be.
func asFlag(err error) error {
	var field *later.FieldError
	if errors.As(err, &field) && limitFieldFlags[field.Field] != "" {
		return &later.FieldError{Field: limitFieldFlags[field.Field], Reason: field.Reason}
	}
	return err
}

package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/later-queue/later/internal/request"
)

// durationFlag is a flag that takes a duration with days, as all of them do.
type durationFlag struct {
	name  string
	value *time.Duration
}

// addDuration adds a flag. A usage without a word in backquotes names its value
// duration.
func addDuration(flags *pflag.FlagSet, value *time.Duration, name string, byDefault time.Duration, usage string) {
	*value = byDefault
	flags.Var(durationFlag{name: name, value: value}, name, usage)
}

// Set implements [pflag.Value].
func (f durationFlag) Set(text string) (err error) {
	*f.value, err = request.Duration("--"+f.name, text)
	return err
}

// Type implements [pflag.Value]; it is the value's name in the help.
func (f durationFlag) Type() string { return "duration" }

// String implements [pflag.Value].
func (f durationFlag) String() string {
	if f.value == nil || *f.value == 0 {
		return "" // no default to show
	}
	return f.value.String()
}

package cli

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/later-queue/later"
)

// numberFlag is a flag that takes a whole number within bounds.
type numberFlag struct {
	name        string
	value       *int
	least, most int
}

// addNumber adds a flag. A default below least is not shown: the usage tells it.
func addNumber(flags *pflag.FlagSet, value *int, name string, byDefault, least, most int, usage string) {
	*value = byDefault
	flags.Var(numberFlag{name: name, value: value, least: least, most: most}, name, usage)
}

// Set implements [pflag.Value].
func (f numberFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	what := text
	if err != nil {
		what = fmt.Sprintf("%q, which is no whole number", later.CleanText(text, 40))
	}
	if err != nil || n < f.least || n > f.most {
		return &later.FieldError{Field: "--" + f.name, Reason: fmt.Sprintf("is %s; %s", what, f.bounds())}
	}
	*f.value = n
	return nil
}

func (f numberFlag) bounds() string {
	if f.most >= math.MaxInt32 {
		return fmt.Sprintf("it is at least %d", f.least)
	}
	return fmt.Sprintf("it goes from %d to %d", f.least, f.most)
}

// Type implements [pflag.Value]; it is the value's name in the help.
func (f numberFlag) Type() string { return "number" }

// String implements [pflag.Value].
func (f numberFlag) String() string {
	if f.value == nil || *f.value < f.least {
		return "" // no default to show
	}
	return strconv.Itoa(*f.value)
}

package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/later-queue/later"
)

var unknownFlag = regexp.MustCompile(`^unknown flag: --(\S+)$`)

// noNumber is what pflag says of a number that is none; the rest names Go's parser.
var noNumber = regexp.MustCompile(`^invalid argument (".*") for "(--[a-z-]+).*" flag: (?s:.*)(?:strconv\.)`)

// noSwitch is what pflag says of a value of a flag that is on or off.
var noSwitch = regexp.MustCompile(`^invalid argument (".*") for "(--[a-z-]+).*" flag: strconv\.ParseBool`)

// flagError is the error of a flag that is unknown or has a wrong value.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	var field *later.FieldError
	if errors.As(err, &field) {
		text = field.Error() // which names the flag
	}
	if match := unknownFlag.FindStringSubmatch(text); match != nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		name := strings.SplitN(match[1], "=", 2)[0]
		text = "unknown flag --" + name + didYouMean("--"+name, names)
	}
	if match := noSwitch.FindStringSubmatch(text); match != nil {
		text = fmt.Sprintf("%s is %s; it is given alone, or is true or false", match[2], match[1])
	}
	if match := noNumber.FindStringSubmatch(text); match != nil {
		text = fmt.Sprintf("%s is %s, which is no whole number", match[2], match[1])
	}
	return usageError("%s", text).next("`%s --help` explains the flags", cmd.CommandPath())
}

// arguments checks the number of arguments, and names what is missing and what
// is too much. names are the arguments: one in [] may be left out, and the last
// one may end in … and be given several times.
func arguments(names ...string) cobra.PositionalArgs {
	needed, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			needed++
		}
		if strings.HasSuffix(name, "…") {
			most = -1
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		wrong := ""
		switch {
		case len(args) < needed:
			wrong = strings.TrimSuffix(names[len(args)], "…") + " is missing"
		case most < 0 || len(args) <= most:
			return nil
		case most == 0:
			wrong = fmt.Sprintf("`%s` takes no arguments: %s", cmd.CommandPath(), quoted(args))
		default:
			wrong = fmt.Sprintf("%s too many: %s", plural(len(args)-most, "argument", "arguments"), quoted(args[most:]))
		}
		return usageError("%s", wrong).next("usage: %s", cmd.UseLine())
	}
}

func quoted(words []string) string {
	text := fmt.Sprintf("%q", words)
	return later.CleanText(text[1:len(text)-1], 100)
}

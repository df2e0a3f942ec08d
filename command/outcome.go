package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/later-queue/later"
)

// Exit codes that mean more than failure, from sysexits.h (BSD, 1980s; the
// codes that mail systems use for the same distinction).
const (
	// ExitPermanent (EX_DATAERR, "the input data was incorrect") says that no
	// retry can help: the job is dead at once.
	ExitPermanent = 65
	// ExitSnooze (EX_TEMPFAIL, "the user is invited to retry") puts the job
	// off without counting the attempt.
	ExitSnooze = 75
)

// Exit codes that shells give for a command that they could not start (POSIX
// Shell Command Language, 2.8.2). They are failed attempts like any other code.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

const (
	// DefaultSnooze is how long a snooze lasts when the last line names no
	// time. Chosen, not measured.
	DefaultSnooze = time.Minute
	// MinDelay is the shortest delay: a shorter one counts as this, so that a
	// job cannot spin. Chosen, not measured.
	MinDelay = time.Second
	// MaxDelay is the longest delay: a longer one counts as this.
	MaxDelay = later.MaxBackoff
)

// maxErrorTail is how much of standard error an error's text shows: it leaves
// room in later.MaxErrorBytes for the sentence before it.
const maxErrorTail = 3 << 10

// ExitError is a command that ended otherwise than with exit code 0, or that
// was ended. Code that watches a worker finds it with [errors.As].
type ExitError struct {
	// Code is the exit code, or -1 when a signal ended the command.
	Code int
	// Signal names the signal that ended the command; else empty.
	Signal string
	// Stdout and Stderr are the ends of what it wrote.
	Stdout, Stderr []byte
	// Reason is the text after "because" in the last line; else empty.
	Reason string

	fault string // what was wrong with the last line
	cause error  // of the context that ended it
}

// Error says how the command ended and why: the reason that it gave, or the
// tail of its standard error.
func (e *ExitError) Error() string {
	var b strings.Builder
	if e.cause != nil {
		fmt.Fprintf(&b, "%v; the command was ended", e.cause)
	}
	if b.Len() > 0 {
		b.WriteString(" and ")
	}
	b.WriteString(e.ending())
	if e.fault != "" {
		b.WriteString("; " + e.fault)
	}
	why := e.Reason
	if why == "" {
		why = tailText(e.Stderr, maxErrorTail)
	}
	if why != "" {
		b.WriteString(": " + why)
	}
	return b.String()
}

// Unwrap returns the cause of the context that ended the command, if one did.
func (e *ExitError) Unwrap() error { return e.cause }

func (e *ExitError) ending() string {
	switch {
	case e.Signal != "":
		return "killed by signal: " + e.Signal
	case e.Code == exitNotExecutable:
		return "exit code 126 (a command was found but could not be executed)"
	case e.Code == exitNotFound:
		return "exit code 127 (a command was not found)"
	case e.Code > 128 && e.Code <= 128+64:
		return fmt.Sprintf("exit code %d (from a shell: a command was killed by signal %d)", e.Code, e.Code-128)
	}
	return "exit code " + strconv.Itoa(e.Code)
}

// outcome is what the handler returns.
func (e *ExitError) outcome(ctx context.Context) error {
	if e.cause != nil {
		return e
	}
	if e.Code == 0 {
		return nil
	}
	line, err := ParseLine(lastLine(e.Stdout))
	if err != nil {
		e.fault = err.Error()
	}
	e.Reason = later.CleanText(line.Because, maxErrorTail)
	switch {
	case e.Code == ExitPermanent:
		return later.Permanent(e)
	case err != nil:
		// Also instead of a snooze: one that nobody meant could go on unseen
		// for ever.
		return e
	case e.Code == ExitSnooze && line.After == 0:
		return later.Snooze(DefaultSnooze)
	case e.Code == ExitSnooze:
		return later.Snooze(line.After)
	case line.After > 0:
		return later.RetryAfter(e, line.After)
	}
	return e
}

// Line is what a command says in its last line of output.
type Line struct {
	// After is when to run the job again: 0 when the line names no time, else
	// from [MinDelay] to [MaxDelay].
	After time.Duration
	// Because is the reason; "" when the line gives none.
	Because string
}

// ParseLine reads the last line of a command's standard output:
//
//	later: [after DURATION] [because REASON]
//
// DURATION is a whole number of seconds (90), or numbers with units (1m30s; ms,
// s, m, h). Spaces around words do not matter. A line that does not begin with
// "later:" says nothing: the zero Line. The error names what was not understood.
func ParseLine(line string) (Line, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "later:")
	if !ok {
		return Line{}, nil
	}
	var parsed Line
	word, after := cutWord(rest)
	if word == "after" {
		word, after = cutWord(after)
		d, err := parseDelay(word)
		if err != nil {
			return Line{}, err
		}
		parsed.After = d
		word, after = cutWord(after)
	}
	switch {
	case word == "because" && after != "":
		parsed.Because = after
	case word == "because":
		return Line{}, errors.New(`its last line ends with "because"`)
	case word != "":
		return Line{}, fmt.Errorf(`its last line has %q where "because" was expected`, later.CleanText(word, 40))
	case parsed.After == 0:
		return Line{}, errors.New(`its last line is "later:" and nothing else`)
	}
	return parsed, nil
}

func parseDelay(text string) (time.Duration, error) {
	fault := fmt.Errorf("its last line says %q where a time like 30s or 5m was expected", later.CleanText(text, 40))
	d, err := time.ParseDuration(text)
	if err != nil {
		seconds, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, fault
		}
		d = time.Duration(min(seconds, uint64(MaxDelay/time.Second))) * time.Second
	}
	if d < 0 {
		return 0, fault
	}
	return min(max(d, MinDelay), MaxDelay), nil
}

func cutWord(text string) (word, rest string) {
	text = strings.TrimSpace(text)
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], strings.TrimSpace(text[i:])
	}
	return text, ""
}

// lastLine is the last line of output that is not blank.
func lastLine(output []byte) string {
	text := strings.TrimRight(string(output), " \t\r\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// tailText is the end of text, from the beginning of a line when one is near.
func tailText(output []byte, limit int) string {
	text := strings.TrimSpace(string(output))
	if len(text) > limit {
		text = text[len(text)-limit:]
		if i := strings.IndexByte(text, '\n'); i >= 0 && i < limit/4 {
			text = text[i+1:]
		}
		for range utf8.UTFMax - 1 {
			if text != "" && !utf8.RuneStart(text[0]) {
				text = text[1:]
			}
		}
		text = "…" + text
	}
	return later.CleanText(text, limit+len("…"))
}

// Package command runs jobs with a command, so that a worker serves any
// language: the payload comes on standard input, what else is known of the job
// in the environment, and the exit code decides what becomes of it.
//
//	run, err := command.New(command.Config{Command: []string{"./thumbnail.sh"}})
//	later.HandleRaw(handlers, "thumbnail", later.HandlerConfig{}, run)
//
// # Exit codes
//
//	  0  the job is done
//	 65  the job is dead at once ([ExitPermanent], EX_DATAERR)
//	 75  the job is put off and this attempt is not counted ([ExitSnooze], EX_TEMPFAIL)
//	any other: a failed attempt, retried after the backoff's delay
//
// A command that was killed by a signal, or that could not be started, is a
// failed attempt. The error that is kept with the job says what happened and
// ends with the tail of standard error.
//
// # The last line
//
// The last line of standard output may say more. It is read only after an exit
// code other than 0, and only when it begins with "later:":
//
//	later: after 30s                             (with 75: snooze for 30 s; with any other code but 65: retry in 30 s)
//	later: because no such customer              (this error instead of the tail of standard error)
//	later: after 5m because the API answers 429  (both)
//
// See [ParseLine]. A line that begins with "later:" but is not understood makes
// a failed attempt that says so, or, with exit code 65, a dead job that says so.
//
// # When the time is up
//
// When the handler's context ends (the job's timeout, a lost lease, a
// cancelled job, the worker's drain deadline) the command's process group gets
// SIGTERM, and after [Config.KillAfter] SIGKILL. From then on its exit code no
// longer counts, since many programs answer SIGTERM with 0 and half the work:
// the attempt ended for the context's reason.
//
// Whatever the command leaves running in its process group is killed when the
// command itself has ended. On Linux and FreeBSD the command, though not what it
// started, is killed when the worker dies. Where there are no process groups
// (Windows) the command is killed at once, and what it started stays.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/later-queue/later"
)

const (
	// DefaultMaxOutput is how much of each output stream is kept. Chosen, not
	// measured: the longest last line that anybody would write, and more than
	// an error may hold (later.MaxErrorBytes).
	DefaultMaxOutput = 64 << 10

	// DefaultKillAfter is the time between SIGTERM and SIGKILL. Chosen, not
	// measured: half of what container platforms give a whole process.
	DefaultKillAfter = 5 * time.Second
)

// Config says what to run. Only Command must be set.
type Config struct {
	// Command is the program and its arguments; no shell looks at them. A
	// program without a slash is searched in PATH; a relative path is relative
	// to Dir. [Parse] makes it from one string.
	Command []string
	// Dir is the working directory; "" is the worker's.
	Dir string
	// Env is the environment, as KEY=value, that the job's variables are added
	// to; nil is the worker's own, which may hold the database's password.
	Env []string
	// MaxOutput is how many bytes are kept of the end of each output stream;
	// 0 is [DefaultMaxOutput]. What comes before is read and dropped.
	MaxOutput int
	// KillAfter is how long the command may take to end after SIGTERM; 0 is
	// [DefaultKillAfter].
	KillAfter time.Duration
}

// New returns a handler for [later.HandleRaw] that runs the command once for
// each attempt. It is safe for concurrent use; each running command takes one
// thread of the operating system. The command's output is never logged.
//
// The error says which field of config is wrong. A program that cannot be found
// is one: a worker that cannot run its command should not claim jobs for it.
func New(config Config) (func(ctx context.Context, job *later.Job[json.RawMessage]) error, error) {
	if config.MaxOutput == 0 {
		config.MaxOutput = DefaultMaxOutput
	}
	if config.KillAfter == 0 {
		config.KillAfter = DefaultKillAfter
	}
	switch {
	case len(config.Command) == 0 || config.Command[0] == "":
		return nil, errors.New("command: Command is empty")
	case config.MaxOutput < 0:
		return nil, fmt.Errorf("command: MaxOutput is %d; it must not be negative", config.MaxOutput)
	case config.KillAfter < 0:
		return nil, fmt.Errorf("command: KillAfter is %v; it must not be negative", config.KillAfter)
	}
	for _, word := range config.Command {
		if strings.ContainsRune(word, 0) {
			return nil, errors.New("command: Command has a NUL byte")
		}
	}
	if err := findProgram(config.Dir, config.Command[0]); err != nil {
		return nil, err
	}
	return config.run, nil
}

// findProgram returns an error when the program cannot be run as things are.
func findProgram(dir, program string) error {
	path := program
	if dir != "" && strings.ContainsRune(filepath.ToSlash(program), '/') && !filepath.IsAbs(program) {
		path = filepath.Join(dir, program)
	}
	if _, err := exec.LookPath(path); err != nil {
		return fmt.Errorf("command: %s", startFault(program, err))
	}
	return nil
}

func (c Config) run(ctx context.Context, job *later.Job[json.RawMessage]) error {
	if ctx.Err() != nil {
		return fmt.Errorf("command not started: %w", context.Cause(ctx))
	}
	environ := environ(ctx, c.Env, job.Claimed)
	ended, err := c.execute(ctx, environ, job.Payload)
	if err != nil {
		return errors.New(startFault(c.Command[0], err))
	}
	return ended.outcome(ctx)
}

// startFault says why a program could not be started, in words that a person
// who sees the job can act on.
func startFault(program string, err error) string {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%q was not found (or its interpreter, or the working directory)", program)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%q may not be executed: permission denied", program)
	}
	return fmt.Sprintf("%q could not be started: %v", program, err)
}

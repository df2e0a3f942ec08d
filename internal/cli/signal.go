package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/later-queue/later/internal/terminal"
)

// signals delivers the signals that end a process.
type signals struct {
	C    <-chan os.Signal
	stop func()
}

// processSignals are SIGINT and SIGTERM, and SIGHUP unless the process was told
// to outlive its terminal (nohup).
func processSignals() *signals {
	wanted := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		wanted = append(wanted, syscall.SIGHUP)
	}
	c := make(chan os.Signal, 8)
	signal.Notify(c, wanted...)
	return &signals{C: c, stop: func() { signal.Stop(c) }}
}

// signalError says that a signal ended the command.
type signalError struct {
	name   string
	number int
}

func newSignalError(s os.Signal) *signalError {
	e := &signalError{name: s.String(), number: 2}
	if n, ok := s.(syscall.Signal); ok {
		e.number = int(n)
	}
	return e
}

func (e *signalError) Error() string { return fmt.Sprintf("ended by the signal %s", e.name) }

// interrupted is the error of a command that a signal has ended, with what the
// command has to say about it.
func interrupted(cause *signalError, err error) error {
	p := &problem{err: cause, code: "interrupted", exit: exitSignal + cause.number}
	var told *problem
	if errors.As(err, &told) {
		p.hint = told.hint
	}
	if !errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
		p.err = fmt.Errorf("%w: %w", cause, err)
	}
	return p
}

// interruptible makes of run what cobra wants: its context ends at the first
// signal, with a [signalError] as its cause, which is also the command's error
// then. From then on signals do what they do to a process that does not care, so
// that a second one ends it at once.
func (a *App) interruptible(run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return a.interruptibleWith(run, nil)
}

// interruptibleWith is [App.interruptible] for a command that may leave something behind when
// it is ended at once: lastWords is what it says then, the second signal being its cause.
func (a *App) interruptibleWith(run func(ctx context.Context, args []string) error, lastWords func(*signalError) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithCancelCause(cmd.Context())
		defer cancel(nil)
		received := a.Signals()
		defer received.stop()
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case s := <-received.C:
				if lastWords == nil {
					received.stop()
				}
				cancel(newSignalError(s))
			case <-over:
				return
			}
			if lastWords == nil {
				return
			}
			select {
			case s := <-received.C:
				if terminal.Is(a.Err) {
					fmt.Fprintln(a.Err) // a line of progress may be there
				}
				os.Exit(a.report(lastWords(newSignalError(s))))
			case <-over:
			}
		}()
		err := run(ctx, args)
		if cause, ok := context.Cause(ctx).(*signalError); ok && err != nil {
			return interrupted(cause, err)
		}
		return err
	}
}

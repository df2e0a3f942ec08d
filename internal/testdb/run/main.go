// Command run starts PostgreSQL and PgBouncer, runs a command with their addresses in
// LATER_TEST_POSTGRES and LATER_TEST_PGBOUNCER, stops both, and ends with the
// command's exit code:
//
//	go run ./internal/testdb/run -- go test ./...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/later-queue/later/internal/pgserver"
	"github.com/later-queue/later/internal/testdb"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: run -- command [argument]...")
		os.Exit(2)
	}
	code, err := run(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		if code == 0 {
			code = 1
		}
	}
	os.Exit(code)
}

// run does everything that must be undone, so that main can exit with a code.
func run(args []string) (code int, err error) {
	// From here on a signal does not end us: it is passed on to the command, and
	// when that has ended the servers are stopped.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	forward := make(chan os.Signal, 4)
	go func() {
		for s := range signals {
			cancel() // ends a start that is under way
			forward <- s
		}
	}()

	server, err := pgserver.Start(ctx, pgserver.Config{})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	bouncer, err := pgserver.StartPgBouncer(ctx, server, pgserver.Config{})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, bouncer.Close()) }()

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		testdb.PostgresEnv+"="+server.URL(),
		testdb.PgBouncerEnv+"="+bouncer.URL())
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-forward:
			// An error says that the command has ended, which done tells too.
			_ = cmd.Process.Signal(s)
		case err := <-done:
			return exitCode(cmd.ProcessState), notExit(err)
		}
	}
}

// exitCode is the shell's: the command's own, or 128 and the number of the signal.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// notExit drops the error which only says that the code was not 0.
func notExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

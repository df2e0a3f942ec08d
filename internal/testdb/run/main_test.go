package main

import (
	"bufio"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// mainEnv makes the test's program be the command itself.
const mainEnv = "LATER_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	cmd.Stderr = os.Stderr
	return cmd
}

// code is the exit code of a command that has ended.
func code(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

// wantGone fails the test when somebody still listens at the address.
func wantGone(t *testing.T, dsn string) {
	t.Helper()
	u, err := url.Parse(strings.TrimSpace(dsn))
	if err != nil || u.Host == "" {
		t.Fatalf("got the address %q (%v), want one of a server", dsn, err)
	}
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		conn.Close()
		t.Errorf("%s still answers, want it stopped", u.Host)
	}
}

func TestRun(t *testing.T) {
	t.Run("gives the command both addresses, its exit code back, and stops the servers", func(t *testing.T) {
		out, err := command("--", "sh", "-c", `echo "$LATER_TEST_POSTGRES"; echo "$LATER_TEST_PGBOUNCER"; exit 7`).Output()
		if got := code(t, err); got != 7 {
			t.Errorf("got exit code %d, want 7", got)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != 2 || lines[0] == lines[1] {
			t.Fatalf("got %q, want two different addresses", lines)
		}
		for _, dsn := range lines {
			wantGone(t, dsn)
		}
	})
	t.Run("passes SIGTERM on and stops the servers", func(t *testing.T) {
		// exec, so that the signal reaches the command that waits. It reads until its
		// input ends, which it never does.
		cmd := command("--", "sh", "-c", `echo "$LATER_TEST_POSTGRES"; exec cat`)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		dsn, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if got, want := code(t, cmd.Wait()), 128+int(syscall.SIGTERM); got != want {
			t.Errorf("got exit code %d, want %d", got, want)
		}
		wantGone(t, dsn)
	})
	t.Run("says how it is used when there is no command", func(t *testing.T) {
		cmd := command("--")
		cmd.Stderr = nil
		if got := code(t, cmd.Run()); got != 2 {
			t.Errorf("got exit code %d, want 2", got)
		}
	})
	t.Run("a command that does not exist is an error", func(t *testing.T) {
		cmd := command("no-such-command-anywhere")
		cmd.Stderr = nil
		if got := code(t, cmd.Run()); got != 1 {
			t.Errorf("got exit code %d, want 1", got)
		}
	})
}

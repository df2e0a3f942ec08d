package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/command"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

func newJob(payload string) *later.Job[json.RawMessage] {
	return &later.Job[json.RawMessage]{
		Claimed: &later.Claimed{Record: later.Record{
			ID: 42, Queue: "mail", Kind: "thumbnail", Tenant: "café ☕ 'a\"b", Attempt: 2, MaxAttempts: 5,
			RunAt:      time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.FixedZone("", 3600)),
			Generation: 1,
			Headers:    map[string]string{"traceparent": "00-ab", "note": "line\nbreak \"é\""},
		}},
		Payload: json.RawMessage(payload),
	}
}

// runConfig runs config's command for job.
func runConfig(t *testing.T, config command.Config, job *later.Job[json.RawMessage]) error {
	t.Helper()
	run, err := command.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return run(ctx, job)
}

// sh runs script for a job whose payload is {}.
func sh(t *testing.T, script string) error {
	t.Helper()
	return runConfig(t, command.Config{Command: []string{"/bin/sh", "-c", script}}, newJob(`{}`))
}

// verdict names what a handler's error asks for.
func verdict(err error) string {
	if err == nil {
		return "done"
	}
	if d, ok := later.IsSnooze(err); ok {
		return "snooze " + d.String()
	}
	if later.IsPermanent(err) {
		return "dead"
	}
	if d, ok := later.IsRetryAfter(err); ok {
		return "retry after " + d.String()
	}
	return "retry"
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		script  string
		verdict string
		text    string // the error's; "" is not looked at
	}{
		{"exit 0", "done", ""},
		{"echo later: after 5s; exit 0", "done", ""},
		{"echo later: nonsense; exit 0", "done", ""},
		{"exit 1", "retry", "exit code 1"},
		{"echo 'no disk' >&2; exit 1", "retry", "exit code 1: no disk"},
		{"exit 64", "retry", "exit code 64"},
		{"exit 65", "dead", "exit code 65"},
		{"echo 'bad input' >&2; exit 65", "dead", "exit code 65: bad input"},
		{"echo later: because no such customer; echo noise >&2; exit 65", "dead", "exit code 65: no such customer"},
		{"echo later: after 5s; exit 65", "dead", "exit code 65"},
		{"echo later: soon; exit 65", "dead", `exit code 65; its last line has "soon" where "because" was expected`},
		{"exit 75", "snooze 1m0s", ""},
		{"echo later: after 30s; exit 75", "snooze 30s", ""},
		{"echo later: after 90; exit 75", "snooze 1m30s", ""},
		{"echo later: after 5m because not yet; exit 75", "snooze 5m0s", ""},
		{"echo later: after 30s; echo done; exit 75", "snooze 1m0s", ""}, // not the last line
		{"printf 'a\\nlater: after 30s\\n\\n \\n'; exit 75", "snooze 30s", ""},
		{"printf 'later: after 30s'; exit 75", "snooze 30s", ""},
		{"printf 'later: after 30s\\r\\n'; exit 75", "snooze 30s", ""},
		{"echo later: after soon; exit 75", "retry", `exit code 75; its last line says "soon" where a time like 30s or 5m was expected`},
		{"echo later: after 2m; exit 1", "retry after 2m0s", "exit code 1"},
		{"echo later: after 2m because it answers 429; exit 3", "retry after 2m0s", "exit code 3: it answers 429"},
		{"echo later: because of rain; exit 1", "retry", "exit code 1: of rain"},
		{"echo later: after -5s; exit 1", "retry", `exit code 1; its last line says "-5s" where a time like 30s or 5m was expected`},
		{"exit 126", "retry", "exit code 126 (a command was found but could not be executed)"},
		{"exit 127", "retry", "exit code 127 (a command was not found)"},
		{"exit 137", "retry", "exit code 137 (from a shell: a command was killed by signal 9)"},
		{"exit 255", "retry", "exit code 255"},
		{"kill -KILL $$", "retry", "killed by signal: killed"},
		{"kill -TERM $$", "retry", "killed by signal: terminated"},
		{"echo oops >&2; kill -SEGV $$", "retry", "killed by signal: segmentation fault: oops"},
		{"echo later: after 1h; kill -KILL $$", "retry after 1h0m0s", "killed by signal: killed"},
	} {
		t.Run(c.script, func(t *testing.T) {
			err := sh(t, c.script)
			if got := verdict(err); got != c.verdict {
				t.Errorf("got %s, want %s (%v)", got, c.verdict, err)
			}
			if c.text != "" && (err == nil || err.Error() != c.text) {
				t.Errorf("got error %q, want %q", err, c.text)
			}
		})
	}
}

func TestInput(t *testing.T) {
	t.Run("the payload's exact bytes are on standard input", func(t *testing.T) {
		// Case 5: big numbers keep their digits. Case 8: order and repeats stay.
		payload := `{"bb":1, "a":2,"a":3, "id":9223372036854775807,"c":1.10,"s":"café \u00e9"}`
		err := sh(t, "exit 1") // a first attempt leaves nothing behind for the second
		if err == nil {
			t.Fatal("exit 1 was no error")
		}
		out := filepath.Join(t.TempDir(), "out")
		err = runConfig(t, command.Config{Command: []string{"/bin/sh", "-c", `cat >"$0"`, out}}, newJob(payload))
		if err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, out); got != payload {
			t.Errorf("got %s, want %s", got, payload)
		}
	})
	t.Run("the environment tells what is known of the job", func(t *testing.T) {
		// Case 16: a tenant with quotes, spaces and other scripts arrives as it is.
		t.Setenv("LATER_TENANT", "inherited from a job around the worker")
		t.Setenv("LATER_DEADLINE", "inherited")
		t.Setenv("OTHER", "kept")
		out := filepath.Join(t.TempDir(), "out")
		run, err := command.New(command.Config{Command: []string{"/bin/sh", "-c", `env >"$0"`, out}})
		if err != nil {
			t.Fatal(err)
		}
		if err := run(context.Background(), newJob(`{}`)); err != nil {
			t.Fatal(err)
		}
		got := "\n" + readFile(t, out)
		for _, want := range []string{
			"LATER_JOB_ID=42", "LATER_KIND=thumbnail", "LATER_QUEUE=mail", "LATER_TENANT=café ☕ 'a\"b",
			"LATER_ATTEMPT=2", "LATER_MAX_ATTEMPTS=5", "LATER_IDEMPOTENCY_KEY=" + newJob(`{}`).IdempotencyKey(),
			"LATER_RUN_AT=2026-01-02T02:04:05.6Z", "LATER_DEADLINE=",
			`LATER_HEADERS={"note":"line\nbreak \"é\"","traceparent":"00-ab"}`, "OTHER=kept",
		} {
			if !strings.Contains(got, "\n"+want+"\n") {
				t.Errorf("no line %s in:%s", want, got)
			}
		}
		if strings.Contains(got, "inherited") {
			t.Errorf("a variable was inherited:%s", got)
		}
	})
	t.Run("the deadline is the context's, headers are never absent", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "out")
		run, err := command.New(command.Config{Command: []string{"/bin/sh", "-c", `echo "$LATER_DEADLINE $LATER_HEADERS" >"$0"`, out}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithDeadline(t.Context(), time.Date(2999, 1, 2, 3, 4, 5, 0, time.FixedZone("", 7200)))
		defer cancel()
		job := newJob(`{}`)
		job.Headers = nil
		if err := run(ctx, job); err != nil {
			t.Fatal(err)
		}
		if got, want := readFile(t, out), "2999-01-02T01:04:05Z {}\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("Env replaces the worker's environment", func(t *testing.T) {
		t.Setenv("SECRET", "x")
		out := filepath.Join(t.TempDir(), "out")
		config := command.Config{
			Command: []string{"/bin/sh", "-c", `echo "$SECRET$OWN$LATER_JOB_ID" >"$0"`, out},
			Env:     []string{"OWN=y"},
		}
		if err := runConfig(t, config, newJob(`{}`)); err != nil {
			t.Fatal(err)
		}
		if got, want := readFile(t, out), "y42\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("a command that never reads its input is not waited for", func(t *testing.T) {
		huge := `"` + strings.Repeat("x", 9<<20) + `"`
		for script, want := range map[string]string{"exit 0": "done", "exec <&-; sleep 0.2; exit 1": "retry"} {
			err := runConfig(t, command.Config{Command: []string{"/bin/sh", "-c", script}}, newJob(huge))
			if got := verdict(err); got != want {
				t.Errorf("%s: got %s, want %s (%v)", script, got, want, err)
			}
		}
	})
	t.Run("a command that reads all of a large input gets all of it", func(t *testing.T) {
		huge := `"` + strings.Repeat("x", 9<<20) + `"`
		err := runConfig(t, command.Config{Command: []string{"/bin/sh", "-c", `test $(wc -c) = 9437186`}}, newJob(huge))
		if err != nil {
			t.Error(err)
		}
	})
}

func TestOutput(t *testing.T) {
	t.Run("of endless output only the end is kept", func(t *testing.T) {
		err := sh(t, "head -c 1000000000 /dev/zero; echo; echo later: after 7s; exit 1")
		if got, want := verdict(err), "retry after 7s"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		var exit *command.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("got %T, want an *ExitError in the chain", err)
		}
		if got, want := len(exit.Stdout), command.DefaultMaxOutput; got != want {
			t.Errorf("kept %d bytes, want %d", got, want)
		}
		if cap(exit.Stdout) > 4*command.DefaultMaxOutput {
			t.Errorf("%d bytes are held for them", cap(exit.Stdout))
		}
	})
	t.Run("an error shows the tail of standard error", func(t *testing.T) {
		err := sh(t, `i=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1`)
		text := err.Error()
		if len(text) > later.MaxErrorBytes {
			t.Errorf("the error has %d bytes; its end would be cut off", len(text))
		}
		if !strings.HasPrefix(text, "exit code 1: …line ") || !strings.HasSuffix(text, "\nline 1999") {
			t.Errorf("got %q", text)
		}
	})
	t.Run("an error is valid text whatever was written", func(t *testing.T) {
		// Case 2: NUL and invalid bytes in an error's text.
		err := sh(t, `printf 'boom\000 caf\351' >&2; exit 1`)
		if got, want := err.Error(), "exit code 1: boom␀ caf\uFFFD"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		err = sh(t, `printf 'later: because boom\000 caf\351' ; exit 1`)
		if got, want := err.Error(), "exit code 1: boom␀ caf\uFFFD"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("MaxOutput bounds both streams", func(t *testing.T) {
		config := command.Config{Command: []string{"/bin/sh", "-c", "echo 123456789; echo abcdefghi >&2; exit 1"}, MaxOutput: 4}
		var exit *command.ExitError
		if err := runConfig(t, config, newJob(`{}`)); !errors.As(err, &exit) {
			t.Fatalf("got %v, want an *ExitError", err)
		}
		if got, want := string(exit.Stdout)+string(exit.Stderr), "789\nghi\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if exit.Code != 1 {
			t.Errorf("got code %d, want 1", exit.Code)
		}
	})
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		config command.Config
		want   string
	}{
		{"no command", command.Config{}, "command: Command is empty"},
		{"an empty program", command.Config{Command: []string{""}}, "command: Command is empty"},
		{"a NUL byte", command.Config{Command: []string{"/bin/sh", "a\x00b"}}, "command: Command has a NUL byte"},
		{"a negative MaxOutput", command.Config{Command: []string{"/bin/sh"}, MaxOutput: -1}, "command: MaxOutput is -1; it must not be negative"},
		{"a negative KillAfter", command.Config{Command: []string{"/bin/sh"}, KillAfter: -1}, "command: KillAfter is -1ns; it must not be negative"},
		{"a missing program", command.Config{Command: []string{"no-such-program-anywhere"}}, `command: "no-such-program-anywhere" was not found`},
		{"a missing path", command.Config{Command: []string{"./nothing"}, Dir: dir}, `command: "./nothing" was not found`},
		{"a file that is not executable", command.Config{Command: []string{"./plain"}, Dir: dir}, `command: "./plain" may not be executed: permission denied`},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			_, err := command.New(c.config)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("a relative program is relative to Dir", func(t *testing.T) {
		script := filepath.Join(dir, "ok.sh")
		if err := os.Symlink("/bin/true", script); err != nil {
			t.Fatal(err)
		}
		if err := runConfig(t, command.Config{Command: []string{"./ok.sh"}, Dir: dir}, newJob(`{}`)); err != nil {
			t.Error(err)
		}
	})
	t.Run("a program that vanishes later is a failed attempt", func(t *testing.T) {
		script := filepath.Join(dir, "gone")
		if err := os.Symlink("/bin/true", script); err != nil {
			t.Fatal(err)
		}
		run, err := command.New(command.Config{Command: []string{script}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(script); err != nil {
			t.Fatal(err)
		}
		err = run(t.Context(), newJob(`{}`))
		if got, want := verdict(err), "retry"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if err == nil || !strings.Contains(err.Error(), "was not found") {
			t.Errorf("got %v, want that it was not found", err)
		}
	})
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

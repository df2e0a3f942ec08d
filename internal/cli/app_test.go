package cli

import (
	"bytes"
	"flag"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/later-queue/later"
)

var update = flag.Bool("update", false, "write docs/cli.md")

func allCommands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() && child.Name() != "help" {
			all = append(all, allCommands(child)...)
		}
	}
	return all
}

func newRoot() *cobra.Command {
	a := new(App)
	a.complete()
	return a.root()
}

func TestHelp(t *testing.T) {
	for _, cmd := range allCommands(newRoot()) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if len(strings.Fields(cmd.Long)) < 8 {
				t.Errorf("got %q, want a help text that teaches", cmd.Long)
			}
			for _, line := range strings.Split(cmd.Long, "\n") {
				if len([]rune(line)) > 90 {
					t.Errorf("the line %q has %d columns, want at most 90", line, len([]rune(line)))
				}
			}
			if !cmd.HasSubCommands() && cmd.Example == "" {
				t.Error("got no example")
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Usage == "" {
					t.Errorf("--%s is not explained", f.Name)
				}
			})
		})
	}
	t.Run("documents the exit codes", func(t *testing.T) {
		out := newShell(t).ok("--help")
		for _, code := range []string{"  0  ", "  1  ", "  2  ", "  3  ", "  4  ", "  5  ", "  6  ", "  130  "} {
			if !strings.Contains(out, "\n"+code) {
				t.Errorf("the help lacks the exit code %q", code)
			}
		}
	})
	t.Run("every example is a command that exists, with flags that exist", func(t *testing.T) {
		root := newRoot()
		for _, cmd := range allCommands(root) {
			for _, line := range strings.Split(cmd.Example, "\n") {
				_, line, found := strings.Cut(line, "later ")
				if !found {
					continue
				}
				words := strings.Fields(line)
				got, _, err := root.Find(words)
				if err != nil || got == root {
					t.Errorf("%s: the example %q names no command", cmd.CommandPath(), line)
					continue
				}
				for _, word := range words {
					name, isFlag := strings.CutPrefix(strings.TrimSuffix(word, ")"), "--")
					name, _, _ = strings.Cut(name, "=")
					if isFlag && got.Flag(name) == nil && root.PersistentFlags().Lookup(name) == nil {
						t.Errorf("%s: the example %q has the unknown flag --%s", cmd.CommandPath(), line, name)
					}
				}
			}
		}
	})
}

func TestDocsPage(t *testing.T) {
	const page = "../../docs/cli.md"
	var want bytes.Buffer
	if err := writeDocs(&want, newRoot()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("docs/cli.md is not what the help texts say; write it with: go run ./cmd/later docs > docs/cli.md")
	}
}

func TestUsageErrors(t *testing.T) {
	s := newShell(t)
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"enq"}, []string{`unknown command "later enq"`, `did you mean "enqueue"?`}},
		{[]string{"frobnicate"}, []string{"`later --help`"}},
		{[]string{"dead", "retri"}, []string{`"later dead retri"`, `did you mean "retry"?`}},
		{[]string{"migrate", "upp"}, []string{`did you mean "up"?`}},
		{[]string{"list", "--stat", "ready"}, []string{"unknown flag --stat", `did you mean "--state"?`, "`later list --help`"}},
		{[]string{"list", "--limit", "many"}, []string{`--limit is "many", which is no whole number; it goes from 1 to 10000`}},
		{[]string{"demo", "--seed", "x"}, []string{`--seed is "x", which is no whole number;`}},
		{[]string{"enqueue", "k", "--bulk", "-", "--from-line", "0"}, []string{"--from-line is 0; it is at least 1"}},
		{[]string{"work", "--exec", "=true"}, []string{`--exec "=true": the kind before = is empty`}},
		{[]string{"work", "--exec", "k=true", "--http-retry", "401"}, []string{"--http-retry is of use with --http only"}},
		{[]string{"work", "--http", "k=https://h.example/", "--http-retry", "401,500"}, []string{"--http-retry has 500", "400 to 499"}},
		{[]string{"work", "--http", "k=https://h.example/", "--http-retry", "no"}, []string{`--http-retry is "no", which is no whole number`}},
		{[]string{"work", "--http", "k=https://h.example/", "--http-per-host", "0"}, []string{"--http-per-host is 0; it goes from 1"}},
		{[]string{"enqueue", "k", "1", "--timeout", "30d"}, []string{"--timeout is 30d; it goes from 1ms to 24d20h"}},
		{[]string{"dead", "retry"}, []string{"no dead jobs are named; give ids"}},
		{[]string{"list", "--limit", "0"}, []string{"--limit", "1 to 10000"}},
		{[]string{"list", "--state", "redy"}, []string{`did you mean "ready"?`}},
		{[]string{"list", "--queue", "a b"}, []string{"--queue", "allowed are"}},
		{[]string{"list", "--kind", ""}, []string{"--kind is empty"}},
		{[]string{"list", "--tenant", "a\x1b"}, []string{"--tenant", "U+001B"}},
		{[]string{"list", "--before", "x"}, []string{`"x" is no job id`}},
		{[]string{"list", "extra"}, []string{"`later list` takes no arguments: \"extra\"; usage: later list"}},
		{[]string{"show"}, []string{"ID is missing; usage: later show ID"}},
		{[]string{"show", "1", "2"}, []string{`1 argument too many: "2"; usage: later show ID`}},
		{[]string{"retry"}, []string{"ID is missing; usage: later retry ID…"}},
		{[]string{"completion"}, []string{"SHELL is missing"}},
		{[]string{"enqueue", "k", "1", "2", "3\x1b"}, []string{`2 arguments too many: "2" "3\x1b"`}},
		{[]string{"show", "-1"}, []string{"-1"}},
		{[]string{"show", "0"}, []string{"is no job id"}},
		{[]string{"show", "9223372036854775808"}, []string{"is no job id"}},
		{[]string{"retry", "1", "two"}, []string{`"two" is no job id`}},
		{[]string{"dead", "list", "--reason", "fail"}, []string{`did you mean "failed"?`}},
		{[]string{"dead", "list", "--error", ""}, []string{"--error is empty"}},
		{[]string{"status", "--interval", "5s"}, []string{"--watch"}},
		{[]string{"status", "--watch", "--interval", "1ms"}, []string{"at least 100ms"}},
		{[]string{"migrate", "down"}, []string{"--to VERSION is missing"}},
		{[]string{"migrate", "down", "--to", "-1"}, []string{"--to is -1"}},
		{[]string{"completion", "csh"}, []string{"bash, zsh, fish and powershell"}},
		{[]string{"status", "--db", "postgress://x/y"}, []string{`did you mean "postgres"?`}},
		{[]string{"status", "--db", "sqlite::memory:"}, []string{"sqlite:later.db"}},
		{[]string{"status", "--schema", "x"}, []string{"--schema"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			s.t = t
			s.fails(exitUsage, c.words, c.args...)
		})
	}
	if path := strings.TrimPrefix(s.url, "sqlite:"); exists(path) {
		t.Errorf("%s was made by commands that failed", path)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestErrors(t *testing.T) {
	t.Run("a missing file says what to do, and is not made", func(t *testing.T) {
		s := newShell(t)
		for _, args := range [][]string{{"list"}, {"status"}, {"show", "1"}, {"dead", "list"}, {"workers"}, {"retry", "1"}, {"migrate", "status"}} {
			s.fails(exitSchema, []string{"no such database file", "later migrate up"}, args...)
		}
		if exists(strings.TrimPrefix(s.url, "sqlite:")) {
			t.Error("the file was made")
		}
	})
	t.Run("a command that looks does not make tables", func(t *testing.T) {
		s := newShell(t)
		if err := os.WriteFile(strings.TrimPrefix(s.url, "sqlite:"), nil, 0o600); err != nil { // an empty database
			t.Fatal(err)
		}
		for range 2 {
			s.fails(exitSchema, []string{"later migrate up"}, "list")
		}
		s.ok("migrate", "up")
		s.ok("list")
	})
	t.Run("a URL that is wrong names the variable that it came from", func(t *testing.T) {
		s := newShell(t)
		s.url = "foo"
		s.fails(exitUsage, []string{`LATER_DB: `, `"foo" has no scheme`}, "list")
		s.fails(exitUsage, []string{`later: invalid database URL: "bar" has no scheme`}, "list", "--db", "bar")
	})
	t.Run("tables that do not fit say what to do, in the words of the command", func(t *testing.T) {
		for _, s := range []*shell{newShell(t), postgresShell(t)} {
			s.ok("migrate", "up")
			s.ok("migrate", "down", "--to", "0", "--yes")
			r := s.fails(exitSchema, []string{"later migrate up"}, "list")
			for _, word := range []string{later.ErrSchema.Error(), "NoMigrate"} {
				if strings.Contains(r.err, word) {
					t.Errorf("got %q, want it without %q", r.err, word)
				}
			}
			s.fails(exitUsage, []string{"--to is 99; versions go from 0"}, "migrate", "down", "--to", "99")
		}
	})
	t.Run("a Postgres database that does not exist is told in the server's words", func(t *testing.T) {
		s := postgresShell(t)
		u, err := url.Parse(s.url)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/nosuch"
		s.url = u.String()
		r := s.fails(exitUnavailable, nil, "list")
		if want := "later: database \"nosuch\" does not exist; is --db right?\n"; r.err != want {
			t.Errorf("got %q, want %q", r.err, want)
		}
	})
	t.Run("are JSON with --json, also when the flags are wrong", func(t *testing.T) {
		s := newShell(t)
		s.ok("migrate", "up")
		r := s.run("show", "77", "--json")
		if p := problemOf(t, r); p.Error.Code != "not_found" || p.Error.Exit != 3 || r.code != 3 || p.Error.Next == "" {
			t.Errorf("got %+v and exit code %d", p, r.code)
		}
		r = s.run("show", "--nonsense", "77", "--json")
		if p := problemOf(t, r); p.Error.Code != "usage" || p.Error.Exit != 2 || r.code != 2 {
			t.Errorf("got %+v and exit code %d", p, r.code)
		}
		r = s.run("enqueue", "k", `{"a":"\ud800"}`, "--json")
		if p := problemOf(t, r); p.Error.Field != "payload" || p.Error.Path != "$.a" || r.code != 2 {
			t.Errorf("got %+v and exit code %d", p, r.code)
		}
	})
	t.Run("a database that cannot be reached is exit code 5", func(t *testing.T) {
		s := newShell(t)
		s.url = "postgres://bob:hush@127.0.0.1:1/x?sslmode=disable"
		r := s.fails(exitUnavailable, []string{"does the database run"}, "list")
		if strings.Contains(r.err, "hush") {
			t.Errorf("the error shows the password: %s", r.err)
		}
	})
}

func TestVersion(t *testing.T) {
	s := newShell(t)
	if got := s.ok("version"); !strings.HasPrefix(got, "later ") {
		t.Errorf("got %q", got)
	}
	if got, want := s.ok("--version"), s.ok("version"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := decode[map[string]string](t, s.ok("version", "--json")); got["go"] == "" {
		t.Errorf("got %v, want the version of Go", got)
	}
}

func TestCompletion(t *testing.T) {
	s := newShell(t)
	s.ok("enqueue", "order.confirm", "1", "--queue", "mail")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"li"}, []string{"list"}},
		{[]string{"list", "--state", ""}, states},
		{[]string{"list", "--queue", ""}, []string{"mail"}},
		{[]string{"list", "--kind", ""}, []string{"order.confirm"}},
		{[]string{"enqueue", ""}, []string{"order.confirm"}},
		{[]string{"--db", ""}, []string{"sqlite:", "postgres://"}},
		{[]string{"completion", ""}, shells},
	} {
		out := s.run(append([]string{"__complete"}, c.args...)...).out
		for _, want := range c.want {
			if !strings.Contains("\n"+out, "\n"+want) {
				t.Errorf("completion of %q: got %q, want %q", c.args, out, want)
			}
		}
	}
	t.Run("of a database that is not there completes nothing", func(t *testing.T) {
		s := newShell(t)
		if out := s.run("__complete", "list", "--queue", "").out; !strings.HasPrefix(out, ":") {
			t.Errorf("got %q, want nothing", out)
		}
	})
	for _, shell := range shells {
		if out := s.ok("completion", shell); !strings.Contains(out, "later") {
			t.Errorf("completion %s: got %q", shell, out)
		}
	}
}

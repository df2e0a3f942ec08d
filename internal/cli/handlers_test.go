package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a command enqueues gets into the worker's own database, whatever named it
// and whatever folder the command is in.
func TestExecDatabase(t *testing.T) {
	run := func(t *testing.T, s *shell, args ...string) (db, schema string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		s.t = t
		for _, command := range []string{"work --until-empty", "drain"} {
			s.ok(append([]string{"enqueue", "k", "1"}, args...)...)
			words := append(strings.Fields(command), "--exec", `k=(echo "$LATER_DB"; echo "$LATER_SCHEMA"; env | grep -c '^LATER_DB=') > '`+out+`'`)
			if r := s.run(append(words, args...)...); r.code != 0 || !strings.Contains(r.out, "done 1") {
				t.Fatalf("later %s: got %+v", command, r)
			}
		}
		lines := strings.Split(read(t, out), "\n")
		if len(lines) != 4 || lines[2] != "1" {
			t.Fatalf("got %q, want LATER_DB once", lines)
		}
		return lines[0], lines[1]
	}
	t.Setenv(dbVariable, "sqlite:/elsewhere/wrong.db")
	t.Setenv(schemaVariable, "wrong")
	for _, flag := range []bool{true, false} {
		t.Run(fmt.Sprintf("SQLite, by the flag: %v", flag), func(t *testing.T) {
			s := newShell(t)
			dir := t.TempDir()
			t.Chdir(dir)
			var args []string
			if flag {
				args = []string{"--db", "sqlite:some.db"}
			} else {
				s.url = "sqlite:some.db"
			}
			dir, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			if db, schema := run(t, s, args...); db != "sqlite:"+filepath.Join(dir, "some.db") || schema != "" {
				t.Errorf("got %q and the schema %q", db, schema)
			}
		})
	}
	t.Run("Postgres, by the flags", func(t *testing.T) {
		s := postgresShell(t)
		s.ok("migrate", "up")
		url, name := s.url, s.env[schemaVariable]
		s.url, s.env[schemaVariable] = "sqlite:wrong.db", "wrong"
		if db, schema := run(t, s, "--db", url, "--schema", name); db != url || schema != name {
			t.Errorf("got %q and the schema %q, want %q and %q", db, schema, url, name)
		}
	})
}

package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/internal/testdb"
)

func TestListenFlags(t *testing.T) {
	s := newShell(t)
	work := func(more ...string) []string { return append([]string{"work", "--exec", "k=true"}, more...) }
	t.Run("are refused where they are of no use, before a file is made", func(t *testing.T) {
		for _, c := range []struct {
			words []string
			args  []string
		}{
			{[]string{"--listen-url", "of use with Postgres only"}, work("--listen-url", "postgres://h/d")},
			{[]string{"--no-listen", "of use with Postgres only"}, work("--no-listen")},
			{[]string{"--listen-url and --no-listen exclude each other"}, work("--no-listen", "--listen-url", "postgres://h/d")},
			{[]string{"--listen-url", "--until-empty"}, work("--until-empty", "--listen-url", "postgres://h/d")},
			{[]string{"--no-listen", "--until-empty"}, work("--until-empty", "--no-listen")},
			{[]string{"unknown flag --no-listen"}, []string{"drain", "--exec", "k=true", "--no-listen"}},
			{[]string{"--listen-url is empty", "postgres://user@host/name"}, work("--listen-url", "")},
			{[]string{"right is postgres://user@host/name"}, work("--db", "postgres://127.0.0.1:1/d", "--listen-url", "later.db")},
		} {
			s.fails(exitUsage, c.words, c.args...)
		}
		if exists(strings.TrimPrefix(s.url, "sqlite:")) {
			t.Error("the file was made")
		}
	})
	t.Run("are given to the store, and a flag goes before the variable", func(t *testing.T) {
		enough := errors.New("enough")
		for _, c := range []struct {
			variable string
			args     []string
			want     open.Config
		}{
			{"", nil, open.Config{}},
			{"postgres://v/d", nil, open.Config{ListenURL: "postgres://v/d"}},
			{"postgres://v/d", []string{"--listen-url", "postgres://f/d"}, open.Config{ListenURL: "postgres://f/d"}},
			{"postgres://v/d", []string{"--no-listen"}, open.Config{NoListen: true}},
			{"postgres://v/d", []string{"--until-empty"}, open.Config{}},
			{"postgres://v/d", []string{"--db", s.url}, open.Config{}}, // a shell in which both kinds are used
		} {
			var got open.Config
			s := *s
			s.env = map[string]string{listenVariable: c.variable}
			s.change = func(a *App) {
				a.Open = func(_ context.Context, _ string, config open.Config) (later.Store, error) {
					got = config
					return nil, enough
				}
			}
			if r := s.run(append(work("--db", "postgres://h/d"), c.args...)...); !strings.Contains(r.err, enough.Error()) {
				t.Errorf("%q: got %+v", c.args, r)
			}
			if got.ListenURL != c.want.ListenURL || got.NoListen != c.want.NoListen {
				t.Errorf("%s=%s and %q: got %q and %v, want %q and %v", listenVariable, c.variable, c.args, got.ListenURL, got.NoListen, c.want.ListenURL, c.want.NoListen)
			}
		}
	})
	t.Run("the error for a wrong URL in the variable names it, and shows no password", func(t *testing.T) {
		s := newShell(t)
		s.env[listenVariable] = "postgres://bob:hush123@h:port/d"
		r := s.fails(exitUsage, []string{listenVariable + ": ", "cannot be read"}, work("--db", "postgres://127.0.0.1:1/d")...)
		if strings.Contains(r.err, "hush123") {
			t.Errorf("got %q", r.err)
		}
	})
}

// A worker behind a pooler that passes no notifications on hears of jobs where it is told to
// listen. While it does it holds a lock there.
func TestWorkListens(t *testing.T) {
	direct := testdb.Postgres(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, direct)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	const waiting = `
select count(*)
from pg_locks as l
join pg_stat_activity as a using (pid)
where l.locktype = 'advisory' and a.application_name = $1 || ' later listen'`
	s := postgresShell(t)
	s.ok("migrate", "up")
	name := s.env["LATER_SCHEMA"]
	pooled := testdb.PgBouncer(t) + "&default_query_exec_mode=exec"
	p := s.start("work", "--db", pooled, "--listen-url", direct+"&application_name="+name, "--exec", "k=true", "--poll", "1h")
	eventually(t, "the worker waits and hears", func() bool {
		var locks int
		if err := conn.QueryRow(ctx, waiting, name).Scan(&locks); err != nil {
			t.Fatal(err)
		}
		return locks > 0
	})
	s.ok("enqueue", "k", "1")
	eventually(t, "the job has ended, long before the next poll", func() bool { return s.state(1) == later.StateEnded })
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 0 || strings.Contains(p.err.String(), "WARN") {
		t.Errorf("got exit code %d and %s", code, p.err.String())
	}
}

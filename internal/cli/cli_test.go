package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/internal/testdb"
)

// beCommand makes the test binary be the command itself: so tests start real
// processes with no other build.
const beCommand = "LATER_TEST_BE_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(beCommand) != "" {
		os.Exit(new(App).Run(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// shell runs commands against one database.
type shell struct {
	t   *testing.T
	url string
	env map[string]string
	in  string // standard input of the next command
	// change changes the app before each command.
	change func(a *App)

	opened later.Store // of find
}

// newShell has a database file in an empty folder, not made yet.
func newShell(t *testing.T) *shell {
	return &shell{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "later.db"), env: map[string]string{}}
}

// postgresShell has a schema that is not made yet.
func postgresShell(t *testing.T) *shell {
	s := newShell(t)
	s.url = testdb.Postgres(t)
	s.env["LATER_SCHEMA"] = testdb.Schema(t, s.url)
	return s
}

type result struct {
	code     int
	out, err string
}

func (s *shell) run(args ...string) result {
	s.t.Helper()
	var out, errs bytes.Buffer
	a := &App{In: strings.NewReader(s.in), Out: &out, Err: &errs, Env: func(name string) string {
		if value, ok := s.env[name]; ok {
			return value
		}
		if name == "LATER_DB" {
			return s.url
		}
		return ""
	}}
	if s.change != nil {
		s.change(a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	code := a.Run(ctx, args)
	s.in = ""
	return result{code: code, out: out.String(), err: errs.String()}
}

// ok runs a command that must succeed, and returns its output.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != 0 || r.err != "" {
		s.t.Fatalf("later %s: exit code %d, want 0\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// fails runs a command that must end with the code and name each of words in
// one line of standard error.
func (s *shell) fails(code int, words []string, args ...string) result {
	s.t.Helper()
	r := s.run(args...)
	if r.code != code {
		s.t.Errorf("later %s: exit code %d, want %d: %s", strings.Join(args, " "), r.code, code, r.err)
	}
	if strings.Count(r.err, "\n") != 1 || !strings.HasSuffix(r.err, "\n") {
		s.t.Errorf("later %s: got the error %q, want one line", strings.Join(args, " "), r.err)
	}
	for _, word := range words {
		if !strings.Contains(r.err, word) {
			s.t.Errorf("later %s: got %q, want %q in it", strings.Join(args, " "), r.err, word)
		}
	}
	return r
}

// find returns a job as it is stored.
func (s *shell) find(id int64) *later.JobInfo {
	s.t.Helper()
	if s.opened == nil {
		s.opened = s.store()
	}
	job, err := s.opened.Find(context.Background(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return job
}

// claim leases up to n jobs of a kind in the default queue.
func claim(t *testing.T, store later.Store, kind string, n int) []*later.Claimed {
	t.Helper()
	jobs, err := store.Claim(context.Background(), later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: n}}, Limit: n, Kinds: []string{kind},
		Worker: "w1", Token: later.NewToken(), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// kill makes dead jobs of all that are due of a kind.
func kill(t *testing.T, store later.Store, kind string, reason later.DeadReason, text string) {
	t.Helper()
	for {
		jobs := claim(t, store, kind, 100)
		if len(jobs) == 0 {
			return
		}
		var ends []later.Settlement
		for _, j := range jobs {
			ends = append(ends, later.Settlement{Lease: j.Lease, Outcome: later.OutcomeDead, Reason: reason, Error: text,
				Errors: later.AppendError(j.Errors, later.AttemptError{Attempt: j.Attempt, At: time.Now(), Worker: "w1", Error: text})})
		}
		if refused, err := store.Settle(context.Background(), ends); err != nil || len(refused) > 0 {
			t.Fatalf("settle: %v, %v", refused, err)
		}
	}
}

// decode reads JSON output.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// problemOf reads an error in JSON.
func problemOf(t *testing.T, r result) problemView {
	t.Helper()
	return decode[problemView](t, r.err)
}

// store opens the shell's database beside its commands.
func (s *shell) store() later.Store {
	s.t.Helper()
	store, err := open.StoreWith(context.Background(), s.url, open.Config{Schema: s.env["LATER_SCHEMA"]})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := store.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return store
}

type opener = func(ctx context.Context, url string, config open.Config) (later.Store, error)

// wrapOpen puts something around each store that is opened.
func wrapOpen(inner opener, wrap func(later.Store) later.Store) opener {
	return func(ctx context.Context, url string, config open.Config) (later.Store, error) {
		store, err := inner(ctx, url, config)
		if err != nil {
			return nil, err
		}
		return wrap(store), nil
	}
}

// Package guide tests that what the documentation tells people to do works.
package guide

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
	"github.com/later-queue/later/sqlite"
)

// blocks returns the code blocks of a language under a heading of docs/sql.md,
// or of the whole page.
func blocks(t *testing.T, language, heading string) []string {
	t.Helper()
	return pageBlocks(t, "sql.md", language, heading)
}

// pageBlocks is blocks of another page in docs.
func pageBlocks(t *testing.T, name, language, heading string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if heading != "" {
		_, after, found := strings.Cut(text, "\n## "+heading+"\n")
		if !found {
			t.Fatalf("docs/%s has no heading %q", name, heading)
		}
		text, _, _ = strings.Cut(after, "\n## ")
	}
	var found []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	if len(found) == 0 {
		t.Fatalf("docs/%s has no %s under %q", name, language, heading)
	}
	return found
}

// statements splits a block at the semicolons that end its statements.
func statements(block string) []string {
	var list []string
	for _, s := range strings.SplitAfter(block, ";\n") {
		if strings.TrimSpace(s) != "" {
			list = append(list, s)
		}
	}
	return list
}

// place is a Postgres store in a schema of its own with the page's job 42.
type place struct {
	store  *postgres.Store
	db     *sql.DB
	schema string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	url := testdb.Postgres(t)
	p := &place{schema: testdb.Schema(t, url)}
	var err error
	if p.store, err = postgres.Open(t.Context(), url, postgres.Config{Schema: p.schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.store.Close() })
	if err := p.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.db, err = sql.Open("pgx", url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.db.Close() })
	return p
}

// exec runs statements of the page, which says "later." for the schema.
func (p *place) exec(t *testing.T, text string) {
	t.Helper()
	for _, s := range statements(text) {
		if _, err := p.db.ExecContext(t.Context(), p.inSchema(s)); err != nil {
			t.Fatalf("%v in\n%s", err, s)
		}
	}
}

// inSchema is a statement of the page for the test's own schema.
func (p *place) inSchema(statement string) string {
	return strings.NewReplacer("later.", p.schema+".", "schema later ", "schema "+p.schema+" ").Replace(statement)
}

// job42 enqueues job 42.
func (p *place) job42(t *testing.T, kind string) {
	t.Helper()
	p.exec(t, `alter table later.job alter column id restart with 42;`)
	p.exec(t, `insert into later.job (kind) values ('`+kind+`');`)
}

func (p *place) claim(t *testing.T, kind string) *later.Claimed {
	t.Helper()
	jobs, err := p.store.Claim(t.Context(), later.ClaimRequest{
		Queues: []later.QueueLimit{{Queue: "default", Limit: 1}}, Limit: 1, Kinds: []string{kind},
		Worker: "w", Token: later.NewToken(), Lease: time.Minute,
	})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("claim: got %v, %v, want one job", jobs, err)
	}
	return jobs[0]
}

func (p *place) settle(t *testing.T, s later.Settlement) (refused int) {
	t.Helper()
	lost, err := p.store.Settle(t.Context(), []later.Settlement{s})
	if err != nil {
		t.Fatal(err)
	}
	return len(lost)
}

func TestPlainSQL(t *testing.T) {
	t.Run("every statement of the page runs on Postgres", func(t *testing.T) {
		p := newPlace(t)
		p.job42(t, "order.confirm")
		for _, block := range blocks(t, "sql", "") {
			p.exec(t, block)
		}
	})

	t.Run("every statement of the page runs on SQLite", func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "later.db"), sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		conn, err := store.DB().Conn(t.Context()) // for the page's own transaction
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, block := range blocks(t, "sqlite", "SQLite") {
			for _, s := range statements(block) {
				if _, err := conn.ExecContext(t.Context(), s); err != nil {
					t.Fatalf("%v in\n%s", err, s)
				}
			}
		}
	})

	t.Run("a retried dead job runs again under its id", func(t *testing.T) {
		p := newPlace(t)
		p.job42(t, "order.confirm")
		c := p.claim(t, "order.confirm")
		p.settle(t, later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDead, Reason: later.DeadFailed, Error: "x",
			Errors: []later.AttemptError{{Attempt: 1, Error: "x"}}})
		p.exec(t, blocks(t, "sql", "Retry")[1])
		again := p.claim(t, "order.confirm")
		if again.ID != 42 || again.Attempt != 1 || again.Generation != 1 || len(again.Errors) != 1 {
			t.Errorf("got %+v, want job 42 at attempt 1, generation 1, with its error", again.Record)
		}
	})

	t.Run("a cancelled waiting job is ended by the next sweep", func(t *testing.T) {
		p := newPlace(t)
		p.job42(t, "x")
		p.exec(t, blocks(t, "sql", "Cancel")[0])
		doomed, err := p.store.Sweep(t.Context(), later.SweepRequest{
			Limit: 10, Queues: []string{"default"}, Kinds: []string{"x"}, Worker: "w", Token: later.NewToken(), Lease: time.Minute})
		if err != nil || len(doomed) != 1 || doomed[0].Doom != later.DoomCancelled {
			t.Errorf("got %v, %v, want one cancelled job", doomed, err)
		}
	})

	t.Run("a cancelled running job is told to its worker", func(t *testing.T) {
		p := newPlace(t)
		p.job42(t, "x")
		c := p.claim(t, "x")
		p.exec(t, blocks(t, "sql", "Cancel")[0])
		asked, err := p.store.CancelRequests(t.Context(), []later.Lease{c.Lease})
		if err != nil || len(asked) != 1 {
			t.Errorf("got %v, %v, want the lease", asked, err)
		}
	})

	t.Run("a job that was freed from its worker refuses that worker's result", func(t *testing.T) {
		p := newPlace(t)
		p.job42(t, "x")
		first := p.claim(t, "x")
		p.exec(t, blocks(t, "sql", "Unstick")[0])
		second := p.claim(t, "x")
		if got := p.settle(t, later.Settlement{Lease: first.Lease, Outcome: later.OutcomeDone}); got != 1 {
			t.Errorf("got %d refused results of the old worker, want 1", got)
		}
		if got := p.settle(t, later.Settlement{Lease: second.Lease, Outcome: later.OutcomeDone}); got != 0 {
			t.Errorf("got %d refused results of the new worker, want none", got)
		}
	})

	t.Run("a deleted job refuses its worker's result", func(t *testing.T) {
		p := newPlace(t)
		p.job42(t, "x")
		c := p.claim(t, "x")
		p.exec(t, `delete from later.job where id = 42;`)
		if got := p.settle(t, later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDone}); got != 1 {
			t.Errorf("got %d refused results, want 1", got)
		}
		if _, err := p.store.Find(context.WithoutCancel(t.Context()), 42); !errors.Is(err, later.ErrNotFound) {
			t.Errorf("got %v, want %v", err, later.ErrNotFound)
		}
	})
}

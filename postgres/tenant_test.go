package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/later-queue/later"
)

const tenantNow = "select coalesce(current_setting('later.tenant', true), '')"

func TestTenantTx(t *testing.T) {
	s := openShop(t)
	for _, way := range tenantWays(t, s.schema, s.url, 1) {
		t.Run(way.name, func(t *testing.T) {
			t.Run("sees the tenant's rows and no others", func(t *testing.T) { s.testSees(t, way) })
			t.Run("cannot write another tenant's", func(t *testing.T) { s.testWrites(t, way) })
			t.Run("a row that names no tenant is the job's", func(t *testing.T) { s.testDefault(t, way) })
			t.Run("nothing of it is left on the connection", func(t *testing.T) { s.testGone(t, way) })
			t.Run("whoever does without it sees nothing", func(t *testing.T) { s.testForgotten(t, way) })
			t.Run("a tenant's name is no SQL", func(t *testing.T) { s.testNames(t, way) })
			t.Run("the function's error comes back as it is", func(t *testing.T) { s.testErrors(t, way) })
			t.Run("the job ends with its effects or not at all", func(t *testing.T) { s.testDone(t, way) })
		})
	}
}

func (s *shop) testSees(t *testing.T, way tenantWay) {
	s.stock()
	for tenant, want := range map[string]string{"acme": "a1, a2", "globex": "g1", "initech": "", "ACME": "", "acm_": ""} {
		err := way.run(t.Context(), of(tenant), func(tx tenantTx) error {
			if got, err := tx.ask(tenantNow); got != tenant || err != nil {
				t.Errorf("the setting: got %q, %v, want %q", got, err, tenant)
			}
			got, err := tx.ask(s.seen())
			if got != want {
				t.Errorf("%s: got %q, want %q", tenant, got, want)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", tenant, err)
		}
	}
}

func (s *shop) testWrites(t *testing.T, way tenantWay) {
	s.stock()
	before := s.all()
	for _, c := range []struct {
		statement string
		code      string // "" is no error and no row
	}{
		{"update " + s.note() + " set text = 'x' where tenant = 'globex'", ""},
		{"delete from " + s.note() + " where tenant = 'globex'", ""},
		{"insert into " + s.note() + " (tenant, text) values ('globex', 'x')", "42501"},
		{"update " + s.note() + " set tenant = 'globex' where tenant = 'acme'", "42501"},
	} {
		var rows int64
		err := way.run(t.Context(), of("acme"), func(tx tenantTx) (err error) {
			rows, err = tx.exec(c.statement)
			return err
		})
		if got := sqlState(err); rows != 0 || got != c.code {
			t.Errorf("%s: got %d rows and the code %q, %v; want no row and %q", c.statement, rows, got, err, c.code)
		}
	}
	if got := s.all(); got != before {
		t.Errorf("got %s, want %s", got, before)
	}
}

func sqlState(err error) string {
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}

func (s *shop) testDefault(t *testing.T, way tenantWay) {
	s.stock()
	insert := "insert into " + s.note() + " (text) values ('new')"
	err := way.run(t.Context(), of("globex"), func(tx tenantTx) error {
		_, err := tx.exec(insert)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.all(), "acme a1, acme a2, globex g1, globex new"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := way.outside(insert + " returning text"); err == nil {
		t.Error("an insert without a tenant: got no error")
	}
}

// One connection serves all of it, so what one transaction left the next would see.
func (s *shop) testGone(t *testing.T, way tenantWay) {
	s.stock()
	oops := errors.New("oops")
	const session = "select pg_backend_pid()::text"
	for _, c := range []struct {
		name string
		end  func() error // of the function
		kept bool         // what it did
	}{
		{"committed", func() error { return nil }, true},
		{"an error", func() error { return oops }, false},
		{"a panic", func() error { panic(oops) }, false},
		{"the end of its goroutine", func() error { runtime.Goexit(); return nil }, false},
	} {
		before, err := way.outside(session)
		if err != nil {
			t.Fatal(err)
		}
		text := "after " + c.name
		ran := make(chan bool, 1)
		var panicked any
		go func() {
			defer close(ran)
			defer func() { panicked = recover() }()
			_ = way.run(t.Context(), of("acme"), func(tx tenantTx) error {
				if _, err := tx.exec("insert into "+s.note()+" (text) values ($1)", text); err != nil {
					return err
				}
				ran <- true
				return c.end()
			})
		}()
		if !<-ran {
			t.Fatalf("%s: the insert failed", c.name)
		}
		<-ran
		if (panicked != nil) != (c.name == "a panic") {
			t.Errorf("%s: got the panic %v", c.name, panicked)
		}
		if got, err := way.outside(session); got != before || err != nil {
			t.Errorf("%s: got the session %s, %v, want %s again", c.name, got, err, before)
		}
		if got, err := way.outside(tenantNow); got != "" || err != nil {
			t.Errorf("%s: got the tenant %q, %v, want none", c.name, got, err)
		}
		if got, err := way.outside(s.seen()); got != "" || err != nil {
			t.Errorf("%s: got the rows %q, %v, want none", c.name, got, err)
		}
		if got := strings.Contains(s.all(), text); got != c.kept {
			t.Errorf("%s: what it did is there: got %t, want %t", c.name, got, c.kept)
		}
	}

	for _, end := range []error{nil, oops} {
		before, err := way.outside(session)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = way.run(ctx, of("acme"), func(tx tenantTx) error {
			if _, err := tx.exec("insert into " + s.note() + " (text) values ('too late')"); err != nil {
				return err
			}
			cancel()
			tx.awaitEnd()
			return end
		})
		if end == nil && (!errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "itself")) || end != nil && err != end {
			t.Errorf("its context has ended, the function returned %v: got %v, want %v or that", end, err, context.Canceled)
		}
		if got, err := way.outside(tenantNow); got != "" || err != nil {
			t.Errorf("its context has ended: got the tenant %q, %v, want none", got, err)
		}
		// The drivers of database/sql give the connection up, and so does pgx that was to commit.
		if got, err := way.outside(session); err != nil || end != nil && way.name == "pgxpool" && got != before {
			t.Errorf("its context has ended: got the session %s, %v, want %s again", got, err, before)
		}
		if strings.Contains(s.all(), "too late") {
			t.Error("its context has ended: what it did is there")
		}
	}
}

// The session has had tenants before; the setting is empty then and not null.
func (s *shop) testForgotten(t *testing.T, way tenantWay) {
	s.stock()
	if got, err := way.outside(s.seen()); got != "" || err != nil {
		t.Errorf("got %q, %v, want no rows", got, err)
	}
	s.do("insert into " + s.note() + " (tenant, text) values ('', 'nobody''s')")
	if got, err := way.outside(s.seen()); got != "" || err != nil {
		t.Errorf("with a row of nobody's: got %q, %v, want no rows", got, err)
	}
}

// Case 16, for tenants.
func (s *shop) testNames(t *testing.T, way tenantWay) {
	names := []string{
		`a'b`, `a''b`, `'; drop table note; --`, `a"b`, "a`b", `a\b`, `a\'b`, `$1`, `$$`, `%s`, `a%`, `{a}`, `*`, `null`, `a b`,
		"caf\u00e9", "cafe\u0301", `😀`, `' or ''='`, strings.Repeat("é", later.MaxTenantBytes/2),
	}
	s.do("truncate " + s.note())
	for i, name := range names {
		s.do("insert into "+s.note()+" (tenant, text) values ($1, $2)", name, fmt.Sprint(i))
	}
	for i, name := range names {
		err := way.run(t.Context(), of(name), func(tx tenantTx) error {
			got, err := tx.ask(s.seen())
			if got != fmt.Sprint(i) {
				t.Errorf("%q: got the rows %q, want %d", name, got, i)
			}
			return err
		})
		if err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func (s *shop) testErrors(t *testing.T, way tenantWay) {
	s.stock()
	oops := errors.New("oops")
	if err := way.run(t.Context(), of("acme"), func(tenantTx) error { return oops }); err != oops {
		t.Errorf("got %v, want %v itself", err, oops)
	}
	err := way.run(t.Context(), of("acme"), func(tx tenantTx) error {
		_, _ = tx.exec("select 1/0") // as if it did not matter
		return nil
	})
	if err == nil {
		t.Error("a function that passed over an SQL error: got no error, want one of the commit")
	}
	err = way.run(t.Context(), of("acme"), func(tx tenantTx) error { return tx.end() })
	if err == nil || !strings.Contains(err.Error(), "ended the transaction itself") || !strings.Contains(err.Error(), "job 7") {
		t.Errorf("a function that committed: got %v, want an error that says so", err)
	}
}

func (s *shop) testDone(t *testing.T, way tenantWay) {
	s.stock()
	effect := func(tx tenantTx, job later.Held) error {
		if _, err := tx.exec("insert into " + s.note() + " (text) values ('effect')"); err != nil {
			return err
		}
		return tx.done(job)
	}
	effects := func() int { return strings.Count(s.all(), "acme effect") }

	job := s.job("acme")
	oops := errors.New("oops")
	err := way.run(t.Context(), job, func(tx tenantTx) error {
		if err := effect(tx, job); err != nil {
			t.Errorf("an effect and the job's end: %v", err)
		}
		return oops
	})
	if err != oops || effects() != 0 || s.find(job.ID).State != later.StateRunning {
		t.Errorf("an error: got %v, %d effects, the job %s; want none, running", err, effects(), s.find(job.ID).State)
	}
	stale := *job
	stale.Lease.Token++
	err = way.run(t.Context(), &stale, func(tx tenantTx) error { return effect(tx, &stale) })
	if !errors.Is(err, later.ErrLeaseLost) || effects() != 0 {
		t.Errorf("a lease that is lost: got %v, %d effects, want %v and none", err, effects(), later.ErrLeaseLost)
	}
	err = way.run(t.Context(), job, func(tx tenantTx) error { return effect(tx, job) })
	if err != nil || effects() != 1 {
		t.Errorf("got %v, %d effects, want 1", err, effects())
	}
	if log := s.find(job.ID).Log; len(log) != 1 || log[0].Outcome != later.OutcomeDone {
		t.Errorf("got the log %+v, want one entry, done", log)
	}
	if got := ask[int](s.db, "select count(*) from "+s.table("job")); got != 0 {
		t.Errorf("got %d jobs left, want none", got)
	}
}

// Many handlers at once share a few connections.
func TestTenantTxAtOnce(t *testing.T) {
	s := openShop(t)
	for _, way := range tenantWays(t, s.schema, s.url, 3) {
		t.Run(way.name, func(t *testing.T) { s.testAtOnce(t, way) })
	}
}

func (s *shop) testAtOnce(t *testing.T, way tenantWay) {
	var handlers sync.WaitGroup
	for i := range 8 {
		handlers.Go(func() {
			tenant, want := "acme", "a1, a2"
			if i%2 == 1 {
				tenant, want = "globex", "g1"
			}
			for range 20 {
				err := way.run(t.Context(), of(tenant), func(tx tenantTx) error {
					got, err := tx.ask(s.seen())
					if got != want {
						t.Errorf("%s: got %q, want %q", tenant, got, want)
					}
					return err
				})
				if err != nil {
					t.Errorf("%s: %v", tenant, err)
				}
				if got, err := way.outside(s.seen()); got != "" || err != nil {
					t.Errorf("outside: got %q, %v, want no rows", got, err)
				}
			}
		})
	}
	handlers.Wait()
}

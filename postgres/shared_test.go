package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

// crowd has n callers call at once, and returns when all have their answers.
func crowd(n int, call func(i int)) {
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { call(i) })
	}
	calls.Wait()
}

// countStatements counts the statements that insert jobs from now on.
func (d *db) countStatements() func() int {
	d.t.Helper()
	d.do(fmt.Sprintf("create sequence %s", d.table("statements")))
	d.do(fmt.Sprintf(`create function %s() returns trigger language plpgsql as $$
		begin perform nextval('%s'); return null; end $$`, d.table("count_statement"), d.table("statements")))
	d.do(fmt.Sprintf("create trigger count_statement after insert on %s for each statement execute function %s()", d.table("job"), d.table("count_statement")))
	return func() int {
		d.t.Helper()
		return ask[int](d, fmt.Sprintf("select case when is_called then last_value else 0 end from %s", d.table("statements")))
	}
}

func TestEnqueuesShareStatements(t *testing.T) {
	t.Run("many callers need few statements, and each gets the ids of its own jobs", func(t *testing.T) {
		d := open(t, postgres.Config{})
		statements := d.countStatements()
		const callers, calls, jobs = 100, 10, 3
		crowd(callers, func(i int) {
			for n := range calls {
				requests := make([]later.Request, jobs)
				for k := range requests {
					requests[k] = later.Request{Args: work(fmt.Sprintf(`"%d %d %d"`, i, n, k)), Options: later.Options{Tenant: fmt.Sprint(i)}}
				}
				done, err := d.EnqueueMany(t.Context(), requests)
				if err != nil || len(done) != jobs {
					t.Errorf("got %v, %v", done, err)
					return
				}
				for k := range done {
					requests[k].Options.Queue = "seen"
					requests[k].Args = later.RawArgs{JobKind: "seen", Payload: fmt.Appendf(nil, `{"id":%d,"of":"%d %d %d"}`, done[k].ID, i, n, k)}
					if k > 0 && done[k].ID <= done[k-1].ID {
						t.Errorf("got the ids %v, want them in the order of the jobs", done)
					}
				}
				if _, err := d.EnqueueMany(t.Context(), requests); err != nil {
					t.Error(err)
				}
			}
		})
		wrong := ask[int](d, fmt.Sprintf(`select count(*) from (select payload from %[1]s where kind = 'seen') s
			left join %[1]s j on j.id = (s.payload ->> 'id')::bigint and j.kind = 'work' and j.payload #>> '{}' = s.payload ->> 'of'
			  and j.tenant = split_part(s.payload ->> 'of', ' ', 1)
			where j.id is null`, d.table("job")))
		if total := ask[int](d, "select count(*) from "+d.table("job")); wrong > 0 || total != 2*callers*calls*jobs {
			t.Errorf("got %d jobs, of which %d ids belong to another", total, wrong)
		}
		if got, most := statements(), 2*callers*calls/3; got > most {
			t.Errorf("got %d statements for %d calls, want %d at most", got, 2*callers*calls, most)
		}
	})

	t.Run("of many callers only those whose jobs the table refuses have the error", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.do(fmt.Sprintf("alter table %s add constraint not_bad check (tenant <> 'bad')", d.table("job")))
		const callers, calls = 30, 20
		crowd(callers, func(i int) {
			for n := range calls {
				bad := (i+n)%7 == 0
				requests := []later.Request{{Args: work(`1`)}, {Args: work(`2`), Options: later.Options{Tenant: map[bool]string{true: "bad"}[bad]}}}
				_, err := d.EnqueueMany(t.Context(), requests)
				switch {
				case bad && (err == nil || !strings.Contains(err.Error(), "not_bad")):
					t.Errorf("a bad job: got %v, want it refused by not_bad", err)
				case bad && later.IsTransient(err):
					t.Errorf("a bad job: got %v, want it not to be worth a second try", err)
				case !bad && err != nil:
					t.Errorf("a good job: got %v", err)
				}
			}
		})
		good := 0
		for i := range callers {
			for n := range calls {
				if (i+n)%7 != 0 {
					good++
				}
			}
		}
		if got := ask[int](d, "select count(*) from "+d.table("job")); got != 2*good {
			t.Errorf("got %d jobs, want the %d of the good calls", got, 2*good)
		}
	})

	// A tenant's rights may hang on the context.
	t.Run("a pool that prepares its connections for each caller's context does so for each call", func(t *testing.T) {
		d := open(t, postgres.Config{})
		type key struct{}
		pool := newPool(t, d.url, func(cfg *pgxpool.Config) {
			cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
				who, _ := ctx.Value(key{}).(string)
				_, err := conn.Exec(ctx, "select set_config('app.who', $1, false)", who)
				return true, err
			}
		})
		store, err := postgres.New(pool, postgres.Config{Schema: d.schema})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		d.do(fmt.Sprintf(`alter table %s add who text default current_setting('app.who', true)`, d.table("job")))
		crowd(50, func(i int) {
			who := fmt.Sprint(i)
			if _, err := store.Enqueue(context.WithValue(t.Context(), key{}, who), work(`{}`), later.Options{Tenant: who}); err != nil {
				t.Error(err)
			}
		})
		if got := ask[int](d, fmt.Sprintf("select count(*) from %s where who = tenant", d.table("job"))); got != 50 {
			t.Errorf("got %d jobs of the right caller, want 50", got)
		}
	})

	// Cases of a lost answer: the jobs of all who shared it may be there, and are not stored twice.
	t.Run("a connection that is lost is the error of all who shared it, and nothing is tried again", func(t *testing.T) {
		for _, cut := range []string{"before", "after"} {
			d := open(t, postgres.Config{})
			p, behind := newProxy(t, d.url)
			store, err := postgres.Open(t.Context(), behind, postgres.Config{Schema: d.schema})
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			failed := 0
			crowd(40, func(i int) {
				for n := range 10 {
					if i == 0 && n == 5 {
						if cut == "before" {
							p.cutBefore("insert into")
						} else {
							p.cutAfter("insert into")
						}
					}
					_, err := store.Enqueue(t.Context(), work(`{}`), later.Options{Tenant: fmt.Sprintf("%d-%d", i, n)})
					if err == nil {
						continue
					}
					if !errors.Is(err, later.ErrUnavailable) {
						t.Errorf("cut %s: got %v, want %v", cut, err, later.ErrUnavailable)
					}
					mu.Lock()
					failed++
					mu.Unlock()
				}
			})
			if p.cutCount() != 1 || failed == 0 {
				t.Errorf("cut %s: the line was cut %d times, and %d calls failed", cut, p.cutCount(), failed)
			}
			stored := ask[int](d, "select count(*) from "+d.table("job"))
			distinct := ask[int](d, "select count(distinct tenant) from "+d.table("job"))
			want := 400
			if cut == "before" {
				want -= failed
			}
			if stored != want || distinct != want {
				t.Errorf("cut %s, %d calls failed: got %d jobs of %d calls, want %d", cut, failed, stored, distinct, want)
			}
			store.Close()
		}
	})
}

// stuck has the store's statements wait for a lock: one for the first caller, one for
// others that share it; who comes now waits for one of these to end.
type stuck struct {
	*db
	first, shared, waiting chan error
	cancelShared           context.CancelFunc // of one of the two callers of the second statement
	cancelWaiting          context.CancelFunc
	release                func()
}

func newStuck(t *testing.T) *stuck {
	t.Helper()
	d := open(t, postgres.Config{})
	s := &stuck{db: d, first: make(chan error, 1), shared: make(chan error, 2), waiting: make(chan error, 1)}
	d.do("begin")
	d.do("lock table " + d.table("job") + " in exclusive mode")
	s.release = func() { d.do("commit") }
	watch := connect(t, d.url)
	blocked := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d statements wait", n), func() bool {
			var got int
			if err := watch.QueryRow(t.Context(), `select count(*) from pg_locks where relation = $1::regclass and not granted`, d.table("job")).Scan(&got); err != nil {
				t.Fatal(err)
			}
			return got == n
		})
	}
	enqueue := func(ctx context.Context, tenant string, answer chan error) {
		_, err := d.Enqueue(ctx, work(`{}`), later.Options{Tenant: tenant})
		answer <- err
	}
	go enqueue(t.Context(), "first", s.first)
	blocked(1)
	var ctx context.Context
	ctx, s.cancelShared = context.WithCancel(t.Context())
	go enqueue(ctx, "shared", s.shared)
	blocked(2)
	ctx, s.cancelWaiting = context.WithCancel(t.Context())
	go enqueue(ctx, "waiting", s.waiting)
	postgres.AwaitWaiting(t, d.Store, 1)
	return s
}

func (s *stuck) tenants() string {
	s.t.Helper()
	return ask[string](s.db, fmt.Sprintf("select coalesce(string_agg(tenant, ' ' order by tenant), '') from %s", s.table("job")))
}

func receive(t *testing.T, from chan error) error {
	t.Helper()
	select {
	case err := <-from:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("gave up waiting for an answer")
		return nil
	}
}

func TestEnqueueWithAContextThatEnds(t *testing.T) {
	s := newStuck(t)
	s.cancelWaiting()
	if err := receive(t, s.waiting); !errors.Is(err, context.Canceled) || errors.Is(err, later.ErrUnavailable) {
		t.Errorf("before its statement: got %v, want %v alone", err, context.Canceled)
	}
	s.cancelShared()
	if err := receive(t, s.shared); !errors.Is(err, context.Canceled) || !errors.Is(err, later.ErrUnavailable) || !strings.Contains(err.Error(), "may have been stored") {
		t.Errorf("during its statement: got %v, want %v that says that the job may have been stored", err, later.ErrUnavailable)
	}
	s.release()
	if err := receive(t, s.first); err != nil {
		t.Errorf("the other: got %v", err)
	}
	if err := s.Close(); err != nil { // waits for the statement whose caller has gone
		t.Error(err)
	}
	if got, want := s.tenants(), "first shared"; got != want {
		t.Errorf("got the jobs of %q, want %q", got, want)
	}
}

func TestCloseWhileEnqueuing(t *testing.T) {
	s := newStuck(t)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if err := receive(t, s.waiting); !errors.Is(err, later.ErrClosed) {
		t.Errorf("before its statement: got %v, want %v", err, later.ErrClosed)
	}
	s.release()
	for _, answer := range []chan error{s.first, s.shared, closed} {
		if err := receive(t, answer); err != nil {
			t.Errorf("what had begun: got %v", err)
		}
	}
	if got, want := s.tenants(), "first shared"; got != want {
		t.Errorf("got the jobs of %q, want %q", got, want)
	}
}

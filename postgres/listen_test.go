package postgres_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// listeners selects the sessions on which workers of this store wait.
const listeners = `
	from pg_stat_activity a
	where pid in (
		select pid from pg_locks
		where locktype = 'advisory' and classid = hashtext('later waits ' || quote_ident($1))::oid and objid = 0 and granted)`

// listener is what a column of the one such session says.
func listener[T any](d *db, column string) T {
	d.t.Helper()
	// Schemas of tests need no quotes, but the store always sets them.
	return ask[T](d, "select "+column+strings.Replace(listeners, "quote_ident($1)", `'"' || $1 || '"'`, 1), d.schema)
}

func (d *db) listenerCount() int { return listener[int](d, "count(*)::int") }

// Cases 154 and 167.
func TestListener(t *testing.T) {
	d := open(t, postgres.Config{})
	w := d.Watch("worker-1", []string{"default"})
	defer w.Close()
	byName := func() int {
		return ask[int](d, "select count(*) from pg_stat_activity where application_name = 'later listen' and query like '%' || $1 || '%'", d.channelOf())
	}

	t.Run("there is none before somebody waits", func(t *testing.T) {
		if got := byName() + d.listenerCount(); got != 0 {
			t.Errorf("got %d sessions", got)
		}
	})

	d.waitsAgain(w)
	t.Run("it is one session with a name, outside of any transaction, that holds no snapshot", func(t *testing.T) {
		other := d.waits("mail")
		defer other.Close()
		if got := d.listenerCount(); got != 1 {
			t.Fatalf("got %d sessions, want 1", got)
		}
		if got := listener[string](d, "application_name"); got != "later listen" {
			t.Errorf("application name: got %q", got)
		}
		eventually(t, "it is idle", func() bool {
			return listener[bool](d, "state = 'idle' and xact_start is null and backend_xmin is null")
		})
	})

	// Case 166.
	t.Run("a worker that waits on asks the server nothing", func(t *testing.T) {
		d.waitsAgain(w)
		eventually(t, "it is idle", func() bool { return listener[bool](d, "state = 'idle'") })
		before := listener[time.Time](d, "state_change")
		for range 1000 {
			d.waitsAgain(w)
			w.Busy()
		}
		d.waitsAgain(w)
		if got := listener[time.Time](d, "state_change"); !got.Equal(before) {
			t.Errorf("the session did something at %v, after %v", got, before)
		}
	})

	t.Run("it ends with the last who waits", func(t *testing.T) {
		w.Close()
		if got := d.listenerCount(); got != 0 {
			eventually(t, "the session has ended", func() bool { return d.listenerCount() == 0 })
		}
	})
}

func TestNoListen(t *testing.T) {
	d := open(t, postgres.Config{NoListen: true})
	w := d.Watch("worker-1", []string{"default"})
	defer w.Close()
	for range 3 {
		if heard, err := w.Waiting(t.Context()); heard || err != nil {
			t.Errorf("Waiting: got %v, %v, want false", heard, err)
		}
	}
	w.Busy()
	if got := d.listenerCount(); got != 0 {
		t.Errorf("got %d sessions", got)
	}
	d.enqueue(1)
	d.claimJust(1)
}

// Case 169: enqueue while the listener is away.
func TestListenerIsKilled(t *testing.T) {
	d := open(t, postgres.Config{})
	role, url := d.role()
	store := openAt(t, url, postgres.Config{Schema: d.schema})
	w := store.waits("default")
	calm(t, w)

	d.do(fmt.Sprintf("alter role %s nologin", role))
	if !listener[bool](d, "pg_terminate_backend(pid)") {
		t.Fatal("nobody was killed")
	}
	woken(t, w) // to learn that it must poll
	if heard, err := w.Waiting(t.Context()); heard || err != nil {
		t.Errorf("Waiting: got %v, %v, want false", heard, err)
	}
	d.enqueue(1)
	d.claimJust(1) // by poll
	for len(w.Wakes()) > 0 {
		<-w.Wakes()
	}
	d.enqueue(1)
	d.do(fmt.Sprintf("alter role %s login", role))
	woken(t, w) // for what came unheard
	d.claimJust(1)

	store.waitsAgain(w)
	calm(t, w)
	d.enqueue(1)
	woken(t, w)
}

// What roles set ends other sessions that are idle. Case 151.
func TestListenerOutlivesTimeouts(t *testing.T) {
	d := open(t, postgres.Config{})
	settings := []string{"statement_timeout = '300ms'", "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '300ms'",
		"default_transaction_isolation = 'serializable'", "default_transaction_read_only = on"}
	if ask[bool](d, "select exists (select from pg_settings where name = 'idle_session_timeout')") {
		settings = append(settings, "idle_session_timeout = '300ms'")
	}
	_, url := d.role(settings...)
	store, err := postgres.Open(t.Context(), url, postgres.Config{Schema: d.schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w := (&db{Store: store, t: t}).waits("default")
	pid := listener[int](d, "pid")
	eventually(t, "the session is a second old", func() bool {
		return listener[bool](d, "coalesce(bool_and(now() - state_change > '1 s'), true)")
	})
	if got := listener[int](d, "coalesce(min(pid), 0)"); got != pid {
		t.Errorf("got session %d, want still %d", got, pid)
	}
	d.enqueue(1)
	woken(t, w)
}

// logLines is a log that can be read while it is written.
type logLines struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// Case 154: LISTEN succeeds there, and nothing is ever heard.
func TestDeafBehindPgBouncer(t *testing.T) {
	var logged logLines
	d := openAt(t, testdb.PgBouncer(t)+"&default_query_exec_mode=exec", postgres.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	d.SetProof(time.Minute, time.Second)
	w := d.Watch("worker-1", []string{"default"})
	defer w.Close()
	eventually(t, "it is known to be deaf", func() bool {
		heard, err := w.Waiting(t.Context())
		if heard || err != nil {
			t.Fatalf("Waiting: got %v, %v, want false", heard, err)
		}
		return strings.Contains(logged.String(), "level=WARN")
	})
	if got := logged.String(); !strings.Contains(got, "PgBouncer") || !strings.Contains(got, "NoListen") {
		t.Errorf("logged %q, want it to say why and what to do", got)
	}
	if got := d.listenerCount(); got != 0 {
		t.Errorf("got %d sessions with locks behind the pooler", got)
	}
	d.enqueue(1)
	d.claimJust(1)
}

// A transaction that has notified cannot be prepared, and who enqueues may want that.
func TestTwoPhaseCommits(t *testing.T) {
	server := testdb.Own(t, map[string]string{"max_prepared_transactions": "5"})
	var logged logLines
	d := openAt(t, server.URL(), postgres.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	w := d.Watch("worker-1", []string{"default"})
	eventually(t, "it is known that nobody notifies", func() bool {
		heard, err := w.Waiting(t.Context())
		if heard || err != nil {
			t.Fatalf("Waiting: got %v, %v, want false", heard, err)
		}
		return strings.Contains(logged.String(), "max_prepared_transactions")
	})
	w.Close()
	prepare := func() {
		d.do("begin")
		d.do(fmt.Sprintf("insert into %s (kind) values ('work')", d.table("job")))
		d.do("prepare transaction 'two'")
		d.do("commit prepared 'two'")
	}

	// One who has it on, as for a role that never prepares.
	d.do("alter database postgres set later.wake = on")
	on := openAt(t, server.URL(), postgres.Config{Schema: d.schema})
	w = on.waits("default")
	calm(t, w)
	prepare() // without the setting: its session is older
	d.claimJust(1)
	on.enqueue(1)
	woken(t, w)
}

func TestListenURL(t *testing.T) {
	d := openAt(t, testdb.PgBouncer(t)+"&default_query_exec_mode=exec", postgres.Config{ListenURL: testdb.Postgres(t)})
	w := d.waits("default")
	calm(t, w)
	d.enqueue(1) // through the pooler
	woken(t, w)
	d.claimJust(1)

	if _, err := postgres.New(newPool(t, d.url, nil), postgres.Config{ListenURL: "postgres://u:secret@host:port/"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a URL that is none: got %v, want an error without the password", err)
	}
}

// hole forwards connections, until it swallows what the server says.
type hole struct {
	listener net.Listener
	swallow  atomic.Bool
}

func newHole(t *testing.T, address string) (*hole, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hole{listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				defer server.Close()
				_, _ = io.Copy(server, client)
			}()
			// Only connections that were there before the hole opened fall into it.
			old := !h.swallow.Load()
			go func() {
				defer client.Close()
				buffer := make([]byte, 1<<16)
				for {
					n, err := server.Read(buffer)
					if err != nil {
						return
					}
					if old && h.swallow.Load() {
						continue
					}
					if _, err := client.Write(buffer[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	u.Host = l.Addr().String()
	return h, u.String()
}

// A connection that is dead without showing it.
func TestListenerHalfOpen(t *testing.T) {
	d := open(t, postgres.Config{})
	hole, url := newHole(t, d.url)
	store := openAt(t, url, postgres.Config{Schema: d.schema})
	store.SetProof(500*time.Millisecond, 2*time.Second)
	w := store.waits("default")
	before := listener[int](d, "min(pid)")
	hole.swallow.Store(true)
	eventually(t, "the connection is given up", func() bool {
		heard, err := w.Waiting(t.Context())
		return err == nil && !heard
	})
	eventually(t, "another one hears", func() bool {
		heard, err := w.Waiting(t.Context())
		return err == nil && heard && listener[int](d, "max(pid)") != before
	})
	calm(t, w)
	d.enqueue(1)
	woken(t, w)

	t.Run("also when it is just to take a lock", func(t *testing.T) {
		hole, url := newHole(t, d.url)
		store := openAt(t, url, postgres.Config{Schema: d.schema})
		store.SetProof(time.Hour, time.Second)
		store.waits("default")
		hole.swallow.Store(true)
		store.waits("mail")
	})
}

// Waiting must cost nothing while an old snapshot keeps every dead row. Case 175.
func TestWaitingWritesNothing(t *testing.T) {
	d := openAt(t, testdb.Own(t, map[string]string{"autovacuum": "off"}).URL(), postgres.Config{})
	w := d.waits("default")
	lsn := ask[string](d, "select pg_current_wal_insert_lsn()::text")
	spy := d.spy()
	for range 20 {
		w.Busy()
		eventually(t, "nobody waits", func() bool { return d.listenerCount() == 0 })
		d.waitsAgain(w)
	}
	if got := ask[int](d, "select pg_current_wal_insert_lsn() - $1::pg_lsn", lsn); got > 4096 {
		t.Errorf("got %d bytes of WAL for 20 times waiting, want next to nothing", got)
	}
	if got := spy.heard(); got != "" {
		t.Errorf("got notifications for %q", got)
	}
}

func TestWatchLeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	d := open(t, postgres.Config{})
	for range 3 {
		first, second := d.waits("default"), d.waits("mail")
		first.Busy()
		first.Close()
		second.Close()
	}
	left := d.waits("default")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := left.Waiting(t.Context()); err == nil {
		t.Error("Waiting after the store's Close: got no error")
	}
	left.Close()
	goleak.VerifyNone(t, before)
}

var _ later.Waker = (*postgres.Store)(nil)

package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

// longTrail is the store's.
const longTrail = 500 * time.Millisecond

// spy hears what is sent on a store's channel, like the store itself.
type spy struct {
	t    *testing.T
	conn *pgx.Conn
}

// channelOf is the channel of a schema, as the database makes it.
func (d *db) channelOf() string {
	d.t.Helper()
	return ask[string](d, `select 'later_' || left(encode(sha256(convert_to($1, 'UTF8')), 'hex'), 16)`, pgx.Identifier{d.schema}.Sanitize())
}

func (d *db) spy() *spy {
	d.t.Helper()
	conn := connect(d.t, d.url)
	if _, err := conn.Exec(d.t.Context(), "listen "+d.channelOf()); err != nil {
		d.t.Fatal(err)
	}
	return &spy{t: d.t, conn: conn}
}

// heard are the queues that were notified since the last call, in their order. What a
// transaction sends is there when it has been committed, so a notification of one's
// own that comes after it proves that there is no more.
func (s *spy) heard() string {
	s.t.Helper()
	mark := "mark " + fmt.Sprint(time.Now().UnixNano())
	if _, err := s.conn.Exec(s.t.Context(), "select pg_notify($1, $2)", "later_mark", mark); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.conn.Exec(s.t.Context(), "listen later_mark"); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.conn.Exec(s.t.Context(), "select pg_notify($1, $2)", "later_mark", mark); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	var queues []string
	for {
		n, err := s.conn.WaitForNotification(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if n.Payload == mark {
			return strings.Join(queues, " ")
		}
		if !strings.HasPrefix(n.Payload, "!") && !strings.HasPrefix(n.Payload, "mark ") {
			queues = append(queues, n.Payload)
		}
	}
}

// waits watches queues, and returns when those who enqueue know.
func (d *db) waits(queues ...string) later.Watch {
	d.t.Helper()
	w := d.Watch("worker-1", queues)
	d.t.Cleanup(w.Close)
	d.waitsAgain(w)
	return w
}

func (d *db) waitsAgain(w later.Watch) {
	d.t.Helper()
	eventually(d.t, "wake-ups are heard", func() bool {
		heard, err := w.Waiting(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		return heard
	})
}

// woken fails if no wake-up comes.
func woken(t *testing.T, w later.Watch) {
	t.Helper()
	select {
	case <-w.Wakes():
	case <-time.After(30 * time.Second):
		t.Fatal("no wake-up came")
	}
}

// calm waits for those wake-ups that come without a notification.
func calm(t *testing.T, w later.Watch) {
	t.Helper()
	quiet := time.Now()
	eventually(t, "the watch is quiet", func() bool {
		select {
		case <-w.Wakes():
			quiet = time.Now()
		default:
		}
		return time.Since(quiet) > time.Second
	})
}

func TestNotifications(t *testing.T) {
	d := open(t, postgres.Config{})
	spy := d.spy()
	insert := func(queue, rest string) string {
		return fmt.Sprintf("insert into %s (kind, queue) values ('work', '%s') %s", d.table("job"), queue, rest)
	}

	// Case 164.
	t.Run("while nobody waits, nobody is notified", func(t *testing.T) {
		d.do(insert("default", ""))
		d.enqueue(3)
		if got := spy.heard(); got != "" {
			t.Errorf("got notifications for %q", got)
		}
	})

	w := d.waits("default", "mail")
	calm(t, w)

	t.Run("a plain insert, COPY, the function and a transaction wake", func(t *testing.T) {
		tx := func(end string) func() {
			return func() {
				d.do("begin")
				d.do(insert("mail", ""))
				d.do(end)
			}
		}
		for _, c := range []struct {
			name string
			do   func()
			want string
		}{
			{"insert", func() { d.do(insert("default", "")) }, "default"},
			{"COPY", func() {
				if _, err := d.conn.PgConn().CopyFrom(t.Context(), strings.NewReader("work\tmail\nwork\tmail\n"),
					fmt.Sprintf("copy %s (kind, queue) from stdin", d.table("job"))); err != nil {
					t.Fatal(err)
				}
			}, "mail"},
			{"function", func() { d.do(fmt.Sprintf("select %s('work', queue => 'mail')", d.table("enqueue"))) }, "mail"},
			{"transaction", tx("commit"), "mail"},
			{"transaction that is prepared as one statement", func() { d.do(insert("default", "returning id")) }, "default"},
		} {
			c.do()
			woken(t, w)
			if got := spy.heard(); got != c.want {
				t.Errorf("%s: got notifications for %q, want %q", c.name, got, c.want)
			}
			d.waitsAgain(w)
		}
		// Case 161.
		tx("rollback")()
		if got := spy.heard(); got != "" {
			t.Errorf("rollback: got notifications for %q", got)
		}
	})

	// Case 172.
	t.Run("jobs of other queues and other schemas, and of next week, wake nobody", func(t *testing.T) {
		calm(t, w)
		other := open(t, postgres.Config{})
		other.enqueue(1)
		d.do(insert("other", ""))
		d.do(insert("Mail", ""))
		d.do(fmt.Sprintf("insert into %s (kind, run_at) values ('work', now() + interval '12 seconds')", d.table("job")))
		d.do(fmt.Sprintf("insert into %s (kind) select 'work' where false", d.table("job")))
		if got := spy.heard(); got != "" {
			t.Errorf("got notifications for %q", got)
		}
		select {
		case <-w.Wakes():
			t.Error("a wake-up came")
		default:
		}
	})

	t.Run("one statement with several queues notifies those that are waited for, once each", func(t *testing.T) {
		d.do(fmt.Sprintf(`insert into %s (kind, queue, run_at)
			select 'work', (array['other', 'mail', 'default', 'late'])[1 + n %% 4], now() + case n %% 4 when 3 then interval '1 hour' else '0' end
			from generate_series(1, 400) n`, d.table("job")))
		got := strings.Fields(spy.heard())
		if len(got) != 2 || !strings.Contains(strings.Join(got, " "), "mail") || !strings.Contains(strings.Join(got, " "), "default") {
			t.Errorf("got notifications for %q, want mail and default", got)
		}
	})

	t.Run("who has later.wake set to off notifies nobody", func(t *testing.T) {
		d.waitsAgain(w)
		d.do("begin")
		d.do("set local later.wake = off")
		d.do(insert("default", ""))
		d.do("commit")
		if got := spy.heard(); got != "" {
			t.Errorf("got notifications for %q", got)
		}
		d.do(insert("default", ""))
		if got := spy.heard(); got != "default" {
			t.Errorf("afterwards: got notifications for %q", got)
		}
	})

	t.Run("a worker that is busy is soon not waited for, and the last to wait ends it", func(t *testing.T) {
		second := d.waits("default")
		w.Busy()
		eventually(t, "only default is waited for", func() bool {
			d.do(insert("mail", ""))
			return spy.heard() == ""
		})
		d.do(insert("default", ""))
		if got := spy.heard(); got != "default" {
			t.Errorf("got notifications for %q", got)
		}
		second.Close()
		d.do(insert("default", ""))
		eventually(t, "nobody is waited for", func() bool {
			d.do(insert("default", ""))
			return spy.heard() == ""
		})
	})

	t.Run("no lock of those who enqueue stays behind", func(t *testing.T) {
		if got := ask[int](d, `select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`); got != 0 {
			t.Errorf("got %d advisory locks in the session", got)
		}
	})
}

// A transaction that stays open holds the right to notify only for a moment.
func TestOpenTransactionKeepsNoWakeUps(t *testing.T) {
	d := open(t, postgres.Config{})
	spy := d.spy()
	d.waits("default")
	second := connect(t, d.url)
	tx, err := second.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	insert := fmt.Sprintf("insert into %s (kind) values ('work')", d.table("job"))
	if _, err := tx.Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another one notifies", func() bool {
		d.do(insert)
		return spy.heard() == "default"
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := spy.heard(); got != "default" {
		t.Errorf("at its end: got notifications for %q", got)
	}
}

// A transaction that inserted before anybody waited, and commits after the claim that
// follows Waiting, has notified nobody.
func TestLateCommitIsFound(t *testing.T) {
	d := open(t, postgres.Config{})
	spy := d.spy()
	w := d.waits("default")
	w.Close()
	eventually(t, "nobody waits", func() bool { return d.listenerCount() == 0 })
	w = d.Watch("worker-1", []string{"default"})
	defer w.Close()
	eventually(t, "it is found before the next poll", func() bool {
		w.Busy()
		eventually(t, "nobody waits", func() bool { return d.listenerCount() == 0 })
		d.do("begin")
		d.do(fmt.Sprintf("insert into %s (kind) values ('work')", d.table("job")))
		d.waitsAgain(w)
		d.claimJust(0)
		for len(w.Wakes()) > 0 {
			<-w.Wakes()
		}
		d.do("commit")
		if got := spy.heard(); got != "" {
			t.Fatalf("got notifications for %q; this test is for those without", got)
		}
		select {
		case <-w.Wakes():
			d.claimJust(1)
			return true
		case <-time.After(2 * longTrail): // this machine was too slow: once more
			d.settle(later.OutcomeDone, d.claimJust(1)...)
			return false
		}
	})
}

// Of two transactions that insert in the same moment one notifies, and the other may
// take until that one's wake-up is forgotten.
func TestCommitLongAfterItsWakeUpIsFound(t *testing.T) {
	d := open(t, postgres.Config{})
	w := d.waits("default")
	insert := fmt.Sprintf("insert into %s (kind) values ('work')", d.table("job"))
	conns := []*pgx.Conn{connect(t, d.url), connect(t, d.url)}
	begin := func() (first, second pgx.Tx, together bool) {
		txs, notify := make([]pgx.Tx, 2), make([]bool, 2)
		for i, conn := range conns {
			var err error
			if txs[i], err = conn.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for i, tx := range txs {
			if _, err := tx.Exec(t.Context(), insert); err != nil {
				t.Fatal(err)
			}
			err := tx.QueryRow(t.Context(), "select coalesce(current_setting('later.woken', true), '') <> ''").Scan(&notify[i])
			if err != nil {
				t.Fatal(err)
			}
		}
		return txs[0], txs[1], notify[0] && !notify[1]
	}
	commit := func(tx pgx.Tx) {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it is found before the next poll", func() bool {
		calm(t, w)
		first, second, together := begin()
		if !together { // not within the same hundredth of a second: once more
			commit(first)
			commit(second)
			d.settle(later.OutcomeDone, d.claimJust(2)...)
			return false
		}
		commit(first)
		woken(t, w)
		d.settle(later.OutcomeDone, d.claimJust(1)...)
		woken(t, w) // the look that comes soon after
		d.claimJust(0)
		commit(second)
		found := true
		select {
		case <-w.Wakes():
		case <-time.After(2 * longTrail):
			found = false // or this machine was too slow: once more
		}
		d.settle(later.OutcomeDone, d.claimJust(1)...)
		return found
	})
}

// Each lock has a place in the server's memory, which has room for some thousands.
func TestLongTransactionTakesOneLock(t *testing.T) {
	d := open(t, postgres.Config{})
	spy := d.spy()
	d.waits("default", "mail")
	d.do("begin")
	for range 10 {
		for _, queue := range []string{"default", "mail"} {
			d.do(fmt.Sprintf("insert into %s (kind, queue) values ('work', $1)", d.table("job")), queue)
		}
		d.do("select pg_sleep(0.011)") // the next hundredth of a second
	}
	if got := ask[int](d, `select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`); got > 2 {
		t.Errorf("got %d locks, want one for each queue", got)
	}
	d.do("commit")
	if got := spy.heard(); got != "default mail" {
		t.Errorf("got notifications for %q", got)
	}
	d.do(fmt.Sprintf("insert into %s (kind) values ('work')", d.table("job")))
	if got := spy.heard(); got != "default" {
		t.Errorf("the next transaction: got notifications for %q", got)
	}
}

package postgres_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// queueUsage has the server say that its queue of notifications is as full as that; ""
// is the truth again. To fill it takes gigabytes. What is the server's own is replaced
// in one database, and only in plans that are made from then on.
func (d *db) queueUsage(usage string) {
	d.t.Helper()
	body := "language sql volatile parallel restricted as 'select " + usage + "::float8'"
	if usage == "" {
		body = "language internal volatile strict parallel restricted as 'pg_notification_queue_usage'"
	}
	d.do("create or replace function pg_catalog.pg_notification_queue_usage() returns float8 " + body)
}

// Case 163: some session listens and does not end its transaction, and the queue fills up.
func TestNotificationQueueFillsUp(t *testing.T) {
	address, _, _ := testdb.Database(t, testdb.Postgres(t))
	var logged logLines
	d := openAt(t, address, postgres.Config{})
	d.SetProof(time.Hour, time.Minute) // it does not notice
	spy := d.spy()
	w := d.waits("default")
	calm(t, w)
	insert := fmt.Sprintf("insert into %s (kind) values ('work')", d.table("job"))

	for _, usage := range []string{"0.5", "1"} {
		d.queueUsage(usage)
		t.Run("at "+usage+" who enqueues does, and notifies nobody", func(t *testing.T) {
			clerk := openAt(t, address, postgres.Config{Schema: d.schema})
			clerk.enqueue(1)
			clerk.do(insert)
			clerk.do(fmt.Sprintf("select %s('default')", d.table("wake")))
			if got := spy.heard(); got != "" {
				t.Errorf("got notifications for %q", got)
			}
			d.settle(later.OutcomeDone, d.claimJust(2)...)
		})
	}
	d.queueUsage("0.49")
	t.Run("below 0.5 all is as ever", func(t *testing.T) {
		clerk := openAt(t, address, postgres.Config{Schema: d.schema})
		clerk.do(insert)
		woken(t, w)
		if got := spy.heard(); got != "default" {
			t.Errorf("got notifications for %q", got)
		}
	})
	w.Close()

	d.queueUsage("0.5")
	t.Run("who waits meanwhile polls, and hears when there is room again", func(t *testing.T) {
		worker := openAt(t, address, postgres.Config{Schema: d.schema, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		worker.SetProof(time.Hour, 5*time.Second)
		w := worker.Watch("worker-1", []string{"default"})
		defer w.Close()
		eventually(t, "it is known that nobody notifies", func() bool {
			heard, err := w.Waiting(t.Context())
			if heard || err != nil {
				t.Fatalf("Waiting: got %v, %v, want false", heard, err)
			}
			return strings.Contains(logged.String(), "half full")
		})
		d.queueUsage("")
		// Sessions keep the plans that they have.
		d.do("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
		worker.waitsAgain(w)
		calm(t, w)
		openAt(t, address, postgres.Config{Schema: d.schema}).do(insert)
		woken(t, w)
	})
}

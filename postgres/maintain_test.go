package postgres_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// days are the names of the log's partitions.
func (d *db) days() []string {
	d.t.Helper()
	return ask[[]string](d, `select array(select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = $1::text::regclass order by 1)`, d.table("job_log"))
}

// day is the name of the partition of the day that is n days from today.
func day(n int) string { return "job_log_" + time.Now().UTC().AddDate(0, 0, n).Format("20060102") }

// addDay makes the partition of a past day, with one row in it.
func (d *db) addDay(n int) {
	d.t.Helper()
	date := time.Now().UTC().AddDate(0, 0, n).Truncate(24 * time.Hour)
	d.do(fmt.Sprintf("create table %s partition of %s for values from ('%s') to ('%s')", d.table(day(n)), d.table("job_log"),
		date.Format(time.RFC3339), date.AddDate(0, 0, 1).Format(time.RFC3339)))
	d.logRow(date.Add(time.Hour))
}

func (d *db) logRow(at time.Time) {
	d.t.Helper()
	d.do(fmt.Sprintf(`insert into %s (job_id, finished_at, attempt, queue, kind, tenant, outcome, worker, error)
		values (1, $1, 1, 'default', 'work', '', 'done', '', '')`, d.table("job_log")), at)
}

func (d *db) maintain() {
	d.t.Helper()
	if err := d.Maintain(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func TestMaintain(t *testing.T) {
	t.Run("today and the next three days have a partition, and rows go there", func(t *testing.T) {
		d := open(t, postgres.Config{})
		want := fmt.Sprint([]string{day(0), day(1), day(2), day(3), "job_log_default"})
		if got := fmt.Sprint(d.days()); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		d.enqueue(1)
		d.settle(later.OutcomeDone, d.claimJust(1)...)
		if got := ask[string](d, "select tableoid::regclass::text from "+d.table("job_log")); !strings.Contains(got, "job_log_2") {
			t.Errorf("the row is in %s, want a day's partition", got)
		}
	})

	t.Run("days past the retention are dropped, the others stay", func(t *testing.T) {
		for _, test := range []struct {
			retention time.Duration
			left      []int
		}{
			{0, []int{-7, -6}}, {48 * time.Hour, nil}, {9 * 24 * time.Hour, []int{-9, -7, -6}},
		} {
			d := open(t, postgres.Config{LogRetention: test.retention})
			for _, n := range []int{-6, -7, -9, -100} {
				d.addDay(n)
			}
			d.maintain()
			var want []string
			for _, n := range append(test.left, 0, 1, 2, 3) {
				want = append(want, day(n))
			}
			if got := fmt.Sprint(d.days()); got != fmt.Sprint(append(want, "job_log_default")) {
				t.Errorf("retention %v: got %v, want %v", test.retention, got, want)
			}
		}
	})

	t.Run("old rows without a partition are deleted, young ones stay", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.logRow(time.Now().AddDate(0, 0, -8))
		d.logRow(time.Now().AddDate(0, 0, -6))
		d.maintain()
		if got := ask[int](d, "select count(*) from "+d.table("job_log_default")); got != 1 {
			t.Errorf("got %d rows, want 1", got)
		}
	})

	t.Run("however many there are", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.do(fmt.Sprintf(`insert into %s (job_id, finished_at, attempt, queue, kind, tenant, outcome, worker, error)
			select 1, now() - interval '8 days', 1, 'default', 'work', '', 'done', '', '' from generate_series(1, 25000)`, d.table("job_log")))
		d.maintain()
		if got := ask[int](d, "select count(*) from "+d.table("job_log_default")); got != 0 {
			t.Errorf("got %d rows, want 0", got)
		}
	})

	t.Run("the migration itself makes the first days' partitions, for those who run its SQL", func(t *testing.T) {
		d := connectAt(t, testdb.Postgres(t), postgres.Config{})
		d.do("set time zone 'Pacific/Kiritimati'") // 14 hours ahead
		if _, err := d.conn.PgConn().Exec(t.Context(), "begin;\n"+d.MigrationSQL(false)+"\ncommit;").ReadAll(); err != nil {
			t.Fatal(err)
		}
		d.do("set time zone 'UTC'")
		const bounds = `select string_agg(pg_get_expr(c.relpartbound, c.oid), ' ' order by c.relname)
			from pg_class c join pg_inherits i on i.inhrelid = c.oid where i.inhparent = $1::text::regclass`
		days, made := d.days(), ask[string](d, bounds, d.table("job_log"))
		if want := fmt.Sprint([]string{day(0), day(1), day(2), day(3), "job_log_default"}); fmt.Sprint(days) != want {
			t.Errorf("got %v, want %v", days, want)
		}
		for n := range 4 {
			d.do("drop table " + d.table(day(n)))
		}
		d.maintain()
		if got := ask[string](d, bounds, d.table("job_log")); got != made {
			t.Errorf("Maintain makes %v, the migration %v", got, made)
		}
	})

	t.Run("a day that is in the default partition already stays there", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.do("drop table " + d.table(day(0)))
		d.do("drop table " + d.table(day(2)))
		d.enqueue(1)
		d.settle(later.OutcomeDone, d.claimJust(1)...)
		d.maintain()
		want := fmt.Sprint([]string{day(1), day(2), day(3), "job_log_default"})
		if got := fmt.Sprint(d.days()); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := ask[int](d, "select count(*) from "+d.table("job_log")); got != 1 {
			t.Errorf("got %d rows, want 1", got)
		}
	})

	t.Run("several at once do it once", func(t *testing.T) {
		d := open(t, postgres.Config{})
		for n := range 4 {
			d.do("drop table " + d.table(day(n)))
		}
		var maintaining sync.WaitGroup
		for range 8 {
			maintaining.Go(func() {
				if err := d.Maintain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		maintaining.Wait()
		d.maintain()
		if got := len(d.days()); got != 5 {
			t.Errorf("got %v, want four days and the default", d.days())
		}
	})

	t.Run("a table that somebody reads is left for the next time", func(t *testing.T) {
		d := open(t, postgres.Config{})
		d.addDay(-20)
		d.do("begin")
		d.do("lock table " + d.table("job_log") + " in access share mode")
		d.maintain()
		d.do("commit")
		if got := d.days()[0]; got != day(-20) {
			t.Errorf("got %s first, want %s", got, day(-20))
		}
		d.maintain()
		if got := d.days()[0]; got != day(0) {
			t.Errorf("got %s first, want %s", got, day(0))
		}
	})

	// Case 98: retention is about the log only.
	t.Run("no job and no dead job is ever too old", func(t *testing.T) {
		d := open(t, postgres.Config{LogRetention: time.Hour})
		ids := d.enqueue(4)
		jobs := d.claim(2)
		d.settle(later.OutcomeDead, jobs[0])
		d.settle(later.OutcomeRetry, jobs[1])
		d.do("update " + d.table("job") + " set created_at = now() - interval '10 years', run_at = now() - interval '9 years'")
		d.do("update "+d.table("job")+" set run_at = now() + interval '30 days' where id = $1", ids[2])
		d.do("update " + d.table("dead_job") + " set died_at = now() - interval '10 years'")
		d.maintain()
		infos, err := d.List(t.Context(), later.Filter{})
		if err != nil || len(infos) != 4 {
			t.Errorf("got %d jobs, %v, want all 4", len(infos), err)
		}
	})

	// Case 73: a worker that is forgotten takes no job along.
	t.Run("workers that say nothing any more are forgotten", func(t *testing.T) {
		d := open(t, postgres.Config{})
		for _, name := range []string{"gone", "here"} {
			if err := d.Beat(t.Context(), later.WorkerInfo{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		d.do("update " + d.table("worker") + " set seen_at = now() - interval '1 hour' where name = 'gone'")
		d.maintain()
		if got := ask[[]string](d, "select array(select name from "+d.table("worker")+")"); len(got) != 1 || got[0] != "here" {
			t.Errorf("got %v, want the one that is here", got)
		}
	})

	t.Run("without a log nothing is logged", func(t *testing.T) {
		d := open(t, postgres.Config{NoLog: true})
		ids := d.enqueue(8)
		jobs := d.claim(5)
		for i, outcome := range []later.Outcome{later.OutcomeDone, later.OutcomeRetry, later.OutcomeDead, later.OutcomeSnoozed} {
			d.settle(outcome, jobs[i])
		}
		if _, err := d.Renew(t.Context(), []later.Lease{jobs[4].Lease}, -time.Hour); err != nil { // lost
			t.Fatal(err)
		}
		d.claim(1)
		if _, err := d.Cancel(t.Context(), ids[6]); err != nil {
			t.Error(err)
		}
		for _, id := range []int64{ids[7], jobs[2].ID} {
			if err := d.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		tx, err := d.conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.DoneTx(t.Context(), tx, d.claim(1)[0]); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		if got := ask[int](d, "select count(*) from "+d.table("job_log")); got != 0 {
			t.Errorf("got %d rows, want 0", got)
		}
	})
}

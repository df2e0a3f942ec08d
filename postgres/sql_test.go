package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

// refuses fails unless the server refuses the statement by a constraint or as
// no value of the column's type, and says so in words that name what is wrong.
func (d *db) refuses(statement, names string) {
	d.t.Helper()
	_, err := d.conn.Exec(d.t.Context(), statement)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code[:2] != "22" && pg.Code[:2] != "23" {
		d.t.Errorf("%s: got %v, want it refused", statement, err)
		return
	}
	if !strings.Contains(pg.Message, names) {
		d.t.Errorf("%s: got %q, want the message to name %q", statement, pg.Message, names)
	}
}

func TestPlainInsert(t *testing.T) {
	d := open(t, postgres.Config{})
	job := d.table("job")

	t.Run("nonsense is refused with the constraint's name", func(t *testing.T) {
		d := &db{Store: d.Store, t: t, conn: d.conn}
		for _, row := range []struct{ column, value, names string }{
			{"queue", `'a b'`, "name_characters"}, {"queue", `'é'`, "name_characters"}, {"queue", `E'a\n'`, "name_characters"},
			{"queue", `'-a'`, "name_characters"}, {"queue", `''`, "name_"}, {"queue", `repeat('a', 101)`, "name_length"},
			{"tenant", `' a'`, "tenant_no_space"}, {"tenant", `'a '`, "tenant_no_space"}, {"tenant", `E'a\tb'`, "tenant_characters"},
			{"tenant", `E'a\u202eb'`, "tenant_characters"}, {"tenant", `repeat('é', 101)`, "tenant_length"},
			{"payload", `'{"a":"\u0000"}'`, "payload_without_nul"}, {"payload", `('"' || repeat('x', 10485760) || '"')::json`, "payload_length"},
			{"headers", `'[]'`, "headers_object"}, {"headers", `'{"a":1}'`, "headers_object"}, {"headers", `'{"a":"\u0000"}'`, "Unicode escape"},
			{"run_at", `'infinity'`, "job_run_at"}, {"run_at", `'-infinity'`, "job_run_at"}, {"run_at", `'10000-01-01 00:00:00+00'`, "job_run_at"},
			{"run_at", `'0001-12-31 00:00:00+00 BC'`, "job_run_at"}, {"expires_at", `'infinity'`, "job_expires_at"},
			{"created_at", `'infinity'`, "job_created_at"}, {"cancel_at", `'infinity'`, "job_cancel_at"},
			{"max_attempts", `0`, "job_max_attempts"}, {"timeout_ms", `0`, "job_timeout_ms"}, {"attempt", `-1`, "job_attempt"},
			{"generation", `-1`, "job_generation"}, {"crashes", `-1`, "job_crashes"},
			{"lease_until", `now()`, "job_lease"}, {"lease_token", `1`, "job_lease"}, {"lease_holder", `'w'`, "job_lease"},
			{"claimed_at", `now()`, "job_lease"}, {"lease_until, lease_token", `now(), 1`, "job_lease"},
			{"lease_until, lease_token, lease_holder", `'infinity', 1, 'w'`, "job_lease"},
			{"priority", `32768`, "out of range"},
		} {
			d.refuses(fmt.Sprintf(`insert into %s (kind, %s) values ('work', %s)`, job, row.column, row.value), row.names)
		}
		// An id by hand could meet one that was given already.
		_, err := d.conn.Exec(t.Context(), fmt.Sprintf(`insert into %s (kind, id) values ('work', 1)`, job))
		if err == nil {
			t.Error("an id was accepted by hand")
		}
	})

	// Cases 1, 5, 8: bytes that jsonb would change.
	t.Run("the payload's bytes are kept", func(t *testing.T) {
		d := &db{Store: d.Store, t: t, conn: d.conn}
		for _, payload := range []string{
			`{"id":9223372036854775807,"b":9007199254740993,"c":1.10}`, `{"bb":1,"a":2}`, `{"a":1,"a":2}`,
			`{"s":"a\\u0000b"}`, ` { "a" : [ 1 , 2 ] } `, `"\u00e9\/"`, `1e400`,
		} {
			d.do(fmt.Sprintf(`insert into %s (kind, payload) values ('work', '%s')`, job, payload))
			c := d.claimJust(1)[0]
			if got := string(c.Payload); got != payload {
				t.Errorf("payload: got %s, want %s", got, payload)
			}
			d.settle(later.OutcomeDone, c)
		}
	})
}

// The table may refuse nothing that Build accepts: the error would come from
// within the caller's transaction, and end it.
func TestTenantIsRefusedByTheTableOnlyIfByBuild(t *testing.T) {
	d := open(t, postgres.Config{})
	rows, err := d.conn.Query(t.Context(), `
		select code
		from generate_series(1, 1114111) as code
		where code not between 55296 and 57343 and chr(code) ~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]'`)
	if err != nil {
		t.Fatal(err)
	}
	codes, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range codes {
		if later.CheckTenant("a"+string(rune(code))+"b") == nil {
			t.Errorf("%U is refused by the table and not by CheckTenant", code)
		}
	}
	if len(codes) < 100 {
		t.Errorf("got %d characters that the table refuses; the pattern here is not the migration's", len(codes))
	}
	if !strings.Contains(d.MigrationSQL(false), `[\u0001-\u001f\u007f-\u00a0\u00ad\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]`) {
		t.Error("the pattern here is not the migration's")
	}
}

func TestEnqueueFunction(t *testing.T) {
	d := open(t, postgres.Config{})
	fn := d.table("enqueue")

	t.Run("it has the defaults of the library", func(t *testing.T) {
		info := d.find(ask[int64](d, fmt.Sprintf(`select %s('work')`, fn)))
		if info.Queue != "default" || info.MaxAttempts != later.DefaultMaxAttempts || info.Timeout != later.DefaultTimeout ||
			string(info.Payload) != "{}" || info.State != later.StateReady || info.Headers != nil || !info.ExpiresAt.IsZero() {
			t.Errorf("got %+v", info)
		}
	})

	// Case 209.
	t.Run("each option is kept", func(t *testing.T) {
		info := d.find(ask[int64](d, fmt.Sprintf(`select %s(
			kind => 'mail', payload => '{"b":1, "a":1.10}', queue => 'q', priority => -3, tenant => 'acme', delay => '1 hour',
			max_attempts => 7, timeout => '1.5 seconds', expires_at => '2120-01-01 00:00:00+00', headers => '{"x":"y"}')`, fn)))
		if got, want := info.RunAt.Sub(info.CreatedAt), time.Hour; got != want {
			t.Errorf("delay: got %v, want %v", got, want)
		}
		if info.Kind != "mail" || string(info.Payload) != `{"b":1, "a":1.10}` || info.Queue != "q" || info.Priority != -3 ||
			info.Tenant != "acme" || info.MaxAttempts != 7 || info.Timeout != 1500*time.Millisecond ||
			!info.ExpiresAt.Equal(time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)) || info.Headers["x"] != "y" {
			t.Errorf("got %+v", info)
		}
		if got := d.find(ask[int64](d, fmt.Sprintf(`select %s('mail', run_at => '2110-01-01Z')`, fn))).RunAt.Year(); got != 2110 {
			t.Errorf("run_at: got the year %d", got)
		}
	})

	t.Run("a run_at that has passed becomes now", func(t *testing.T) {
		info := d.find(ask[int64](d, fmt.Sprintf(`select %s('work', run_at => '2001-01-01')`, fn)))
		if !info.RunAt.Equal(info.CreatedAt) {
			t.Errorf("run_at: got %v, want %v", info.RunAt, info.CreatedAt)
		}
	})

	t.Run("nonsense is refused", func(t *testing.T) {
		d := &db{t: t, conn: d.conn}
		d.refuses(fmt.Sprintf(`select %s('work', delay => '1 hour', run_at => now())`, fn), "both set")
		d.refuses(fmt.Sprintf(`select %s('work', delay => '-1 hour')`, fn), "negative")
		d.refuses(fmt.Sprintf(`select %s('a b')`, fn), "name_characters")
		d.refuses(fmt.Sprintf(`select %s(null)`, fn), "not-null")
		d.refuses(fmt.Sprintf(`select %s('work', timeout => '0.4 milliseconds')`, fn), "job_timeout_ms")
		d.refuses(fmt.Sprintf(`select %s('work', timeout => '25 days')`, fn), "out of range")
		d.refuses(fmt.Sprintf(`select %s('work', delay => '9000 years')`, fn), "job_run_at")
		d.refuses(fmt.Sprintf(`select %s('work', run_at => 'infinity')`, fn), "job_run_at")
	})
}

func TestViews(t *testing.T) {
	d := open(t, postgres.Config{})
	d.enqueue(3)
	d.do(fmt.Sprintf(`insert into %s (kind, run_at) values ('work', now() + interval '1 day')`, d.table("job")))
	c := d.claim(1)[0]

	var states []string
	rows, err := d.conn.Query(t.Context(), fmt.Sprintf(`select queue || ' ' || state || ' ' || count || ' ' || (oldest is not null) from %s`, d.table("status")))
	if err == nil {
		states, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(states, ", "), "default ready 2 true, default running 1 false, default scheduled 1 false"; got != want {
		t.Errorf("status: got %s, want %s", got, want)
	}
	if got := ask[bool](d, fmt.Sprintf(`select id = $1 and kind = 'work' and queue = 'default' and tenant = '' and attempt = 1
		and worker = 'worker-1' and running_for >= '0' and lease_ends_in between '59 minutes' and '1 hour' from %s`, d.table("running")), c.ID); !got {
		t.Error("running does not show the job as it is")
	}
}

// A person's hand fences the worker as another claim does. Cases 67 and 77.
func TestHandsFenceTheWorker(t *testing.T) {
	for _, test := range []struct {
		name       string
		statements []string
	}{
		{"a job that was freed", []string{
			`update {job} set lease_until = null, lease_token = null, lease_holder = null, claimed_at = null`,
		}},
		{"a job that was deleted", []string{`delete from {job}`}},
		{"a job that was deleted and put back", []string{
			`create temporary table kept as select id, kind, payload from {job}`,
			`delete from {job}`,
			`insert into {job} (id, kind, payload) overriding system value select id, kind, payload from kept`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := open(t, postgres.Config{})
			d.enqueue(1)
			c := d.claimJust(1)[0]
			for _, statement := range test.statements {
				d.do(strings.ReplaceAll(statement, "{job}", d.table("job")))
			}
			before := ask[int64](d, fmt.Sprintf(`select coalesce(sum(hashtext(j::text)), 0) from %s j`, d.table("job")))

			for _, outcome := range []later.Outcome{
				later.OutcomeDone, later.OutcomeRetry, later.OutcomeDead, later.OutcomeSnoozed, later.OutcomeReleased,
				later.OutcomeCancelled, later.OutcomeExpired,
			} {
				refused, err := d.Settle(t.Context(), settlements(outcome, c))
				if err != nil || len(refused) != 1 || refused[0] != c.Lease {
					t.Errorf("Settle %s: got %v, %v, want it refused", outcome, refused, err)
				}
			}
			if renewed, err := d.Renew(t.Context(), []later.Lease{c.Lease}, time.Hour); err != nil || len(renewed.Lost) != 1 {
				t.Errorf("Renew: got %v, %v, want it lost", renewed, err)
			}
			if err := d.Checkpoint(t.Context(), c.Lease, []byte(`1`)); !errors.Is(err, later.ErrLeaseLost) {
				t.Errorf("Checkpoint: got %v, want %v", err, later.ErrLeaseLost)
			}
			tx, err := d.conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := d.DoneTx(t.Context(), tx, c); !errors.Is(err, later.ErrLeaseLost) || c.SettledInTx() {
				t.Errorf("DoneTx: got %v, want %v", err, later.ErrLeaseLost)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := ask[int64](d, fmt.Sprintf(`select coalesce(sum(hashtext(j::text)), 0) from %s j`, d.table("job"))); got != before {
				t.Error("the late worker has changed the row")
			}
		})
	}
}

// Case 67: the token of a job that was requeued by hand is not the one it had.
func TestTokensAreNeverGivenTwice(t *testing.T) {
	d := open(t, postgres.Config{})
	id := d.enqueue(1)[0]
	tokens := map[int64]bool{}
	for range 20 {
		c := d.claimJust(1)[0]
		if tokens[c.Lease.Token] {
			t.Fatalf("the token %d was given twice", c.Lease.Token)
		}
		tokens[c.Lease.Token] = true
		d.do(fmt.Sprintf(`update %s set attempt = 0, lease_until = null, lease_token = null, lease_holder = null, claimed_at = null where id = $1`, d.table("job")), id)
	}
}

// Case 179: ids past 2³¹.
func TestLargeIDs(t *testing.T) {
	d := open(t, postgres.Config{})
	d.do(fmt.Sprintf(`alter table %s alter column id restart with 2147483647`, d.table("job")))
	ids := d.enqueue(3)
	if got, want := ids[2], int64(2147483649); got != want {
		t.Fatalf("id: got %d, want %d", got, want)
	}
	jobs := d.claimJust(3)
	d.settle(later.OutcomeDone, jobs[0])
	d.settle(later.OutcomeDead, jobs[2])
	if err := d.Retry(t.Context(), ids[2]); err != nil {
		t.Fatal(err)
	}
	if got := d.find(ids[2]); got.ID != ids[2] || got.State != later.StateReady || len(got.Log) != 1 || got.Log[0].JobID != ids[2] {
		t.Errorf("got %+v", got)
	}
}

// Comments are where a person at the prompt looks first.
func TestEverythingHasAComment(t *testing.T) {
	d := open(t, postgres.Config{})
	got := ask[[]string](d, `
		select array(
			select c.relname::text from pg_class c
			where c.relnamespace = $1::text::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
			  and obj_description(c.oid, 'pg_class') is null
			union all
			select a.attname::text from pg_attribute a
			where a.attrelid = $2::regclass and a.attnum > 0 and not a.attisdropped and col_description(a.attrelid, a.attnum) is null
			union all
			select p.proname::text from pg_proc p
			where p.pronamespace = $1::text::regnamespace and obj_description(p.oid, 'pg_proc') is null
			union all
			select t.typname::text from pg_type t
			where t.typnamespace = $1::text::regnamespace and t.typtype = 'd' and obj_description(t.oid, 'pg_type') is null)`,
		d.schema, d.table("job"))
	if len(got) > 0 {
		t.Errorf("without a comment: %v", got)
	}
}

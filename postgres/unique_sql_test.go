package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

func TestUniqueByHand(t *testing.T) {
	d := open(t, postgres.Config{})
	job := d.table("job")
	insert := fmt.Sprintf(`insert into %s (kind, unique_key) values ('work', 'k')`, job)

	t.Run("a plain insert takes the key, and a second one is refused", func(t *testing.T) {
		d := &db{Store: d.Store, t: t, conn: d.conn, schema: d.schema}
		id := ask[int64](d, insert+` returning id`)
		d.refuses(insert, "job_unique")
		d.do(insert + ` on conflict do nothing`)
		d.do(insert + ` on conflict (tenant, kind, unique_key) where unique_key is not null do update set payload = '{"by":"hand"}'`)
		if got := d.find(id); string(got.Payload) != `{"by":"hand"}` || got.UniqueKey != "k" || got.UniqueUntil != later.UntilDone {
			t.Errorf("got %+v", got)
		}
		if got, want := d.enqueueUnique(later.Unique{Key: "k"}), (later.Enqueued{ID: id, Outcome: later.Skipped, Holder: later.StateReady}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		d.do(`update `+job+` set unique_key = null where id = $1`, id)
		if got := d.enqueueUnique(later.Unique{Key: "k"}); got.Outcome != later.Inserted {
			t.Errorf("after the key was freed: got %+v, want a new job", got)
		}
	})

	t.Run("nonsense is refused with the constraint's name", func(t *testing.T) {
		d := &db{Store: d.Store, t: t, conn: d.conn}
		for _, row := range []struct{ key, until, names string }{
			{`''`, `null`, "unique_key_length"}, {`repeat('é', 101)`, `null`, "unique_key_length"},
			{`E'a\n'`, `null`, "unique_key_characters"}, {`E'a\u007f'`, `null`, "unique_key_characters"}, {`E'\u0085'`, `null`, "unique_key_characters"},
			{`'k2'`, `'window'`, "unique_until_word"}, {`'k2'`, `''`, "unique_until_word"},
		} {
			d.refuses(fmt.Sprintf(`insert into %s (kind, unique_key, unique_until) values ('work', %s, %s)`, job, row.key, row.until), row.names)
		}
	})

	// The table may refuse nothing that Build accepts.
	t.Run("no character is refused by the table and not by Build", func(t *testing.T) {
		rows, err := d.conn.Query(t.Context(), `
			select code from generate_series(1, 1114111) as code
			where code not between 55296 and 57343 and chr(code) ~ '[\u0001-\u001f\u007f-\u009f]'`)
		if err != nil {
			t.Fatal(err)
		}
		codes, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codes {
			if !unicode.IsControl(rune(code)) {
				t.Errorf("%U is refused by the table, and is no control character", code)
			}
		}
		if len(codes) != 64 || !strings.Contains(d.MigrationSQL(false), `'[\u0001-\u001f\u007f-\u009f]'`) {
			t.Errorf("got %d characters; the pattern here is not the migration's", len(codes))
		}
	})
}

// All that the library can do with keys, for those who have only SQL.
func TestEnqueueFunctionWithKeys(t *testing.T) {
	d := open(t, postgres.Config{})
	fn := d.table("enqueue")
	call := func(t *testing.T, args string) int64 {
		t.Helper()
		return ask[int64](&db{t: t, conn: d.conn}, fmt.Sprintf(`select %s(%s)`, fn, args))
	}

	t.Run("it returns the holder's id, and changes it as it is told", func(t *testing.T) {
		const k = `'work', unique_key => 'k', delay => '1 hour'`
		id := call(t, k+`, queue => 'q', priority => 3, tenant => 'acme', timeout => '90 seconds', max_attempts => 7, headers => '{"a":"b"}'`)
		if got := d.find(id); got.Queue != "q" || got.Priority != 3 || got.Tenant != "acme" || got.Timeout != 90*time.Second ||
			got.MaxAttempts != 7 || got.Headers["a"] != "b" || got.UniqueKey != "k" || got.RunAt.Sub(got.CreatedAt) != time.Hour {
			t.Errorf("got %+v", got)
		}
		for _, args := range []string{``, `, payload => '{"new":1}'`, `, on_conflict => 'skip'`, `, on_conflict => null, unique_until => null`} {
			if got := call(t, k+`, tenant => 'acme'`+args); got != id {
				t.Errorf("%s: got %d, want %d", args, got, id)
			}
		}
		if got := string(d.find(id).Payload); got != "{}" {
			t.Errorf("got the payload %s, want it as it was", got)
		}
		call(t, k+`, tenant => 'acme', on_conflict => 'replace', payload => '{"b":1, "a":1.10}'`)
		if got := string(d.find(id).Payload); got != `{"b":1, "a":1.10}` {
			t.Errorf("got the payload %s", got)
		}
		call(t, `'work', unique_key => 'k', tenant => 'acme', delay => '3 hours', on_conflict => 'both', latest => '2 hours'`)
		if got := d.find(id); got.RunAt.Sub(got.CreatedAt) != 2*time.Hour || string(got.Payload) != "{}" {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("texts of any collation will do", func(t *testing.T) {
		id := call(t, `'work', unique_key => 'collated'`)
		if got := call(t, `'work', unique_key => 'collated' collate "POSIX"`); got != id {
			t.Errorf("got %d, want %d", got, id)
		}
		d.settle(later.OutcomeDone, d.claimJust(1)...)
	})

	t.Run("a key until the start, and one for a window", func(t *testing.T) {
		started := call(t, `'work', unique_key => 's', unique_until => 'started'`)
		if got := call(t, `'work', unique_key => 's'`); got != started {
			t.Errorf("got %d, want %d", got, started)
		}
		d.settle(later.OutcomeDone, d.claimJust(1)...)
		window := call(t, `'work', unique_key => 'w', unique_window => '1 day', sliding => true`)
		d.settle(later.OutcomeDone, d.claimJust(1)...)
		if got := call(t, `'work', unique_key => 'w', unique_window => '1 day', sliding => true`); got != window {
			t.Errorf("got %d, want %d", got, window)
		}
	})

	t.Run("nonsense is refused", func(t *testing.T) {
		d := &db{t: t, conn: d.conn}
		for args, names := range map[string]string{
			`'work', unique_until => 'started'`: "unique_key is not set", `'work', unique_window => '1 hour'`: "unique_key is not set",
			`'work', on_conflict => 'replace'`: "unique_key is not set", `'work', latest => '1 hour'`: "unique_key is not set", `'work', sliding => true`: "unique_key is not set",
			`'work', unique_key => 'n', unique_until => 'window'`:                            "unique_window",
			`'work', unique_key => 'n', unique_until => 'dawn'`:                              "done and started",
			`'work', unique_key => 'n', unique_window => '0'`:                                "unique_window goes from",
			`'work', unique_key => 'n', unique_window => '366 days'`:                         "unique_window goes from",
			`'work', unique_key => 'n', unique_window => '1 day', unique_until => 'started'`: "without unique_until",
			`'work', unique_key => 'n', sliding => true`:                                     "no unique_window",
			`'work', unique_key => 'n', on_conflict => 'ignore'`:                             "skip, replace, postpone and both",
			`'work', unique_key => 'n', on_conflict => 'postpone'`:                           "latest belongs",
			`'work', unique_key => 'n', latest => '1 hour'`:                                  "latest belongs",
			`'work', unique_key => ''`:                                                       "unique_key_length",
			`'work', unique_key => 'n', tenant => ' x'`:                                      "tenant_no_space",
			`'a b', unique_key => 'n'`:                                                       "name_characters",
			`'work', unique_key => 'n', timeout => '25 days'`:                                "out of range",
			`'work', unique_key => 'n', delay => '1 hour', run_at => now()`:                  "both set",
		} {
			d.refuses(fmt.Sprintf(`select %s(%s)`, fn, args), names)
		}
	})
}

// Case 116: the function and the library cut time in the same way, in any session.
func TestWindowEndInSQL(t *testing.T) {
	d := open(t, postgres.Config{})
	d.do(`set timezone = 'Asia/Kathmandu'`) // 5:45, and other zones have days of 23 hours
	rapid.Check(t, func(rt *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(rt, "at")).UTC()
		if rapid.Bool().Draw(rt, "on a boundary") {
			at = at.Truncate(time.Hour)
		}
		width := rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 7 * time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, later.MaxWindow}).Draw(rt, "width")
		u := later.Unique{Window: width, Sliding: rapid.Bool().Draw(rt, "sliding")}
		got := ask[time.Time](d, fmt.Sprintf(`select %s($1::timestamptz, $2::bigint * interval '1 millisecond', $3)`, d.table("window_end")), at, width.Milliseconds(), u.Sliding)
		if want := u.WindowEnd(at); !got.Equal(want) {
			rt.Fatalf("%v from %v, sliding %v: got %v, want %v", width, at, u.Sliding, got.UTC(), want)
		}
	})
	d.do(`set timezone = 'America/New_York'`)
	got := ask[time.Time](d, fmt.Sprintf(`select %s('2026-10-31 12:00:00+00', '1 day', true)`, d.table("window_end"))) // the clocks go back
	if want := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("a day over the end of summer time: got %v, want %v", got.UTC(), want)
	}
}

func TestMaintainForgetsWindows(t *testing.T) {
	d := open(t, postgres.Config{})
	held := d.enqueueUnique(later.Unique{Key: "held", Until: later.ForWindow, Window: time.Hour})
	d.do(fmt.Sprintf(`insert into %s (tenant, kind, key, ends_at, job_id) select '', 'work', 'key-' || n, now() - n * interval '1 ms', n from generate_series(0, 25000) n`, d.table("key_window")))
	if err := d.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask[string](d, `select string_agg(key || ' ' || job_id, ',') from `+d.table("key_window")); got != fmt.Sprintf("held %d", held.ID) {
		t.Errorf("got %s, want the window that has not ended", got)
	}
}

// Case 229: a program from before the keys claims a job that is unique until it starts,
// and buries one that is unique until it is done.
func TestUniqueBesideOlderPrograms(t *testing.T) {
	d := open(t, postgres.Config{})
	started, done := later.Unique{Key: "started", Until: later.UntilStarted}, later.Unique{Key: "done"}
	lost := d.enqueueUnique(later.Unique{Key: "lost", Until: later.UntilStarted})
	d.do(fmt.Sprintf(`update %s set attempt = 1, lease_until = now() - interval '1 hour', lease_token = 7, lease_holder = 'old', claimed_at = now()`, d.table("job")))
	d.claimJust(1)
	if got := d.find(lost.ID).UniqueKey; got != "" {
		t.Errorf("job %d has the key %q still, although it was claimed twice", lost.ID, got)
	}
	first, second := d.enqueueUnique(started), d.enqueueUnique(done)
	d.do(fmt.Sprintf(`update %s set attempt = 1, lease_until = now() + interval '1 hour', lease_token = 7, lease_holder = 'old', claimed_at = now() where unique_key is not null`, d.table("job")))
	next := d.enqueueUnique(started)
	if next.Outcome != later.Inserted || next.ID == first.ID {
		t.Errorf("got %+v, want a new job, because job %d has started", next, first.ID)
	}
	if got := d.enqueueUnique(done); got.ID != second.ID || got.Outcome != later.Skipped || got.Holder != later.StateRunning {
		t.Errorf("got %+v, want job %d, which runs", got, second.ID)
	}
	d.do(fmt.Sprintf(`with died as (delete from %s where id = $1 returning *)
		insert into %s (id, run_at, created_at, expires_at, attempt, max_attempts, timeout_ms, failures, crashes, generation, priority,
			queue, kind, tenant, reason, error, payload, headers, errors, checkpoint)
		select id, run_at, created_at, expires_at, attempt, max_attempts, timeout_ms, failures, crashes, generation, priority,
			queue, kind, tenant, 'failed', 'x', payload, headers, errors, checkpoint from died`, d.table("job"), d.table("dead_job")), second.ID)
	if got := d.enqueueUnique(done); got.Outcome != later.Inserted {
		t.Errorf("got %+v, want a new job", got)
	}
	if err := d.Retry(t.Context(), second.ID); err != nil {
		t.Errorf("Retry of a job whose key the older program did not keep: %v", err)
	}
}

// A dead job that somebody has copied back by hand, and left where it was, dies again
// with the key that it had then.
func TestDeadTwiceWithAKey(t *testing.T) {
	d := open(t, postgres.Config{})
	id := d.enqueueUnique(later.Unique{Key: "first"}).ID
	d.settle(later.OutcomeDead, d.claimJust(1)...)
	d.do(fmt.Sprintf(`insert into %s (id, kind, unique_key) overriding system value values ($1, 'work', 'second')`, d.table("job")), id)
	d.settle(later.OutcomeDead, d.claimJust(1)...)
	if got := d.find(id); got.State != later.StateDead || got.UniqueKey != "second" {
		t.Errorf("got %s with the key %q, want it dead with the second one", got.State, got.UniqueKey)
	}
}

// What people have granted on what the migration replaces or complements is granted
// on that, too.
func TestUniqueMigrationKeepsRights(t *testing.T) {
	d := open(t, postgres.Config{})
	if err := d.MigrateDown(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	role, _ := d.role()
	d.do("alter role " + role + " nosuperuser")
	t.Cleanup(func() {
		if _, err := d.conn.Exec(context.Background(), "drop owned by "+role); err != nil {
			t.Error(err)
		}
	})
	has := func(what string) []bool {
		t.Helper()
		return ask[[]bool](d, fmt.Sprintf(`select array[
			has_function_privilege('%[1]s', p.oid, 'execute'), has_function_privilege('public', p.oid, 'execute'),
			has_function_privilege('%[1]s', p.oid, 'execute with grant option')]
			from pg_proc p where p.proname = 'enqueue' and p.pronamespace = $1::text::regnamespace`, role), d.schema)
	}
	d.do(fmt.Sprintf("revoke execute on function %s from public", d.table("enqueue")))
	d.do(fmt.Sprintf("grant execute on function %s to %s with grant option", d.table("enqueue"), role))
	d.do(fmt.Sprintf("grant select, insert on %s to %s", d.table("job"), role))
	before := fmt.Sprint(has("before"))
	if before != "[true false true]" {
		t.Fatalf("before: got %s", before)
	}
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(has("up")); got != before {
		t.Errorf("after the migration: got %s, want %s", got, before)
	}
	rights := ask[[]string](d, `select array_agg(privilege_type::text order by privilege_type) from information_schema.table_privileges
		where table_schema = $1 and table_name = 'key_window' and grantee = $2`, d.schema, role)
	if got := fmt.Sprint(rights); got != "[INSERT SELECT]" {
		t.Errorf("rights on windows: got %s, want those on jobs", got)
	}
	if err := d.MigrateDown(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(has("down")); got != before {
		t.Errorf("on the way back: got %s, want %s", got, before)
	}
}

// The error of a key whose holder a policy hides is an error, and not a loop.
func TestUniqueWhoseHolderIsHidden(t *testing.T) {
	d := open(t, postgres.Config{})
	holder := d.enqueueUnique(later.Unique{Key: "k"})
	role, url := d.role()
	d.do("alter role " + role + " nosuperuser")
	d.do("grant usage on schema " + d.schema + " to " + role)
	d.do(fmt.Sprintf("grant select, insert, update on all tables in schema %s to %s", d.schema, role))
	d.do("alter table " + d.table("job") + " enable row level security")
	d.do(fmt.Sprintf("create policy blind on %s for select using (id <> %d)", d.table("job"), holder.ID))
	d.do("create policy enqueues on " + d.table("job") + " for insert with check (true)")
	defer d.do("drop owned by " + role)
	store, err := postgres.Open(t.Context(), url, postgres.Config{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = store.Enqueue(t.Context(), work(`{}`), unique("k"))
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || !strings.Contains(pg.Message, `the key 'k' is taken, but its holder cannot be seen`) || !errors.Is(err, later.ErrUnavailable) {
		t.Errorf("got %v, want it to say that the holder cannot be seen", err)
	}
}

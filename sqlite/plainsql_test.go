package sqlite_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

func TestPlainInsert(t *testing.T) {
	t.Run("with kind and payload alone is a valid enqueue", func(t *testing.T) {
		path := tempFile(t)
		s := openStore(t, path, sqlite.Config{})
		mustExec(t, plain(t, path), `insert into later_job (kind, payload) values ('work', '{"order_id": 42}')`)
		c := claimOne(t, s)
		if got, want := string(c.Payload), `{"order_id": 42}`; got != want {
			t.Errorf("payload %s, want %s", got, want)
		}
		if c.Queue != later.DefaultQueue || c.Priority != 0 || c.Tenant != "" || c.MaxAttempts != later.DefaultMaxAttempts ||
			c.Timeout != later.DefaultTimeout || !c.ExpiresAt.IsZero() || c.Headers != nil || !c.RunAt.Equal(c.CreatedAt) {
			t.Errorf("the defaults of the table are not those of Options: %+v", c.Record)
		}
		settle(t, s, later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDone})
	})

	// Cases 1, 11, 16, 58, 85, 127: what no worker could run is refused.
	t.Run("refuses nonsense", func(t *testing.T) {
		path := tempFile(t)
		openStore(t, path, sqlite.Config{})
		db := plain(t, path)
		for _, row := range []struct{ column, value, constraint string }{
			{"kind", `''`, "kind_is_a_name"},
			{"kind", `'a b'`, "kind_is_a_name"},
			{"kind", `'-a'`, "kind_is_a_name"},
			{"kind", `'café'`, "kind_is_a_name"},
			{"kind", `'a' || char(0)`, "kind_is_a_name"},
			{"kind", `'` + strings.Repeat("a", 101) + `'`, "kind_is_a_name"},
			{"kind", `null`, "NOT NULL"},
			{"queue", `'foo/bar'`, "queue_is_a_name"},
			{"tenant", `' a'`, "tenant_is_printable"},
			{"tenant", `char(10)`, "tenant_is_printable"},
			{"tenant", `'` + strings.Repeat("é", 101) + `'`, "tenant_is_printable"},
			{"priority", `'high'`, "cannot store TEXT"},
			{"priority", `1.5`, "cannot store REAL"},
			{"priority", `null`, "NOT NULL"},
			{"priority", `32768`, "priority_is_a_smallint"},
			{"priority", `-32769`, "priority_is_a_smallint"},
			{"priority", `-9223372036854775808`, "priority_is_a_smallint"},
			{"run_at", `'2026-01-01'`, "cannot store TEXT"},
			{"run_at", `253402300800000`, "run_at_is_in_years_1_to_9999"},
			{"run_at", `null`, "NOT NULL"},
			{"expires_at", `253402300800000`, "expires_at_is_in_years_1_to_9999"},
			{"attempt", `-1`, "attempt_is_a_count"},
			{"attempt", `2147483648`, "attempt_is_a_count"},
			{"max_attempts", `0`, "max_attempts_is_1_or_more"},
			{"timeout_ms", `0`, "timeout_is_1_ms_to_24_days"},
			{"headers", `'[]'`, "headers_are_a_json_object"},
			{"headers", `'{'`, "headers_are_a_json_object"},
			{"payload", `'{"a":'`, "payload_is_json"},
			{"payload", `''`, "payload_is_json"},
			{"payload", `'{}' || char(0)`, "payload_is_json"},
			{"payload", `x'7b7d'`, "cannot store BLOB"},
			{"payload", `'{"s":"a\u0000b"}'`, "payload_has_no_nul_escape"},
			{"payload", `'{"\u0000":1}'`, "payload_has_no_nul_escape"},
			{"payload", `'[[["\\\u0000"]]]'`, "payload_has_no_nul_escape"},
			{"payload", `'"' || printf('%*c', 10485759, 'x') || '"'`, "payload_is_at_most_10_mib"},
			{"id", `0`, "id_is_under_2_to_53"},
			{"id", `9223372036854775807`, "id_is_under_2_to_53"},
		} {
			columns := map[string]string{"kind": `'work'`, "payload": `'{}'`}
			columns[row.column] = row.value
			var names, values []string
			for name, value := range columns {
				names, values = append(names, name), append(values, value)
			}
			_, err := db.Exec(fmt.Sprintf(`insert into later_job (%s) values (%s)`, strings.Join(names, ", "), strings.Join(values, ", ")))
			if err == nil || !strings.Contains(err.Error(), row.constraint) {
				t.Errorf("%s %.40s: got %v, want %s", row.column, row.value, err, row.constraint)
			}
		}
		if got := one[int](t, db, `select count(*) from later_job`); got != 0 {
			t.Errorf("%d rows, want 0", got)
		}
	})

	// Case 1: the harmless twin of a NUL escape, and neighbours of it.
	t.Run("accepts an escaped backslash before u0000", func(t *testing.T) {
		path := tempFile(t)
		s := openStore(t, path, sqlite.Config{})
		db := plain(t, path)
		payloads := []string{`{"s":"a\\u0000b"}`, `"\\\\u0000"`, `"\u00000"`[:0] + `"\u0001"`, `"u0000"`}
		for _, p := range payloads {
			mustExec(t, db, `insert into later_job (kind, payload) values ('work', ?)`, p)
		}
		for i, c := range claim(t, s, len(payloads)) {
			if got := string(c.Payload); got != payloads[i] {
				t.Errorf("payload %s, want %s", got, payloads[i])
			}
		}
	})
}

// A job that passes later.Build passes every constraint of the table: an SQL
// error in the caller's transaction would be the caller's trouble.
func TestConstraintsRefuseNoBuiltJob(t *testing.T) {
	s := openStore(t, ":memory:", sqlite.Config{})
	accepted := 0
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}`)
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\\"u0dDcC8-9 ]{0,12}`))
		payload := rapid.OneOf(
			rapid.Map(text, func(s string) string { return fmt.Sprintf("%q", s) }),
			rapid.Map(text, func(s string) string { return `{"` + s + `":[1e5,-0,0.10,null]}` }),
			rapid.StringMatching(`[ \n\t]?(\[{0,400})[0-9]{1,300}(\]{0,400})`),
			rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?`),
		).Draw(r, "payload")
		opts := later.Options{
			Queue: name.Draw(r, "queue"), Tenant: rapid.StringN(0, 60, 200).Draw(r, "tenant"),
			Priority:    rapid.Int16().Draw(r, "priority"),
			MaxAttempts: rapid.IntRange(0, later.UnlimitedAttempts).Draw(r, "attempts"),
			Timeout:     time.Duration(rapid.Int64Range(0, int64(later.MaxTimeout)).Draw(r, "timeout")),
			RunAt:       time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(r, "run_at"), rapid.Int64Range(0, 999999999).Draw(r, "ns")),
			ExpiresIn:   time.Duration(rapid.Int64Min(0).Draw(r, "expires_in")),
			Headers:     map[string]string{name.Draw(r, "header"): rapid.StringN(0, 200, 2000).Draw(r, "value")},
		}
		_, err := s.Enqueue(t.Context(), later.RawArgs{JobKind: name.Draw(r, "kind"), Payload: []byte(payload)}, opts)
		if err != nil && !errors.Is(err, later.ErrInvalid) {
			r.Fatal(err)
		}
		if err == nil {
			accepted++
		}
	})
	if accepted == 0 {
		t.Error("no job passed Build, so nothing was tested")
	}
}

// Case 11: a row that was written by hand against all rules comes alone, and the
// good ones beside it come too.
func TestRowsByHand(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, sqlite.Config{})
	db := plain(t, path, "ignore_check_constraints(1)")
	mustExec(t, db, `insert into later_job (kind, payload) values ('work', '{"a":')`)
	mustExec(t, db, `insert into later_job (kind, payload, headers) values ('work', '{}', '{"n": 1, "s": "x"}')`)
	mustExec(t, db, `insert into later_job (kind, payload, headers, errors) values ('work', '{}', '[', 'no json')`)
	mustExec(t, db, `insert into later_job (kind, payload, priority, timeout_ms, max_attempts, generation, crashes)
		values ('work', '{}', 99999, 9223372036854775807, 9223372036854775807, 9223372036854775807, -7)`)
	// Case 85: a saturated counter.
	mustExec(t, db, `insert into later_job (kind, payload, attempt) values ('work', '{}', 2147483647)`)
	mustExec(t, db, `insert into later_job (kind, payload, attempt, crashes) values ('work', '{}', 9223372036854775807, 0)`)
	mustExec(t, db, `insert into later_job (kind, payload, run_at, expires_at) values ('work', '{}', -9223372036854775807, 9223372036854775807)`)
	// Case 73: a lease without an owner.
	mustExec(t, db, `insert into later_job (kind, payload, lease_until) values ('work', '{}', 1)`)
	for range 10 {
		enqueue(t, s, later.Options{})
	}

	claimed := claim(t, s, 100)
	if len(claimed) != 18 {
		t.Fatalf("claimed %d jobs, want 18", len(claimed))
	}
	byID := map[int64]*later.Claimed{}
	for _, c := range claimed {
		byID[c.ID] = c
	}
	if got := string(byID[1].Payload); got != `{"a":` {
		t.Errorf("payload %q, want it as it was written", got)
	}
	if got := byID[2].Headers; got["n"] != "1" || got["s"] != "x" {
		t.Errorf("headers %v, want n and s", got)
	}
	if got := byID[3].Errors; len(got) != 1 || got[0].Error != "no json" {
		t.Errorf("errors %v, want the text", got)
	}
	if got := byID[4]; got.Priority != 32767 || got.Timeout <= 0 {
		t.Errorf("priority %d, timeout %v, want the limits", got.Priority, got.Timeout)
	}
	if got := byID[5].Attempt; got != later.UnlimitedAttempts {
		t.Errorf("attempt %d, want %d", got, later.UnlimitedAttempts)
	}
	if byID[8].LostAt.IsZero() || byID[8].Crashes != 1 {
		t.Errorf("a lease without an owner: %+v, want it to count as lost", byID[8])
	}
	for _, c := range claimed {
		settle(t, s, later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDone})
	}
}

// What people see in SQL is what the library says.
func TestViews(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, sqlite.Config{})
	db := plain(t, path)
	enqueue(t, s, later.Options{Delay: time.Hour})
	enqueue(t, s, later.Options{})
	running := claimOne(t, s)
	enqueue(t, s, later.Options{Priority: -1})
	retried := claimOne(t, s)
	settle(t, s, later.Settlement{Lease: retried.Lease, Outcome: later.OutcomeRetry, Delay: time.Hour})
	enqueue(t, s, later.Options{Priority: -1})
	dead := claimOne(t, s)
	settle(t, s, later.Settlement{Lease: dead.Lease, Outcome: later.OutcomeDead, Reason: later.DeadFailed, Error: "boom"})
	enqueue(t, s, later.Options{Priority: -1, Queue: "other"})
	mustExec(t, db, `update later_job set lease_until = 5, lease_token = 5, lease_holder = 'gone', claimed_at = 4 where queue = 'other'`)
	enqueue(t, s, later.Options{})

	status, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, row := range status {
		oldest := "-"
		if !row.Oldest.IsZero() {
			oldest = row.Oldest.Format("2006-01-02 15:04:05.000")
		}
		fmt.Fprintln(&want, row.Queue, row.State, row.Count, oldest)
	}
	rows, err := db.Query(`select queue, state, count, coalesce(oldest, '-') from later_status`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got strings.Builder
	states := 0
	for rows.Next() {
		var queue, state, oldest string
		var count int
		if err := rows.Scan(&queue, &state, &count, &oldest); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&got, queue, state, count, oldest)
		states++
	}
	if got.String() != want.String() || states != 6 {
		t.Errorf("later_status has\n%swant, of all six states,\n%s", got.String(), want.String())
	}

	if got := one[string](t, db, `select worker || ' ' || state from later_running where id = ?`, running.ID); got != "worker-1 running" {
		t.Errorf("later_running: %q", got)
	}
	if got := one[string](t, db, `select worker || ' ' || state || ' ' || lease_until from later_running where queue = 'other'`); got != "gone lost 1970-01-01 00:00:00.005" {
		t.Errorf("later_running: %q", got)
	}
	info, err := s.Find(t.Context(), running.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := one[string](t, db, `select run_at from later_job_readable where id = ?`, running.ID), info.RunAt.Format("2006-01-02 15:04:05.000"); got != want {
		t.Errorf("later_job_readable: run_at %q, want %q", got, want)
	}
	if got := one[string](t, db, `select reason || ' ' || error from later_dead_job_readable`); got != "failed boom" {
		t.Errorf("later_dead_job_readable: %q", got)
	}
}

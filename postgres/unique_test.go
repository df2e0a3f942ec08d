package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

func unique(key string) later.Options {
	return later.Options{Unique: &later.Unique{Key: key}}
}

func (d *db) enqueueUnique(u later.Unique) later.Enqueued {
	d.t.Helper()
	done, err := d.Enqueue(d.t.Context(), work(`{}`), later.Options{Unique: &u})
	if err != nil {
		d.t.Fatal(err)
	}
	return done
}

// at is a store on the same tables whose sessions have the settings given.
func (d *db) at(settings string) *postgres.Store {
	d.t.Helper()
	store, err := postgres.Open(d.t.Context(), d.url+settings, postgres.Config{Schema: d.schema})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { store.Close() })
	return store
}

// everyUnique is a key in each way to hold one.
var everyUnique = []later.Unique{
	{Key: "k"}, {Key: "k", Until: later.UntilStarted}, {Key: "k", Until: later.ForWindow, Window: time.Hour},
	{Key: "k", Until: later.ForWindow, Window: time.Hour, Sliding: true},
}

// Case 115. A duplicate takes no number from the sequence; in a transaction it writes
// nothing, and locks nothing.
func TestDuplicatesCostNothing(t *testing.T) {
	d := open(t, postgres.Config{})
	for _, u := range everyUnique {
		t.Run(u.Until.String(), func(t *testing.T) {
			d := &db{Store: d.Store, t: t, conn: d.conn, schema: d.schema}
			d.do(fmt.Sprintf("truncate %s, %s", d.table("job"), d.table("key_window")))
			first := d.enqueueUnique(u)
			last := ask[int64](d, `select last_value from pg_sequences where schemaname = $1 and sequencename = 'job_id_seq'`, d.schema)
			for range 1500 {
				if got := d.enqueueUnique(u); got.ID != first.ID || got.Outcome != later.Skipped {
					t.Fatalf("got %+v, want it skipped", got)
				}
			}
			if got := ask[int64](d, `select last_value from pg_sequences where schemaname = $1 and sequencename = 'job_id_seq'`, d.schema); got != last {
				t.Errorf("the sequence went from %d to %d", last, got)
			}
			tx, err := d.conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := d.EnqueueTx(t.Context(), tx, work(`{}`), later.Options{Unique: &u}); err != nil {
				t.Fatal(err)
			}
			var wrote, locked bool
			if err := tx.QueryRow(t.Context(), `select txid_current_if_assigned() is not null, exists (
				select from pg_locks where pid = pg_backend_pid() and locktype in ('tuple', 'transactionid'))`).Scan(&wrote, &locked); err != nil {
				t.Fatal(err)
			}
			if wrote || locked {
				t.Errorf("the transaction has written: %v, and locked: %v", wrote, locked)
			}
		})
	}
}

// A look that was planned while the table was empty, and kept, goes through its index
// when there are many jobs, also of the same kind and tenant.
func TestLookAtTheHolderReadsLittle(t *testing.T) {
	d := open(t, postgres.Config{})
	d.do(fmt.Sprintf("alter table %s set (autovacuum_enabled = off)", d.table("job")))
	d.do(fmt.Sprintf("alter table %s set (autovacuum_enabled = off)", d.table("key_window")))
	enqueue := func(tx pgx.Tx, u later.Unique) {
		t.Helper()
		if _, err := d.EnqueueTx(t.Context(), tx, work(`{}`), later.Options{Unique: &u}); err != nil {
			t.Fatal(err)
		}
	}
	inTx := func(do func(tx pgx.Tx)) {
		t.Helper()
		if err := pgx.BeginFunc(t.Context(), d.conn, func(tx pgx.Tx) error { do(tx); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	d.do("vacuum analyze " + d.table("job") + ", " + d.table("key_window")) // known to be empty
	for range 10 {                                                          // enough for a plan to be kept
		inTx(func(tx pgx.Tx) {
			for _, u := range everyUnique {
				u.OnConflict = later.Replace
				enqueue(tx, u)
			}
		})
		d.do("delete from " + d.table("job")) // and not truncate, after which everything is planned anew
		d.do("delete from " + d.table("key_window"))
	}
	other := connect(t, d.url)
	for _, statement := range []string{
		fmt.Sprintf(`insert into %s (kind) select 'work' from generate_series(1, 30000)`, d.table("job")),
		fmt.Sprintf(`insert into %s (kind, unique_key) select 'work', 'key-' || n from generate_series(1, 30000) n`, d.table("job")),
		fmt.Sprintf(`insert into %s (tenant, kind, key, ends_at, job_id) select '', 'work', 'key-' || n, now() + interval '1 hour', n from generate_series(1, 30000) n`, d.table("key_window")),
	} {
		if _, err := other.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	inTx(func(tx pgx.Tx) {
		counts := func() (scans, read int64) { // with what the session has not reported yet
			t.Helper()
			if err := tx.QueryRow(t.Context(), `select sum(seq_scan), sum(seq_tup_read + idx_tup_fetch) from pg_stat_xact_user_tables where relid = any($1::text[]::regclass[])`,
				[]string{d.table("job"), d.table("key_window")}).Scan(&scans, &read); err != nil {
				t.Fatal(err)
			}
			return scans, read
		}
		scansBefore, readBefore := counts()
		for _, conflict := range []later.OnConflict{later.Skip, later.Replace} {
			for _, u := range everyUnique {
				u.OnConflict = conflict
				enqueue(tx, u)
				u.Key = "key-777"
				enqueue(tx, u)
			}
		}
		scans, read := counts()
		if scans, read = scans-scansBefore, read-readBefore; scans != 0 || read > 100 {
			t.Errorf("16 requests read %d rows, with %d scans of a whole table", read, scans)
		}
	})
}

// Case 104: how long who meets a key that is not committed yet waits.
func TestWaitForAKey(t *testing.T) {
	start := func(t *testing.T, u later.Unique) (d *db, tx pgx.Tx, first later.Enqueued) {
		t.Helper()
		d = open(t, postgres.Config{})
		tx, err := d.conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Rollback(context.Background()) })
		if first, err = d.EnqueueTx(t.Context(), tx, work(`{}`), later.Options{Unique: &u}); err != nil {
			t.Fatal(err)
		}
		return d, tx, first
	}
	for _, u := range everyUnique {
		t.Run("as long as lock_timeout allows, "+u.Until.String(), func(t *testing.T) {
			d, _, _ := start(t, u)
			_, err := d.at("&lock_timeout=50").Enqueue(t.Context(), work(`{}`), later.Options{Unique: &u})
			if !errors.Is(err, later.ErrUnavailable) || !strings.Contains(err.Error(), "55P03") {
				t.Errorf("got %v, want %v because of the lock timeout", err, later.ErrUnavailable)
			}
		})

		// What was given up is not stored afterwards, when nobody waits for it any more.
		t.Run("as long as its context allows, "+u.Until.String(), func(t *testing.T) {
			d, tx, _ := start(t, u)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := d.Enqueue(ctx, work(`{}`), later.Options{Unique: &u}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
			other := &db{t: t, conn: connect(t, d.url)}
			eventually(t, "nobody waits", func() bool {
				return ask[int](other, `select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%' || $1 || '%'`, d.schema) == 0
			})
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := d.enqueueUnique(u); got.Outcome != later.Inserted {
				t.Errorf("got %+v, want the key free", got)
			}
		})
	}
}

// Who waits for a lock as long as the session lets it does not begin anew.
func TestLockTimeoutIsNotTriedAgain(t *testing.T) {
	d := open(t, postgres.Config{})
	tx, err := d.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := d.EnqueueTx(t.Context(), tx, work(`{}`), unique("k")); err != nil {
		t.Fatal(err)
	}
	other := &db{t: t, conn: connect(t, d.url)}
	store := d.at("&lock_timeout=100")
	before := ask[int64](other, "select last_value from "+d.table("job_id_seq"))
	if _, err := store.Enqueue(t.Context(), work(`{}`), unique("k")); !errors.Is(err, later.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, later.ErrUnavailable)
	}
	// Each try takes a number for the row that it would like to insert.
	if got := ask[int64](other, "select last_value from "+d.table("job_id_seq")) - before; got != 1 {
		t.Errorf("got %d tries, want 1", got)
	}
}

// The holder of a key changes while a request waits for its row.
func TestHolderThatChangesMeanwhile(t *testing.T) {
	for _, c := range []struct {
		behaviour, statement string
		want                 later.Enqueued // without the id
		payload              string         // of the first job afterwards; "" if it has gone
	}{
		{"is claimed, and not changed", `update {job} set attempt = 1, lease_until = now() + interval '1 hour', lease_token = 1, lease_holder = 'w', claimed_at = now()`,
			later.Enqueued{Outcome: later.Skipped, Holder: later.StateRunning}, `{}`},
		{"is deleted, and a new job stored", `delete from {job}`, later.Enqueued{}, ""},
		{"gives its key up, and a new job is stored", `update {job} set unique_key = null`, later.Enqueued{}, `{}`},
		{"is put off, and changed", `update {job} set run_at = now() + interval '1 hour'`,
			later.Enqueued{Outcome: later.Replaced, Holder: later.StateScheduled}, `{"new":1}`},
	} {
		t.Run("a holder that "+c.behaviour, func(t *testing.T) {
			d := open(t, postgres.Config{})
			first := d.enqueueUnique(later.Unique{Key: "k"})
			tx, err := d.conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), strings.ReplaceAll(c.statement, "{job}", d.table("job"))); err != nil {
				t.Fatal(err)
			}
			var done later.Enqueued
			answered := make(chan error, 1)
			go func() {
				var err error
				done, err = d.Enqueue(t.Context(), work(`{"new":1}`), later.Options{Unique: &later.Unique{Key: "k", OnConflict: later.Replace}})
				answered <- err
			}()
			d.awaitLock()
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-answered; err != nil {
				t.Fatal(err)
			}
			if c.want.ID = done.ID; done != c.want || (done.Outcome == later.Inserted) == (done.ID == first.ID) {
				t.Errorf("got %+v, want %+v (the first is job %d)", done, c.want, first.ID)
			}
			if c.payload != "" {
				if got := string(d.find(first.ID).Payload); got != c.payload {
					t.Errorf("the first job has the payload %s, want %s", got, c.payload)
				}
			}
		})
	}
}

// awaitLock returns when a statement on these tables waits for a lock.
func (d *db) awaitLock() {
	d.t.Helper()
	other := &db{t: d.t, conn: connect(d.t, d.url)}
	eventually(d.t, "somebody waits for a lock", func() bool {
		return ask[int](other, `select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%' || $1 || '%'`, d.schema) > 0
	})
}

// Case 79. Calls with the same keys take them in one order, also in their callers'
// transactions, which nobody can try again for them.
func TestCallsWithTheSameKeysDoNotDeadlock(t *testing.T) {
	d := open(t, postgres.Config{})
	const callers, rounds, keys = 8, 20, 15
	pool := newPool(t, d.url, nil)
	crowd(callers, func(i int) {
		order := rand.New(rand.NewPCG(uint64(i), 0))
		for round := range rounds {
			var requests []later.Request
			for _, key := range order.Perm(keys) {
				requests = append(requests, later.Request{Args: work(`{}`), Options: later.Options{
					Tenant: fmt.Sprint(round % 3), Unique: &later.Unique{Key: fmt.Sprint(round, " ", key), OnConflict: later.Replace},
				}})
			}
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := d.EnqueueManyTx(t.Context(), tx, requests)
				return err
			})
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
				return
			}
		}
	})
	if got := ask[int](d, "select count(*) from "+d.table("job")); got != rounds*keys {
		t.Errorf("got %d jobs, want %d", got, rounds*keys)
	}
}

// Case 79. A call that the server ended, because it and somebody's transaction waited
// for each other, is tried again.
func TestDeadlockIsTriedAgain(t *testing.T) {
	d := open(t, postgres.Config{})
	d.do("set deadlock_timeout = '1min'")
	tx, err := d.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	second, err := d.EnqueueTx(t.Context(), tx, work(`{}`), unique("2"))
	if err != nil {
		t.Fatal(err)
	}
	var done []later.Enqueued
	answered := make(chan error, 1)
	store := d.at("&deadlock_timeout=1000")
	go func() {
		var err error
		done, err = store.EnqueueMany(t.Context(), []later.Request{{Args: work(`{}`), Options: unique("1")}, {Args: work(`{}`), Options: unique("2")}})
		answered <- err
	}()
	d.awaitLock()
	first, err := d.EnqueueTx(t.Context(), tx, work(`{}`), unique("1")) // the other one looks for it first, and finds itself in the way
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	for i, id := range []int64{first.ID, second.ID} {
		if want := (later.Enqueued{ID: id, Outcome: later.Skipped, Holder: later.StateReady}); done[i] != want {
			t.Errorf("request %d: got %+v, want %+v", i+1, done[i], want)
		}
	}
}

// Sessions may have another default; a request is read committed all the same.
func TestUniqueAboveReadCommitted(t *testing.T) {
	d := open(t, postgres.Config{})
	for _, level := range []string{"repeatable%20read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			store := d.at("&default_transaction_isolation=" + level)
			var stored atomic.Int64
			const callers, rounds = 8, 30
			crowd(callers, func(i int) {
				for round := range rounds {
					requests := []later.Request{
						{Args: work(`{}`), Options: unique(fmt.Sprint(level, round))},
						{Args: work(`{}`), Options: later.Options{Unique: &later.Unique{Key: fmt.Sprint(level, round), Until: later.ForWindow, Window: time.Hour}}},
					}
					if i%2 == 1 {
						requests = append(requests, later.Request{Args: work(`{}`)}) // by another way
					}
					done, err := store.EnqueueMany(t.Context(), requests)
					if err != nil {
						t.Error(err)
						return
					}
					for _, one := range done[:2] {
						if one.Outcome == later.Inserted {
							stored.Add(1)
						}
					}
				}
			})
			if got := stored.Load(); got != 2*rounds {
				t.Errorf("got %d jobs stored, want %d", got, 2*rounds)
			}
		})
	}
}

// A job holds its key until it is done at the cost of one index entry when it is
// stored: claims and renewals write none.
func TestClaimsOfUniqueJobsAreHot(t *testing.T) {
	d := open(t, postgres.Config{})
	d.do(fmt.Sprintf(`alter table %s set (autovacuum_enabled = off)`, d.table("job")))
	for i := range 20 {
		d.enqueueUnique(later.Unique{Key: fmt.Sprint(i)})
	}
	jobs := d.claimJust(20)
	leases := make([]later.Lease, len(jobs))
	for i, c := range jobs {
		leases[i] = c.Lease
	}
	if _, err := d.Renew(t.Context(), leases, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil { // a session reports its counts when it ends
		t.Fatal(err)
	}
	eventually(t, "the server has counted 40 updates, all of them HOT", func() bool {
		d.do(`select pg_stat_clear_snapshot()`)
		return ask[bool](d, `select n_tup_upd = 40 and n_tup_hot_upd = 40 from pg_stat_user_tables where relid = $1::text::regclass`, d.table("job"))
	})
}

// Chunks of a call that is too large for one statement are one transaction.
func TestUniqueInManyStatements(t *testing.T) {
	d := open(t, postgres.Config{})
	payload := `"` + strings.Repeat("x", 6<<20) + `"`
	requests := []later.Request{
		{Args: work(payload), Options: unique("c")}, {Args: work(payload), Options: unique("a")},
		{Args: work(payload), Options: unique("b")}, {Args: work(payload), Options: unique("a")}, {Args: work(`1`)},
	}
	done, err := d.EnqueueMany(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	if done[3] != (later.Enqueued{ID: done[1].ID, Outcome: later.Skipped, Holder: later.StateReady}) {
		t.Errorf("got %+v for the second one, want it to meet %+v", done[3], done[1])
	}
	for i, want := range []string{"c", "a", "b"} {
		if got := d.find(done[i].ID).UniqueKey; got != want {
			t.Errorf("request %d: got the key %q, want %q", i, got, want)
		}
	}
	if got := ask[int](d, "select count(*) from "+d.table("job")); got != 4 {
		t.Errorf("got %d jobs, want 4", got)
	}
}

func TestUniqueInEachMode(t *testing.T) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			d := open(t, postgres.Config{})
			store := d.at("&default_query_exec_mode=" + mode + "&datestyle=German,%20DMY")
			opts := later.Options{RunAt: time.Date(2099, 2, 3, 4, 5, 6, 0, time.UTC), Tenant: `a,"b"{c}\d'$1 NULL é`, Unique: &later.Unique{
				Key: `k,"'{}\ $1`, OnConflict: later.ReplaceAndPostpone, Latest: 100 * 365 * 24 * time.Hour,
			}}
			for i, payload := range []string{` {"a" : 1.10} `, ` {"b" : "x\\y"} `} {
				opts.RunAt = opts.RunAt.Add(time.Hour)
				done, err := store.Enqueue(t.Context(), work(payload), opts)
				if err != nil {
					t.Fatal(err)
				}
				want := later.Enqueued{ID: done.ID}
				if i == 1 {
					want.Outcome, want.Holder = later.ReplacedAndPostponed, later.StateScheduled
				}
				got := d.find(done.ID)
				if done != want || string(got.Payload) != payload || !got.RunAt.Equal(opts.RunAt) || got.Tenant != opts.Tenant || got.UniqueKey != opts.Unique.Key {
					t.Errorf("got %+v and %+v, want %+v", done, got, want)
				}
			}
		})
	}
}

func TestUniqueThroughThePooler(t *testing.T) {
	d := open(t, postgres.Config{})
	store, err := postgres.Open(t.Context(), testdb.PgBouncer(t)+"&default_query_exec_mode=exec", postgres.Config{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var first later.Enqueued
	for i := range 5 {
		done, err := store.EnqueueMany(t.Context(), []later.Request{{Args: work(`{}`), Options: unique("k")}, {Args: work(`{}`)}})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = done[0]
		} else if done[0].ID != first.ID || done[0].Outcome != later.Skipped {
			t.Errorf("got %+v, want it skipped because of job %d", done[0], first.ID)
		}
	}
}

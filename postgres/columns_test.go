package postgres_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
)

// odd are jobs that a careless encoding would change, each with other columns set.
func odd() []later.Request {
	at := time.Date(2099, 2, 3, 4, 5, 6, 789012345, time.FixedZone("", -5400))
	tenant := `a,"b"{c}\d'$1 NULL é`
	return []later.Request{
		{Args: work(`{}`)},
		{Args: work(`{"a":"x\\y\"z", "b" : "'{,}\\u0000", "c":1.10,"c":9223372036854775807}`), Options: later.Options{Tenant: tenant}},
		{Args: work(`null`), Options: later.Options{Priority: -32768, MaxAttempts: later.UnlimitedAttempts, Timeout: later.MaxTimeout}},
		{Args: work(`""`), Options: later.Options{RunAt: at}},
		{Args: work(`[]`), Options: later.Options{Delay: time.Hour, ExpiresIn: 2 * time.Hour}},
		{Args: work(`{}`), Options: later.Options{Tenant: "NULL", RunAt: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), ExpiresAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}},
		{Args: work(` "\u00e9\/" `), Options: later.Options{Headers: map[string]string{"a": `\"',{}` + "\n\t é", "b": ""}}},
		{Args: work(`1`), Options: later.Options{Queue: "NULL", Priority: 32767, MaxAttempts: 1, Timeout: time.Millisecond}},
		{Args: work(`{}`)},
	}
}

func TestInsertInEachMode(t *testing.T) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		for _, style := range []string{"ISO, MDY", "German, DMY"} {
			t.Run(mode+" with "+style+": each job is stored as it was given", func(t *testing.T) {
				d := open(t, postgres.Config{})
				store, err := postgres.Open(t.Context(), d.url+"&default_query_exec_mode="+mode+"&datestyle="+strings.ReplaceAll(style, " ", "%20"), postgres.Config{Schema: d.schema})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				done, err := store.EnqueueMany(t.Context(), odd())
				if err != nil {
					t.Fatal(err)
				}
				compareOdd(d, done)
			})
		}
	}

	t.Run("through the pooler, in its transactions too", func(t *testing.T) {
		d := open(t, postgres.Config{})
		conn := connect(t, testdb.PgBouncer(t)+"&default_query_exec_mode=exec")
		for range 3 {
			var done []later.Enqueued
			err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) (err error) {
				done, err = d.EnqueueManyTx(t.Context(), tx, odd())
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			compareOdd(d, done)
		}
	})
}

func compareOdd(d *db, done []later.Enqueued) {
	d.t.Helper()
	requests := odd()
	if len(done) != len(requests) {
		d.t.Fatalf("got %d ids for %d jobs", len(done), len(requests))
	}
	for i, r := range requests {
		want, err := later.Build(r.Args, r.Options)
		if err != nil {
			d.t.Fatal(err)
		}
		got := d.find(done[i].ID)
		if string(got.Payload) != string(want.Payload) || got.Queue != want.Queue || got.Kind != want.Kind || got.Tenant != want.Tenant ||
			got.Priority != want.Priority || got.MaxAttempts != want.MaxAttempts || got.Timeout != want.Timeout || !maps.Equal(got.Headers, want.Headers) {
			d.t.Errorf("job %d: got %+v, want %+v", i, got, want)
		}
		due := got.CreatedAt.Add(want.Delay)
		if want.RunAt.After(due) {
			due = want.RunAt.Truncate(time.Microsecond)
		}
		expires := want.ExpiresAt
		if want.ExpiresIn > 0 {
			expires = got.CreatedAt.Add(want.ExpiresIn)
		}
		if !got.RunAt.Equal(due) || !got.ExpiresAt.Equal(expires) {
			d.t.Errorf("job %d: got run_at %v and expires_at %v, want %v and %v", i, got.RunAt, got.ExpiresAt, due, expires)
		}
	}
}

// What jobs share is sent once, and there is a bound to how much that can be.
func TestInsertOfJobsThatShareLittle(t *testing.T) {
	d := open(t, postgres.Config{})
	statements := d.countStatements()
	const jobs = 3_500
	requests := make([]later.Request, jobs)
	for i := range requests {
		tenant := fmt.Sprintf("%d-%s", i/2*(i%2), strings.Repeat("x", i%50)) // every other one is new
		requests[i] = later.Request{Args: work(fmt.Sprintf(`{"n":%d,"tenant":%q}`, i, tenant)), Options: later.Options{Tenant: tenant}}
	}
	done, err := d.EnqueueMany(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	wrong := ask[int](d, fmt.Sprintf(`select count(*) from unnest($1::bigint[]) with ordinality as i (id, n)
		left join %s j using (id) where (j.payload ->> 'n')::int is distinct from n - 1 or j.payload ->> 'tenant' <> j.tenant`, d.table("job")), idsOf(done))
	if wrong > 0 || len(done) != jobs {
		t.Errorf("got %d ids, %d of which belong to another job", len(done), wrong)
	}
	if got := statements(); got != 2 {
		t.Errorf("got %d statements, want 2: one for each 1,000 different tenants", got)
	}
}

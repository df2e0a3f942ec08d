package postgres_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
	"github.com/later-queue/later/storetest"
)

// Case 79: the role's isolation level is another than read committed.
func TestIsolationLevels(t *testing.T) {
	const claimers, jobs = 10, 1000
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run("with "+level+" each job is claimed and settled once", func(t *testing.T) {
			d := open(t, postgres.Config{})
			_, url := d.role(fmt.Sprintf("default_transaction_isolation = '%s'", level))
			var logged strings.Builder
			store, err := postgres.Open(t.Context(), url, postgres.Config{
				Schema: d.schema, PoolSize: claimers, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			d.enqueue(jobs)
			// Trying again would hide that every second claim fails.
			d.do(fmt.Sprintf(`create function %s() returns trigger language plpgsql as $$
				begin
					if current_setting('transaction_isolation') <> 'read committed' then
						raise exception 'the level is %%', current_setting('transaction_isolation');
					end if;
					return coalesce(new, old);
				end $$`, d.table("level")))
			d.do(fmt.Sprintf("create trigger level before update or delete on %s for each row execute function %s()", d.table("job"), d.table("level")))

			var mu sync.Mutex
			times := map[int64]int{}
			var claiming sync.WaitGroup
			for range claimers {
				claiming.Go(func() {
					for {
						claimed, err := store.Claim(t.Context(), claimOf(7))
						if err != nil {
							t.Errorf("Claim: %v", err)
							return
						}
						mu.Lock()
						for _, c := range claimed {
							times[c.ID]++
						}
						total := len(times)
						mu.Unlock()
						if len(claimed) == 0 {
							if total == jobs {
								return
							}
							continue
						}
						if refused, err := store.Settle(t.Context(), settlements(later.OutcomeDone, claimed...)); err != nil || len(refused) > 0 {
							t.Errorf("Settle: got %v, %v", refused, err)
							return
						}
					}
				})
			}
			claiming.Wait()
			for id, n := range times {
				if n != 1 {
					t.Errorf("job %d was claimed %d times", id, n)
				}
			}
			if got := ask[int](d, "select count(*) from "+d.table("job")); got != 0 {
				t.Errorf("got %d jobs left, want 0", got)
			}
			if logged.Len() > 0 {
				t.Errorf("logged: %s", logged.String())
			}
		})
	}
}

// Case 61: half of the sessions are in another time zone.
func TestTimeZones(t *testing.T) {
	d := open(t, postgres.Config{})
	at := time.Date(2100, 7, 1, 10, 0, 0, 123456000, time.UTC)
	var infos []*later.JobInfo
	for _, zone := range []string{"UTC", "Asia/Kolkata", "America/St_Johns"} {
		store, err := postgres.Open(t.Context(), d.url+"&timezone="+zone, postgres.Config{Schema: d.schema})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if err := store.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		done, err := store.Enqueue(t.Context(), work(`{}`), later.Options{RunAt: at.In(time.FixedZone("", 5*3600+1800)), ExpiresAt: at.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		now, err := store.Enqueue(t.Context(), work(`{}`), later.Options{Queue: zone[:2]})
		if err != nil {
			t.Fatal(err)
		}
		req := claimOf(1)
		req.Queues[0].Queue = zone[:2]
		if jobs, err := store.Claim(t.Context(), req); err != nil || len(jobs) != 1 || jobs[0].ID != now.ID {
			t.Errorf("%s: Claim of a job that is due: got %v, %v", zone, jobs, err)
		}
		for _, other := range []*postgres.Store{store, d.Store} {
			info, err := other.Find(t.Context(), done.ID)
			if err != nil {
				t.Fatal(err)
			}
			infos = append(infos, info)
		}
	}
	for _, info := range infos {
		if !info.RunAt.Equal(at) || !info.ExpiresAt.Equal(at.Add(time.Hour)) || info.State != later.StateScheduled {
			t.Errorf("got run_at %v, expires_at %v, %s; want %v", info.RunAt, info.ExpiresAt, info.State, at)
		}
	}
	d.do("set time zone 'UTC'")
	bounds := ask[[]string](d, `select array(select pg_get_expr(c.relpartbound, c.oid) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = $1::regclass and c.relname <> 'job_log_default')`, d.table("job_log"))
	if len(bounds) == 0 {
		t.Error("the log has no partitions")
	}
	for _, bound := range bounds {
		if strings.Count(bound, " 00:00:00+00'") != 2 {
			t.Errorf("a day's partition is %s, want whole days of UTC", bound)
		}
	}
}

// Case 154: the pooler in transaction mode, which gives each transaction any session.
func TestPgBouncer(t *testing.T) {
	t.Run("it passes the suite with default_query_exec_mode=exec", func(t *testing.T) {
		shelf := newShelf(t, testdb.PgBouncer(t)+"&default_query_exec_mode=exec")
		storetest.Run(t, func(t *testing.T) later.Store { return shelf.open(t) }, storetest.LackHearing)
	})

	for _, mode := range []string{"cache_describe", "simple_protocol"} {
		t.Run("it works with default_query_exec_mode="+mode, func(t *testing.T) {
			shelf := newShelf(t, testdb.PgBouncer(t)+"&default_query_exec_mode="+mode)
			for _, outcome := range []later.Outcome{later.OutcomeDone, later.OutcomeDead, later.OutcomeRetry} {
				store := shelf.open(t)
				done, err := store.Enqueue(t.Context(), work(`{"a":1.10}`), later.Options{Headers: map[string]string{"a": "b"}})
				if err != nil {
					t.Fatal(err)
				}
				jobs, err := store.Claim(t.Context(), claimOf(1))
				if err != nil || len(jobs) != 1 || string(jobs[0].Payload) != `{"a":1.10}` || jobs[0].Headers["a"] != "b" {
					t.Fatalf("Claim: got %v, %v", jobs, err)
				}
				if renewed, err := store.Renew(t.Context(), []later.Lease{jobs[0].Lease}, time.Hour); err != nil || len(renewed.Lost) > 0 {
					t.Errorf("Renew: got %v, %v", renewed, err)
				}
				if refused, err := store.Settle(t.Context(), settlements(outcome, jobs...)); err != nil || len(refused) > 0 {
					t.Errorf("Settle: got %v, %v", refused, err)
				}
				if info, err := store.Find(t.Context(), done.ID); err != nil || len(info.Log) != 1 || info.Log[0].Outcome != outcome {
					t.Errorf("Find: got %+v, %v", info, err)
				}
			}
		})
	}

	t.Run("without it, the error says what to set", func(t *testing.T) {
		d := open(t, postgres.Config{})
		store, err := postgres.Open(t.Context(), testdb.PgBouncer(t), postgres.Config{Schema: d.schema})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		// It takes two clients, of which one finds the other's statement.
		second, err := postgres.Open(t.Context(), testdb.PgBouncer(t), postgres.Config{Schema: d.schema})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		var failed error
		eventually(t, "a statement got lost", func() bool {
			for _, s := range []*postgres.Store{store, second} {
				if _, err := s.Claim(t.Context(), claimOf(1)); err != nil {
					failed = err
				}
			}
			return failed != nil
		})
		if !errors.Is(failed, later.ErrUnavailable) || !strings.Contains(failed.Error(), "default_query_exec_mode=exec") {
			t.Errorf("got %v, want it to say what to set", failed)
		}
	})
}

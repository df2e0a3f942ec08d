package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
)

// More jobs than one statement takes, or larger ones.
func TestInsertInSeveralStatements(t *testing.T) {
	large := strings.Repeat("x", 7<<20)
	for _, test := range []struct {
		name string
		jobs int
		args func(i int) later.RawArgs
	}{
		{"25,000 jobs", 25_000, func(i int) later.RawArgs { return work(fmt.Sprintf(`{"n":%d}`, i)) }},
		{"7 jobs of 7 MiB", 7, func(i int) later.RawArgs { return work(fmt.Sprintf(`{"n":%d,"x":"%s"}`, i, large)) }},
	} {
		d := open(t, postgres.Config{})
		requests := make([]later.Request, test.jobs)
		for i := range requests {
			requests[i].Args = test.args(i)
		}
		t.Run(test.name+": ids come in the order of the jobs", func(t *testing.T) {
			done, err := d.EnqueueMany(t.Context(), requests)
			if err != nil {
				t.Fatal(err)
			}
			wrong := ask[int](d, fmt.Sprintf(`select count(*) from unnest($1::bigint[]) with ordinality as i (id, n)
				left join %s j using (id) where (j.payload ->> 'n')::int is distinct from n - 1`, d.table("job")), idsOf(done))
			if wrong > 0 || len(done) != test.jobs {
				t.Errorf("got %d ids, %d of which belong to another job", len(done), wrong)
			}
		})
		t.Run(test.name+": all or none", func(t *testing.T) {
			before := ask[int](d, "select count(*) from "+d.table("job"))
			d.do(fmt.Sprintf("alter table %s add constraint not_the_last check ((payload ->> 'n')::int <> %d) not valid", d.table("job"), test.jobs-1))
			if _, err := d.EnqueueMany(t.Context(), requests); err == nil {
				t.Error("got no error, want the last job refused")
			}
			if after := ask[int](d, "select count(*) from "+d.table("job")); after != before {
				t.Errorf("got %d jobs stored, want none", after-before)
			}
		})
	}
}

func idsOf(done []later.Enqueued) []int64 {
	ids := make([]int64, len(done))
	for i := range done {
		ids[i] = done[i].ID
	}
	return ids
}

// Case 208: who only enqueues needs nothing of a worker, and leaves nothing running.
func TestStoreLeavesNothingRunning(t *testing.T) {
	d := open(t, postgres.Config{})
	before := goleak.IgnoreCurrent()
	name := "app_" + d.schema
	store, err := postgres.Open(t.Context(), d.url+"&application_name="+name, postgres.Config{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Enqueue(t.Context(), work(`{}`), later.Options{}); err != nil {
		t.Fatal(err)
	}
	sessions := func() int {
		return ask[int](d, "select count(*) from pg_stat_activity where application_name = $1", name)
	}
	if got := sessions(); got != 1 {
		t.Errorf("an enqueue: got %d sessions, want 1", got)
	}
	if _, err := store.Claim(t.Context(), claimOf(1)); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sessions have ended", func() bool { return sessions() == 0 })
	goleak.VerifyNone(t, before)
}

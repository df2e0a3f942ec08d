package postgres

import (
	"testing"

	"github.com/later-queue/later"
)

const sweepTypes = "int, int, int, bool, text[], text[], text, bigint, bigint, bool, text[], text[], bigint, bigint"

func sweepArgs(limit int) []any {
	return []any{
		limit, later.CrashLimit, later.SuspectCrashes, true, []string{"default"}, []string{"work"}, "w", 1, int64(60e6), true, []string{"paused"}, nil, nil, 1,
	}
}

// A sweep costs the same whatever else is to be swept: it writes 50 rows of which
// each costs about five blocks.
func TestSweepPlans(t *testing.T) {
	for _, test := range []struct {
		name, load string
		buffers    int // measured: 7 to 16 where nothing is written, 250 to 300 else
	}{
		{"nothing", "", 30},
		{"ordinary jobs", `
			insert into {schema}.job (kind, expires_at)
			select 'work', now() + interval '1 day' from generate_series(1, 100000)`, 30},
		{"100,000 cancelled jobs", `
			insert into {schema}.job (kind, cancel_at) select 'work', now() from generate_series(1, 100000)`, 400},
		{"100,000 expired jobs", `
			insert into {schema}.job (kind, expires_at)
			select 'work', now() - interval '1 day' from generate_series(1, 100000)`, 400},
		{"100,000 jobs that were lost too often", `
			insert into {schema}.job (kind, crashes) select 'other', 5 from generate_series(1, 100000)`, 400},
		{"100,000 jobs of one attempt that were lost twice", `
			insert into {schema}.job (kind, crashes, max_attempts) select 'work', 2, 1 from generate_series(1, 100000)`, 400},
		{"100,000 suspects", `
			insert into {schema}.job (kind, crashes) select 'work', 2 from generate_series(1, 100000)`, 40},
		{"100,000 suspects of unknown kinds and later times", `
			insert into {schema}.job (kind, crashes, run_at)
			select case i % 2 when 0 then 'other' else 'work' end, 2, now() + i % 2 * interval '1 day'
			from generate_series(1, 100000) i`, 80},
		{"all of them", `
			insert into {schema}.job (kind, cancel_at, expires_at, crashes, max_attempts)
			select 'work', case i % 5 when 0 then now() end, case i % 5 when 1 then now() end,
			       case i % 5 when 0 then 0 when 1 then 0 when 4 then 2 else 5 end, 1 + i % 5
			from generate_series(1, 100000) i`, 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, conn := planStore(t)
			explain(t, s, conn, "sweep", sweepJobs, sweepTypes, sweepArgs(50)...) // a plan made for an empty table, and kept
			execute(t, s, conn, test.load)
			for _, how := range []string{"with the old plan", "with a new plan", "analysed"} {
				by := conn
				if how != "with the old plan" {
					by = connect(t, s)
				}
				if how == "analysed" {
					execute(t, s, by, "analyze {schema}.job")
				}
				p := explain(t, s, by, "sweep", sweepJobs, sweepTypes, sweepArgs(50)...)
				if p.buffers > test.buffers {
					t.Errorf("%s: got %d buffers, want at most %d: %v", how, p.buffers, test.buffers, p.nodes)
				}
				t.Logf("%s: %d buffers", how, p.buffers)
			}
		})
	}
}

// Case 71: what may not be touched does not stand in the way of what may.
func TestSweepBehindOthers(t *testing.T) {
	const lease = ", lease_until, lease_token, lease_holder, claimed_at)"
	const leased = ", now() + interval '1 hour', 1, 'x', now() from generate_series(1, 10000)"
	for _, test := range []struct{ name, front, one string }{
		{"cancelled jobs that still run",
			"insert into {schema}.job (kind, cancel_at" + lease + " select 'work', now() - interval '1 day'" + leased,
			"insert into {schema}.job (kind, cancel_at) values ('work', now())"},
		{"expired jobs that still run",
			"insert into {schema}.job (kind, expires_at" + lease + " select 'work', now() - interval '1 day'" + leased,
			"insert into {schema}.job (kind, expires_at) values ('work', now())"},
		{"lost jobs that still run",
			"insert into {schema}.job (kind, crashes" + lease + " select 'work', 4" + leased,
			"insert into {schema}.job (kind, crashes) values ('work', 5)"},
		{"lost jobs of one attempt that still run",
			"insert into {schema}.job (kind, max_attempts, crashes" + lease + " select 'work', 1, 1" + leased,
			"insert into {schema}.job (kind, max_attempts, crashes) values ('work', 1, 2)"},
		{"suspects that still run",
			"insert into {schema}.job (kind, priority, crashes" + lease + " select 'work', -5, 2" + leased,
			"insert into {schema}.job (kind, crashes) values ('work', 2)"},
		{"suspects of other kinds",
			"insert into {schema}.job (kind, priority, crashes) select 'other', -5, 2 from generate_series(1, 10000)",
			"insert into {schema}.job (kind, crashes) values ('work', 2)"},
		{"suspects of other queues",
			"insert into {schema}.job (kind, queue, priority, crashes) select 'work', 'other', -5, 2 from generate_series(1, 10000)",
			"insert into {schema}.job (kind, crashes) values ('work', 2)"},
		{"suspects that are not due",
			"insert into {schema}.job (kind, run_at, priority, crashes) select 'work', now() + interval '1 day', -5, 2 from generate_series(1, 10000)",
			"insert into {schema}.job (kind, crashes) values ('work', 2)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, conn := planStore(t)
			execute(t, s, conn, test.front)
			execute(t, s, conn, test.one)
			jobs, err := s.Sweep(t.Context(), later.SweepRequest{
				Limit: 10, Suspect: true, Queues: []string{"default"}, Kinds: []string{"work"}, Worker: "w", Token: later.NewToken(), Lease: 60e9,
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(jobs) != 1 || jobs[0].ID != 10001 {
				t.Errorf("got %d jobs, want the one behind the others", len(jobs))
			}
		})
	}
}

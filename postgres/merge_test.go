package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func kindsNamed(n int) []string {
	kinds := make([]string, n)
	for i := range kinds {
		kinds[i] = fmt.Sprintf("kind_%03d", i)
	}
	return kinds
}

// claimKinds claims and returns the ids.
func claimKinds(t *testing.T, s *Store, limit int, kinds []string) []int64 {
	t.Helper()
	s.rotations.all = nil // a look that a busy machine made slow
	req := claimRequest(limit)
	req.Kinds = kinds
	jobs, err := s.Claim(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(jobs))
	for i, c := range jobs {
		ids[i] = c.ID
	}
	return ids
}

// inOrder are the ids of the due jobs of kinds, as they are to be run.
func inOrder(t *testing.T, s *Store, conn *pgx.Conn, kinds []string) []int64 {
	t.Helper()
	rows, err := conn.Query(t.Context(), s.sql(`
		select id, priority::int, run_at from {schema}.job
		where kind = any($1) and run_at <= now() and lease_until is null`), kinds)
	if err != nil {
		t.Fatal(err)
	}
	type job struct {
		ID       int64
		Priority int
		RunAt    time.Time
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[job])
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(jobs, func(a, b job) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
	})
	ids := make([]int64, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

// The order of a queue does not depend on the kinds, however they are mixed.
func TestKindsAreMerged(t *testing.T) {
	s, conn := planStore(t)
	for _, mix := range []struct{ name, kind string }{
		{"taking turns", "i % 40"},
		{"at random", "floor(random() * 40)::int"},
		{"one after the other", "i / 50"},
		{"most of one", "case when i % 30 = 0 then i % 40 else 7 end"},
	} {
		for _, limit := range []int{1, 7, 50, 1000} {
			for _, known := range []int{1, 2, 20, 40} {
				t.Run(fmt.Sprintf("%s, %d at a time, %d of 40 kinds known", mix.name, limit, known), func(t *testing.T) {
					execute(t, s, conn, `
						truncate {schema}.job;
						insert into {schema}.job (kind, priority, run_at)
						select 'kind_' || lpad((`+mix.kind+`)::text, 3, '0'), i / 500 - 2,
						       now() - floor(random() * 20 - 2) * interval '1 minute'
						from generate_series(0, 1999) i`)
					kinds := kindsNamed(known)
					want := inOrder(t, s, conn, kinds)
					want = want[:min(len(want), 4*limit)]
					var got []int64
					for len(got) < len(want) {
						ids := claimKinds(t, s, limit, kinds)
						if len(ids) < min(limit, len(want)-len(got)) {
							t.Fatalf("got %d of %d jobs", len(ids), limit)
						}
						got = append(got, ids...)
					}
					if !slices.Equal(got[:len(want)], want) {
						t.Errorf("got %v, want %v", got, want)
					}
				})
			}
		}
	}
}

// What others have locked is passed over and made up for, and what a claim does not
// take it does not lock.
func TestMergeBesideLocks(t *testing.T) {
	s, conn := planStore(t)
	execute(t, s, conn, `
		insert into {schema}.job (kind) select 'kind_' || lpad((i % 20)::text, 3, '0') from generate_series(0, 999) i`)
	kinds := kindsNamed(20)
	want := inOrder(t, s, conn, kinds)
	execute(t, s, conn, "begin; select from {schema}.job where id <= 500 for update")
	other := connect(t, s)
	// A claim as a worker's, but left open.
	args := claimArgs(30, kinds, nil, "default")
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), s.sql(quickClaimSQL(len(kinds))), args[:11]...); err != nil {
		t.Fatal(err)
	}
	if got := claimKinds(t, s, 30, kinds); !slices.Equal(got, want[530:560]) {
		t.Errorf("got %v, want the 30 after those that are locked and the other's 30: %v", got, want[530:560])
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, s, conn, "rollback")
	if got := claimKinds(t, s, 30, kinds); !slices.Equal(got, want[:30]) {
		t.Errorf("got %v, want what was locked: %v", got, want[:30])
	}
}

// What other claims have locked is looked at in few rounds, however few are wanted:
// measured, five blocks for each of the 2,000 rows where 20 kinds are merged, and
// less for the 100 of a single kind.
func TestPlansBesideLocks(t *testing.T) {
	s, conn := planStore(t)
	execute(t, s, conn, "insert into {schema}.job (kind) select 'kind_' || lpad((i % 20)::text, 3, '0') from generate_series(0, 9999) i")
	execute(t, s, conn, "begin; select from {schema}.job where id <= 2000 for update")
	for _, limit := range []int{1, 50} {
		for _, kinds := range []int{1, 20} {
			t.Run(fmt.Sprintf("%d wanted of %d kinds", limit, kinds), func(t *testing.T) {
				args := claimArgs(limit, kindsNamed(kinds), nil, "default")
				p := explain(t, s, connect(t, s), "claim", quickClaimSQL(kinds), quickTypes, args[:11]...)
				if want := 1000 + 500*kinds; p.buffers > want {
					t.Errorf("got %d buffers, want at most %d: %v", p.buffers, want, p.nodes)
				}
				t.Logf("%d buffers, %.2f ms", p.buffers, p.ms)
			})
		}
	}
}

// A claim of 50 jobs reads about as much whatever is in the table, and little more
// for each kind that its worker knows.
func TestPlansOfManyKinds(t *testing.T) {
	for _, load := range []struct{ name, sql string }{
		{"200,000 jobs of known kinds taking turns", `
			insert into {schema}.job (kind) select 'kind_' || lpad((i % 200)::text, 3, '0') from generate_series(0, 199999) i`},
		{"200,000 jobs of one known kind", `
			insert into {schema}.job (kind) select 'kind_000' from generate_series(0, 199999) i`},
		{"200,000 jobs of unknown kinds in front of 1,000", `
			insert into {schema}.job (kind) select 'other_' || i % 50 from generate_series(0, 199999) i;
			insert into {schema}.job (kind) select 'kind_000' from generate_series(1, 1000)`},
		{"200,000 jobs of unknown kinds", `
			insert into {schema}.job (kind) select 'other_' || i % 50 from generate_series(0, 199999) i`},
	} {
		s, conn := planStore(t)
		old := map[int]*pgx.Conn{}
		for _, kinds := range []int{1, 20, 200} {
			old[kinds] = connect(t, s)
			args := claimArgs(50, kindsNamed(kinds), nil, "default")
			explain(t, s, old[kinds], "claim", quickClaimSQL(kinds), quickTypes, args[:11]...)
		}
		execute(t, s, conn, load.sql)
		for _, test := range []struct{ kinds, buffers int }{{1, 400}, {20, 700}, {200, 2500}} {
			t.Run(fmt.Sprintf("%s, %d known", load.name, test.kinds), func(t *testing.T) {
				args := claimArgs(50, kindsNamed(test.kinds), nil, "default")
				for _, by := range []*pgx.Conn{old[test.kinds], connect(t, s)} {
					p := explain(t, s, by, "claim", quickClaimSQL(test.kinds), quickTypes, args[:11]...)
					if p.buffers > test.buffers {
						t.Errorf("got %d buffers, want at most %d: %v", p.buffers, test.buffers, p.nodes)
					}
					t.Logf("%d buffers, %.2f ms", p.buffers, p.ms)
				}
			})
		}
	}
}

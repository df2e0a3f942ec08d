package sqlite

import (
	"fmt"
	"slices"
	"testing"

	driver "modernc.org/sqlite"

	"github.com/later-queue/later"
)

// writerPages is how many pages the writer's connection has looked at.
func writerPages(t *testing.T, s *Store) (pages int) {
	t.Helper()
	onWriter(t, s, func(tx *writeTx) error {
		return tx.conn.Raw(func(c any) error {
			for _, op := range []driver.DBStatusOp{driver.DBStatusCacheHit, driver.DBStatusCacheMiss} {
				n, _, err := c.(driver.DBStatus).Status(op, false)
				if err != nil {
					return err
				}
				pages += n
			}
			return nil
		})
	})
	return pages
}

// fillTenants stores a job that is due, and one that is not, for each of n
// tenants from the number first on.
func fillTenants(t *testing.T, s *Store, first, n int) {
	t.Helper()
	_, err := s.DB().ExecContext(t.Context(), `
with recursive n (i) as (select ?1 union all select i + 1 from n where i < ?1 + ?2 - 1)
insert into later_job (kind, tenant, run_at, payload)
select 'work', printf('tenant-%06d', i), due.at, '{}'
from n, (select 0 as at union all select 253402300000000) due`, first, n)
	if err != nil {
		t.Fatal(err)
	}
}

// What a claim reads depends on the tenants that it takes from, not on how many
// there are.
func TestTurnsReadWhatTheyTake(t *testing.T) {
	s, _ := openFile(t)
	claim := func() int {
		t.Helper()
		before := writerPages(t, s)
		list := claimed(t, s, 20)
		if len(list) != 20 {
			t.Fatalf("claimed %d jobs, want 20", len(list))
		}
		return writerPages(t, s) - before
	}
	fillTenants(t, s, 0, 100)
	claim() // the first one reads the schema
	few := claim()
	fillTenants(t, s, 100, 10_000)
	claim()
	many := claim()
	// The trees have become higher.
	if few < 20 || many > 2*few {
		t.Errorf("%d pages with 100 tenants, and %d with 10,100, want at most twice as many", few, many)
	}
}

// A claim goes past tenants that have nothing but scheduled jobs for nothing.
func TestTurnsPastTheScheduled(t *testing.T) {
	s, _ := openFile(t)
	insertDue(t, s, "zz", 10, true)
	claim := func() int {
		t.Helper()
		before := writerPages(t, s)
		if got := len(claimed(t, s, 1)); got != 1 {
			t.Fatalf("claimed %d jobs, want 1", got)
		}
		return writerPages(t, s) - before
	}
	schedule := func(first, n int) {
		t.Helper()
		fillTenants(t, s, first, n)
		if _, err := s.DB().ExecContext(t.Context(), `delete from later_job where tenant like 'tenant-%' and run_at = 0`); err != nil {
			t.Fatal(err)
		}
	}
	schedule(0, 10)
	claim() // the first one reads the schema
	few := claim()
	schedule(10, 5000)
	claim()
	// The trees have become higher.
	if many := claim(); few < 5 || many > 3*few {
		t.Errorf("%d pages beside 10 tenants, and %d beside 5,010, want at most three times as many", few, many)
	}
}

// Scheduled jobs of many tenants cost the look for the next due job nothing.
func TestNextDueBesideManyTenants(t *testing.T) {
	s, _ := openFile(t)
	look := func() int {
		t.Helper()
		return pagesRead(t, s, func() {
			if _, ok, err := s.NextDue(t.Context(), []string{later.DefaultQueue}, []string{"work"}); err != nil || !ok {
				t.Fatalf("NextDue: %v, %v", ok, err)
			}
		})
	}
	fillTenants(t, s, 0, 10)
	look() // the first one reads the schema
	few := look()
	fillTenants(t, s, 10, 5000)
	look() // and so does the first one after a write
	if many := look(); few == 0 || many > 3*few {
		t.Errorf("%d pages with 10 tenants, and %d with 5,010, want at most three times as many", few, many)
	}
}

// Statements are what a claim costs: with one tenant it runs none for the turns,
// and with many their number does not grow with the jobs.
func TestStatementsOfTurns(t *testing.T) {
	s := openMemory(t)
	insertJobsOf(t, s, 100)
	per := func(n int) int {
		before := executed(t, s)
		if got := len(claimed(t, s, n)); got != n {
			t.Fatalf("claimed %d jobs, want %d", got, n)
		}
		return executed(t, s) - before - executed0(t, s)
	}
	// Begin, savepoint, clock, what is paused, levels, jobs, leasing, release, commit.
	if got := per(10); got > 9 {
		t.Errorf("a claim with one tenant runs %d statements, want at most 9", got)
	}
	claimed(t, s, 100)
	fillTenants(t, s, 0, 1000)
	fillTenants(t, s, 0, 20)
	// What has become due, the turns behind the mark and before it, the jobs by
	// their ids.
	if got := per(10); got > 12 {
		t.Errorf("a claim of 10 of 1,000 tenants runs %d statements, want at most 12", got)
	}
	// And again, when it is known that there are fewer tenants than places.
	if got := per(1005); got > 14 {
		t.Errorf("a claim of 1,005 of 1,000 tenants runs %d statements, want at most 14", got)
	}
}

// insertDue stores n jobs of a tenant: that were due at once, or that have become due.
func insertDue(t *testing.T, s *Store, tenant string, n int, atOnce bool) {
	t.Helper()
	_, err := s.DB().ExecContext(t.Context(), `
with recursive n (i) as (select 1 union all select i + 1 from n where i < ?1)
insert into later_job (kind, tenant, created_at, run_at, payload)
select 'work', ?2, case when ?3 then 1000 else 999 end, 1000, '{}' from n`, n, tenant, atOnce)
	if err != nil {
		t.Fatal(err)
	}
}

// Tenants whose jobs have become due have their turns among the others, however
// many such jobs there are, and whoever has them.
func TestTurnsOfWhatBecameDue(t *testing.T) {
	for _, due := range []int{0, 1, maxDue - 2, maxDue - 1, maxDue, 2 * maxDue} {
		s := openMemory(t)
		fillTenants(t, s, 0, 2) // with something to come, too
		if due > 0 {
			insertDue(t, s, "many", due, false)
		}
		insertDue(t, s, "one", 1, false)
		insertDue(t, s, "plain", 3, true)
		insertDue(t, s, "", 1, false)
		var want []string
		for _, tenant := range []string{"", "many", "one", "plain", "tenant-000000", "tenant-000001"} {
			if due > 0 || tenant != "many" {
				want = append(want, tenant)
			}
		}
		var got []string
		for _, c := range claimed(t, s, len(want)) {
			got = append(got, c.Tenant)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("with %d that have become due: claimed jobs of %q, want of %q", due, got, want)
		}
	}
}

// Beside many jobs that have become due, a claim goes past tenants that have nothing but
// scheduled jobs for nothing, too.
func TestTurnsBesideManyDue(t *testing.T) {
	s, _ := openFile(t)
	insertDue(t, s, "zz", 2*maxDue, false)
	cheapest := func() int {
		t.Helper()
		least := 0
		for range 5 { // one of them may look at all tenants
			before := writerPages(t, s)
			if got := len(claimed(t, s, 1)); got != 1 {
				t.Fatalf("claimed %d jobs, want 1", got)
			}
			if pages := writerPages(t, s) - before; least == 0 || pages < least {
				least = pages
			}
		}
		return least
	}
	schedule := func(first, n int) {
		t.Helper()
		fillTenants(t, s, first, n)
		if _, err := s.DB().ExecContext(t.Context(), `delete from later_job where tenant like 'tenant-%' and run_at = 0`); err != nil {
			t.Fatal(err)
		}
	}
	schedule(0, 10)
	few := cheapest()
	schedule(10, 5000)
	// The trees have become higher.
	if many := cheapest(); few < 5 || many > 2*few {
		t.Errorf("%d pages beside 10 tenants, and %d beside 5,010, want at most twice as many", few, many)
	}
}

// A tenant whose job becomes due while many others' are has its turn in the next claim.
func TestTurnOfWhatBecomesDueBesideMany(t *testing.T) {
	s := openMemory(t)
	insertDue(t, s, "many", 2*maxDue, false)
	claimed(t, s, 1) // remembers whose jobs are due
	for _, tenant := range []string{"new", "newer", "at once"} {
		if tenant == "at once" {
			insertDue(t, s, tenant, 1, true)
		} else if _, err := s.DB().ExecContext(t.Context(), `
insert into later_job (kind, tenant, created_at, payload) values ('work', ?, 0, '{}')`, tenant); err != nil {
			t.Fatal(err)
		}
		list := claimed(t, s, 2)
		if len(list) != 2 || list[0].Tenant != tenant && list[1].Tenant != tenant {
			t.Errorf("claimed %d jobs, want one of tenant %q among them", len(list), tenant)
		}
	}
	if err := s.Pause(t.Context(), later.Scope{Of: later.ScopeTenant, Name: "many"}, "me", ""); err != nil {
		t.Fatal(err)
	}
	if got := len(claimed(t, s, 2)); got != 0 {
		t.Errorf("claimed %d jobs of a paused tenant", got)
	}
	if err := s.Resume(t.Context(), later.Scope{Of: later.ScopeTenant, Name: "many"}); err != nil {
		t.Fatal(err)
	}
	if got := len(claimed(t, s, 2)); got != 2 {
		t.Errorf("claimed %d jobs after the pause, want 2", got)
	}
}

// The two lists of tenants are one in the end: none comes again before all have come.
func TestTurnsOfBothLists(t *testing.T) {
	const tenants, limit = 30, 7
	s := openMemory(t)
	for n := range tenants {
		insertDue(t, s, fmt.Sprint(n), 1, n%3 == 0)
		insertDue(t, s, fmt.Sprint(n), 1, n%3 != 1)
	}
	starts := map[string]int{}
	for taken := 0; taken < 2*tenants; {
		list := claimed(t, s, limit)
		if len(list) != min(limit, 2*tenants-taken) {
			t.Fatalf("after %d jobs: claimed %d", taken, len(list))
		}
		for _, c := range list {
			taken++
			starts[c.Tenant]++
		}
		least, most := 2, 0
		for n := range tenants {
			least, most = min(least, starts[fmt.Sprint(n)]), max(most, starts[fmt.Sprint(n)])
		}
		if most > least+1 {
			t.Fatalf("after %d jobs: one tenant has had %d, and another %d", taken, most, least)
		}
	}
}

// What was inserted by hand has its turn, whatever its tenant is called.
func TestTurnsOfOddTenants(t *testing.T) {
	s := openMemory(t)
	_, err := s.DB().ExecContext(t.Context(), `
insert into later_job (kind, tenant, run_at, created_at, payload)
select 'work', tenants.name, 1000, 1000 - later, '{}'
from (select 'a' as name union all select cast(x'ff' as text) union all select cast(x'c328' as text)
  union all select '"' union all select char(0x10ffff) union all select '') tenants,
  (select 0 as later union all select 1)`)
	if err != nil {
		t.Fatal(err)
	}
	order := []string{"", `"`, "a", "\xc3\x28", "\U0010ffff", "\xff"}
	for round := range 2 {
		for _, want := range order {
			list := claimed(t, s, 1)
			if len(list) != 1 || list[0].Tenant != want {
				t.Fatalf("round %d: claimed %v, want a job of tenant %q", round, list, want)
			}
		}
	}
}

// Who was alone has had a turn all the same.
func TestTurnOfALoneTenant(t *testing.T) {
	s := openMemory(t)
	var got []string
	for _, tenant := range []string{"", "a"} {
		if _, err := s.DB().ExecContext(t.Context(), `
insert into later_job (kind, tenant, payload) values ('work', ?1, '{}'), ('work', ?1, '{}')`, tenant); err != nil {
			t.Fatal(err)
		}
		for _, c := range claimed(t, s, 1) {
			got = append(got, c.Tenant)
		}
	}
	if want := []string{"", "a"}; !slices.Equal(got, want) {
		t.Errorf("the first claim, and the one after a second tenant came: got %q, want %q", got, want)
	}
}

func TestDeal(t *testing.T) {
	turns := []turn{
		{tenant: "a", jobs: []candidate{{id: 1}, {id: 2}, {id: 3}}},
		{tenant: "b", jobs: []candidate{{id: 11}}},
		{tenant: "c", jobs: []candidate{{id: 21}, {id: 22}}},
	}
	all := []int64{1, 11, 21, 2, 22, 3}
	lasts := []string{"a", "b", "c", "a", "c", "a", "a"}
	for limit := 1; limit <= 7; limit++ {
		ids, last := deal(turns, limit, nil)
		if want := all[:min(limit, len(all))]; !slices.Equal(ids, want) || last != lasts[limit-1] {
			t.Errorf("of %d: got %v, the last of tenant %s, want %v, of tenant %s", limit, ids, last, want, lasts[limit-1])
		}
	}
	if ids, _ := deal(nil, 3, nil); len(ids) != 0 {
		t.Errorf("of nobody: got %v", ids)
	}
}

// The memory of turns is bounded.
func TestTurnMarks(t *testing.T) {
	m := turnMarks{}
	for n := range maxTurns + 10 {
		m.ended(turnKey{queue: fmt.Sprint(n)}, turnMark{tenant: "a"})
	}
	if mark, ok := m.latest(turnKey{queue: fmt.Sprint(maxTurns + 9)}); !ok || mark.tenant != "a" || len(m) > maxTurns {
		t.Errorf("got %+v, %v and %d marks, want the latest and at most %d", mark, ok, len(m), maxTurns)
	}
}

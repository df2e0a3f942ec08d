package sqlite

import (
	"context"
	"fmt"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/later-queue/later"
)

// pagesRead is how many pages the reading connections look at while do runs.
func pagesRead(t *testing.T, s *Store, do func()) int {
	t.Helper()
	s.pools.read.SetMaxOpenConns(1)
	status := func(op driver.DBStatusOp) (n int) {
		conn, err := s.pools.read.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = conn.Raw(func(c any) (err error) {
			n, _, err = c.(driver.DBStatus).Status(op, false)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	pages := func() int { return status(driver.DBStatusCacheHit) + status(driver.DBStatusCacheMiss) }
	before := pages()
	do()
	return pages() - before
}

// Case 173, and what it costs: the look for the next due job reads as much
// whatever waits, runs, or is of others.
func TestNextDueReadsWhatItLooksFor(t *testing.T) {
	s, _ := openFile(t)
	fill := func(n int) {
		t.Helper()
		_, err := s.DB().ExecContext(t.Context(), `
with recursive n (i) as (select 1 union all select i + 1 from n where i < ?1)
insert into later_job (kind, queue, priority, run_at, lease_until, payload)
select 'work', 'default', i % 2, 1000 + i, null, '{}' from n
union all select 'work', 'default', i % 2, 1000 + i, 253402300799999, '{}' from n
union all select 'work', 'default', i % 2, 253402300000000 + i, null, '{}' from n
union all select 'unknown', 'default', 0, 253402200000000 + i, null, '{}' from n
union all select 'work', 'elsewhere', 0, 253402200000000 + i, null, '{}' from n`, n)
		if err != nil {
			t.Fatal(err)
		}
	}
	var in time.Duration
	look := func() int {
		t.Helper()
		return pagesRead(t, s, func() {
			var ok bool
			var err error
			in, ok, err = s.NextDue(t.Context(), []string{"default", "none"}, []string{"work", "other"})
			if err != nil || !ok {
				t.Fatalf("NextDue: %v, %v, %v", in, ok, err)
			}
		})
	}
	fill(10)
	look() // the first one reads the schema
	few := look()
	fill(4000)
	look() // and so does the first one after a write
	many := look()
	// The trees have become higher.
	if few < 5 || many > 3*few {
		t.Errorf("%d pages with 50 jobs, and %d with 20,000, want at most three times as many", few, many)
	}

	done, err := s.Insert(t.Context(), delayed(time.Minute))
	if err != nil || len(done) != 1 {
		t.Fatal(done, err)
	}
	look()
	if in > time.Minute || in < 30*time.Second {
		t.Errorf("next due in %v, want a minute", in)
	}
}

func delayed(d time.Duration) []later.NewJob {
	j := job()
	j[0].Delay = d
	return j
}

// Waiting costs a look at the file's name now and then, and no statement.
func TestWaitingAsksNothing(t *testing.T) {
	s, _ := openFile(t)
	w := waitingFor(t, s)
	settled(t, s, w)
	before := executed(t, s)
	own := executed(t, s) - before
	pages := pagesRead(t, s, func() {
		looks := func() (n int) {
			s.watches.mu.Lock()
			defer s.watches.mu.Unlock()
			return s.watches.looks
		}
		begin := looks()
		until(t, "the file was looked at ten times", func() bool { return looks() >= begin+10 })
	})
	if got := executed(t, s) - before - 2*own; got != 0 || pages != 0 {
		t.Errorf("%d statements and %d pages read while waiting, want none", got, pages)
	}
	if woken(w) {
		t.Error("woken although nothing was written")
	}
}

// BenchmarkNextDue looks for the next due job behind many that are due, and many
// that are not.
func BenchmarkNextDue(b *testing.B) {
	for _, waiting := range []int{0, 100_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			s, err := Open(b.Context(), b.TempDir()+"/later.db", Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			_, err = s.DB().ExecContext(context.Background(), `
with recursive n (i) as (select 1 where ?1 > 0 union all select i + 1 from n where i < ?1)
insert into later_job (kind, run_at, payload)
select 'work', case when i % 2 then 0 else 253402300000000 end, '{}' from n`, waiting)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, _, err := s.NextDue(b.Context(), []string{later.DefaultQueue}, []string{"work"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// payload has the size that the benchmarks use.
var payload = []byte(`{"seq": 1, "text": "` + strings.Repeat("x", 88) + `"}`)

func insertJobsOf(t *testing.T, s *Store, n int) []later.Enqueued {
	t.Helper()
	requests := make([]later.Request, n)
	for i := range requests {
		requests[i] = later.Request{Args: later.RawArgs{JobKind: "work", Payload: payload}}
	}
	done, err := s.EnqueueMany(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func settleDone(t *testing.T, s *Store, list []*later.Claimed) {
	t.Helper()
	settlements := make([]later.Settlement, len(list))
	for i, c := range list {
		settlements[i] = later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDone}
	}
	refused, err := s.Settle(t.Context(), settlements)
	if err != nil || len(refused) > 0 {
		t.Fatalf("Settle: refused %v, %v", refused, err)
	}
}

// onWriter calls do in the writer's goroutine.
func onWriter(t *testing.T, s *Store, do func(tx *writeTx) error) {
	t.Helper()
	if err := s.writer.do(t.Context(), 1, do); err != nil {
		t.Fatal(err)
	}
}

func executed(t *testing.T, s *Store) (n int) {
	t.Helper()
	onWriter(t, s, func(tx *writeTx) error { n = tx.executed; return nil })
	return n
}

// Each execution of a statement costs about as much as its work on a row, so
// their number must not grow with the rows.
func TestStatements(t *testing.T) {
	s, _ := openFile(t)
	insertJobsOf(t, s, 1200)
	per := func(do func()) int {
		before := executed(t, s)
		do()
		return executed(t, s) - before - executed0(t, s)
	}
	var few, many []*later.Claimed
	small := per(func() { few = claimed(t, s, 10) })
	large := per(func() { many = claimed(t, s, 1000) })
	if len(few) != 10 || len(many) != 1000 || large != small {
		t.Errorf("a claim of %d jobs runs %d statements, and one of %d runs %d; want as many", len(few), small, len(many), large)
	}
	small = per(func() { settleDone(t, s, few) })
	large = per(func() { settleDone(t, s, many) })
	if large != small {
		t.Errorf("settling %d jobs runs %d statements, and %d jobs %d; want as many", len(few), small, len(many), large)
	}
	if got := per(func() { insertJobsOf(t, s, 1000) }); got > 30 {
		t.Errorf("inserting 1000 jobs runs %d statements, want at most 30", got)
	}
}

// executed0 is what reading the count costs itself.
func executed0(t *testing.T, s *Store) int {
	t.Helper()
	before := executed(t, s)
	return executed(t, s) - before
}

// The budgets of a drain in calls of 100, as it is written into the WAL.
func TestDrainBudget(t *testing.T) {
	const jobs, perCall = 3000, 100
	s, path := openFile(t)
	// Nothing is moved from the WAL into the file, so all of it is there to be counted.
	onWriter(t, s, func(tx *writeTx) error { return tx.script("pragma wal_autocheckpoint = 0") })
	insertJobsOf(t, s, jobs)
	before, size := commits(t, path), walSize(t, path)
	for done := 0; done < jobs; {
		list := claimed(t, s, perCall)
		settleDone(t, s, list)
		done += len(list)
	}
	if got, most := commits(t, path)-before, jobs*2/perCall; got > most {
		t.Errorf("%d commits, want at most %d (0.02 a job)", got, most)
	}
	// Measured: 1,250 bytes with the log, in pages of 4 KiB.
	if got := (walSize(t, path) - size) / jobs; got > 1600 {
		t.Errorf("%d bytes of WAL a job, want at most 1600", got)
	}
}

func walSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// The ids come back in the order of the jobs, whatever statements a list is cut
// into.
func TestInsertSizes(t *testing.T) {
	s := openMemory(t)
	for _, n := range []int{1, 7, 8, 9, 63, 64, 65, 137, 200} {
		jobs := make([]later.NewJob, n)
		for i := range jobs {
			jobs[i] = job()[0]
			jobs[i].Priority = int16(i)
		}
		done, err := s.Insert(t.Context(), jobs)
		if err != nil || len(done) != n {
			t.Fatalf("Insert of %d: %d results, %v", n, len(done), err)
		}
		for i, d := range done {
			if got := count(t, s, `select priority from later_job where id = ?`, d.ID); got != i {
				t.Errorf("%d jobs: job %d has the id of job %d", n, i, got)
			}
		}
	}
}

// Case 155: hundreds of jobs are settled together although nothing fits any
// more, because what they free has room for their log.
func TestSettleManyWhenFull(t *testing.T) {
	s, _ := openFile(t)
	insertJobsOf(t, s, 600)
	list := claimed(t, s, 600)
	fillDisk(t, s)
	settleDone(t, s, list)
	if got := count(t, s, `select count(*) from later_job_log`); got != 600 {
		t.Errorf("%d log rows, want 600", got)
	}
}

// A full disk may make SQLite roll back the whole transaction; then, too, an
// operation gets its second try.
func TestFullThatRollsBack(t *testing.T) {
	s, _ := openFile(t)
	var tries []bool
	onWriter(t, s, func(tx *writeTx) error {
		tries = append(tries, tx.frugal)
		if tx.frugal {
			return nil
		}
		if err := tx.script("pragma max_page_count = 1"); err != nil { // sets it to what there is
			return err
		}
		_, full := tx.exec(`insert into later_job (kind, payload) values ('work', '"' || printf('%*c', 100000, 'x') || '"')`)
		if !isFull(full) {
			return fmt.Errorf("a job that does not fit: %w", full)
		}
		if err := tx.control("release operation"); err == nil {
			return errors.New("SQLite has not rolled back the transaction")
		}
		return full
	})
	if fmt.Sprint(tries) != "[false true]" {
		t.Errorf("tries, frugal or not: %v, want first one that is not, and then one that is", tries)
	}
}

// A settle in which some leases are lost ends the others, and names those.
func TestSettleSomeLost(t *testing.T) {
	for _, noLog := range []bool{false, true} {
		t.Run(fmt.Sprintf("NoLog %v", noLog), func(t *testing.T) {
			s, err := Open(t.Context(), ":memory:", Config{NoLog: noLog})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			insertJobsOf(t, s, 10)
			list := claimed(t, s, 10)
			settleDone(t, s, list[:1])
			settlements := make([]later.Settlement, len(list))
			for i, c := range list {
				settlements[i] = later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDone}
			}
			settlements[5].Lease.Token++
			refused, err := s.Settle(t.Context(), settlements)
			want := []later.Lease{settlements[0].Lease, settlements[5].Lease}
			if err != nil || fmt.Sprint(refused) != fmt.Sprint(want) {
				t.Errorf("refused %v, %v, want %v", refused, err, want)
			}
			if got := count(t, s, countJobs); got != 1 {
				t.Errorf("%d jobs left, want the one with another lease", got)
			}
			rows := map[bool]int{false: 9, true: 0}[noLog]
			if got := count(t, s, `select count(*) from later_job_log`); got != rows {
				t.Errorf("%d log rows, want %d", got, rows)
			}
		})
	}
}

// A reader that began long ago keeps the WAL from being used again. What is read
// for a job must not grow with it.
func TestHeldSnapshot(t *testing.T) {
	const jobs, perCall = 6000, 100
	s, path := openFile(t)
	insertJobsOf(t, s, jobs)
	tx, err := s.pools.read.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRow(countJobs).Scan(&n); err != nil {
		t.Fatal(err)
	}
	drain := func(n int) (written int64) {
		size := walSize(t, path)
		for done := 0; done < n; {
			list := claimed(t, s, perCall)
			settleDone(t, s, list)
			done += len(list)
		}
		return walSize(t, path) - size
	}
	drain(jobs / 3) // the first pages of the log, and the file's as it was
	early, late := drain(jobs/3), drain(jobs/3)
	if late > early*13/10 {
		t.Errorf("%d bytes of WAL for some jobs, and %d for as many later, want at most 1.3 times as much", early, late)
	}
	if err := tx.QueryRow(countJobs).Scan(&n); err != nil || n != jobs {
		t.Errorf("the old snapshot sees %d jobs, %v, want %d", n, err, jobs)
	}
}

// The same through the worker, which claims ahead and ends together what has
// ended: also with few slots.
func TestWorkerBudget(t *testing.T) {
	const jobs = 5000
	s, path := openFile(t)
	onWriter(t, s, func(tx *writeTx) error { return tx.script("pragma wal_autocheckpoint = 0") })
	insertJobsOf(t, s, jobs)
	before := commits(t, path)
	handlers := later.NewHandlers()
	later.HandleRaw(handlers, "work", later.HandlerConfig{}, func(context.Context, *later.Job[json.RawMessage]) error { return nil })
	w, err := worker.New(s, handlers, worker.Config{Concurrency: 10, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := count(t, s, countJobs); left != 0 {
		t.Errorf("%d jobs left, want 0", left)
	}
	if got, most := commits(t, path)-before, jobs/50; got > most {
		t.Errorf("%d commits, want at most %d (0.02 a job; 19 to 22 measured)", got, most)
	}
}

// fillDisk lets the file not grow any more.
func fillDisk(t *testing.T, s *Store) {
	t.Helper()
	onWriter(t, s, func(tx *writeTx) error {
		var pages int
		if err := tx.queryRow("pragma page_count").Scan(&pages); err != nil {
			return err
		}
		return tx.script(fmt.Sprintf("pragma max_page_count = %d", pages))
	})
}

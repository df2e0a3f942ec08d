package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// putOffOf ends n attempts in turn as failed and as snoozed, with hours and errors
// that differ. Some leases are lost.
func putOffOf(list []*later.Claimed) []later.Settlement {
	texts := []string{"", "boom", `"quoted" \u0000 it's`, "line\nline\ttab", "\u2028 😀 <b>", strings.Repeat("€", 5000)}
	settlements := make([]later.Settlement, len(list))
	for i, c := range list {
		st := later.Settlement{Lease: c.Lease, Outcome: later.OutcomeSnoozed, Delay: time.Duration(1+i%7) * time.Hour}
		if i%3 != 0 {
			st.Outcome, st.Error = later.OutcomeRetry, texts[i%len(texts)]
			if i%4 != 0 {
				st.Errors = []later.AttemptError{{Attempt: 1, At: time.Unix(int64(i), 0).UTC(), Worker: "worker-1", Error: st.Error}}
			}
		}
		if i%11 == 5 {
			st.Lease.Token++
		}
		settlements[i] = st
	}
	return settlements
}

// dumpPutOff is what is left of jobs and the log, without the times at which the test
// ran; hours say how far run_at was put off.
func dumpPutOff(t *testing.T, s *Store) (lines []string) {
	t.Helper()
	rows, err := s.DB().Query(`
select 'job ' || id || ' ' || attempt || ' ' || failures || ' ' || crashes || ' ' || ((run_at - created_at + 1800000) / 3600000)
  || ' ' || coalesce(lease_token, '-') || coalesce(lease_holder, '-') || coalesce(claimed_at - lease_until, '-') || ' ' || coalesce(errors, '-')
from later_job
union all
select 'log ' || job_id || ' ' || attempt || ' ' || queue || ' ' || kind || ' ' || tenant || ' ' || outcome || ' ' || worker
  || ' ' || (finished_at >= started_at) || ' ' || coalesce(error, '-')
from later_job_log`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// Many that are put off in one call become what each by itself becomes.
func TestPutOffTogether(t *testing.T) {
	const jobs = 64 + 2*8 + 3 // statements of each size
	for _, noLog := range []bool{false, true} {
		t.Run(fmt.Sprintf("NoLog %v", noLog), func(t *testing.T) {
			settle := func(perCall int) (rows []string, refused []later.Lease) {
				s, err := Open(t.Context(), ":memory:", Config{NoLog: noLog})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				insertJobsOf(t, s, jobs)
				if _, err := s.DB().Exec(`update later_job set attempt = id % 3, failures = id % 2, crashes = id % 2, errors = iif(id % 5, '[]', null)`); err != nil {
					t.Fatal(err)
				}
				list := claimed(t, s, jobs)
				for _, c := range list {
					c.Lease.Token = 4711
				}
				if _, err := s.DB().Exec(`update later_job set lease_token = 4711`); err != nil {
					t.Fatal(err)
				}
				for some := range slices.Chunk(putOffOf(list), perCall) {
					lost, err := s.Settle(t.Context(), some)
					if err != nil {
						t.Fatal(err)
					}
					refused = append(refused, lost...)
				}
				return dumpPutOff(t, s), refused
			}
			got, refused := settle(jobs)
			want, wantRefused := settle(1)
			if fmt.Sprint(refused) != fmt.Sprint(wantRefused) || len(refused) != 8 {
				t.Errorf("refused %v, want %v", refused, wantRefused)
			}
			if len(got) != len(want) {
				t.Fatalf("got %d rows, want %d", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("got  %.300s\nwant %.300s", got[i], want[i])
				}
			}
			// So that the rows show something.
			for _, text := range []string{"job 1 1 1 0 1 --- []", "job 5 3 2 0 5 --- -"} {
				if !slices.Contains(got, text) {
					t.Errorf("there is no row %q in\n%.2000s", text, strings.Join(got, "\n"))
				}
			}
		})
	}
}

// Reading costs more than changing, and each execution of a statement something: each
// job takes one, and a few come on top for all.
func TestPutOffStatements(t *testing.T) {
	s, _ := openFile(t)
	insertJobsOf(t, s, 640)
	list := claimed(t, s, 640)
	before := executed(t, s)
	settlements := make([]later.Settlement, len(list))
	for i, c := range list {
		settlements[i] = later.Settlement{Lease: c.Lease, Outcome: later.OutcomeRetry, Error: "boom"}
	}
	if refused, err := s.Settle(t.Context(), settlements); err != nil || len(refused) > 0 {
		t.Fatalf("Settle: refused %v, %v", refused, err)
	}
	if got := executed(t, s) - before - executed0(t, s); got > 640+20 {
		t.Errorf("putting off 640 jobs runs %d statements, want at most 660", got)
	}
}

// Only what may be claimed soon wakes a worker.
func TestPutOffWakes(t *testing.T) {
	s := openMemory(t)
	for _, c := range []struct {
		name  string
		delay time.Duration
		lost  bool
		want  int
	}{
		{"a job that is due soon", time.Second, false, 1},
		{"a job that is due much later", time.Hour, false, 0},
		{"a job whose lease is lost", 0, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			insertJobsOf(t, s, 9)
			list := claimed(t, s, 9)
			w := waitingFor(t, s)
			for len(w.Wakes()) > 0 {
				<-w.Wakes()
			}
			settlements := make([]later.Settlement, len(list))
			for i, job := range list {
				settlements[i] = later.Settlement{Lease: job.Lease, Outcome: later.OutcomeSnoozed, Delay: c.delay}
				if c.lost {
					settlements[i].Lease.Token++
				}
			}
			if _, err := s.Settle(t.Context(), settlements); err != nil {
				t.Fatal(err)
			}
			if got := len(w.Wakes()); got != c.want {
				t.Errorf("%d wake-ups, want %d", got, c.want)
			}
		})
	}
}

// Case 155: what is put off on a full disk has the room that others of the same call
// free, in whatever order they come.
func TestPutOffWhenFull(t *testing.T) {
	s, _ := openFile(t)
	insertJobsOf(t, s, 600)
	list := claimed(t, s, 600)
	fillDisk(t, s)
	settlements := make([]later.Settlement, len(list))
	for i, c := range list {
		settlements[i] = later.Settlement{Lease: c.Lease, Outcome: later.OutcomeSnoozed, Delay: time.Hour}
		if i >= 200 {
			settlements[i].Outcome, settlements[i].Delay = later.OutcomeDone, 0
		}
	}
	if refused, err := s.Settle(t.Context(), settlements); err != nil || len(refused) > 0 {
		t.Fatalf("Settle: refused %v, %v", refused, err)
	}
	if got := count(t, s, `select count(*) from later_job_log where outcome = 'snoozed'`); got != 200 {
		t.Errorf("%d log rows of those put off, want 200", got)
	}
}

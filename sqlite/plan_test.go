package sqlite

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// fullScan is a step that reads a whole table of jobs, by itself or through an
// index. Aliases count too: every statement below calls the table j, head, or by
// its name.
var fullScan = regexp.MustCompile(`\bSCAN (j|head|later_job|later_dead_job|later_job_log|later_worker|later_key_window|d|s|later_gate_state)\b`)

const claimableIndex = "later_job_ready (queue=? AND kind=? AND priority=? AND tenant=? AND run_at>? AND run_at<?)"

var turnsArgs = []any{"default", `["work"]`, 0, 0, 2, "", nil, 10, 1}

var claimableArgs = []any{"default", "work", 0, 0, 2, "", 0, 0, 10}

type hotStatement struct {
	name  string
	query string
	args  []any
	index string // which its plan has to name
}

// hot are the statements that workers and short operations run, with arguments.
var hot = []hotStatement{
	{"levels of a queue", selectLevels, []any{"default", `["work"]`, 0}, "j USING COVERING INDEX later_job_ready (queue=? AND kind=? AND priority=? AND tenant>?)"},
	{"turns of what was due at once", selectTurnsAtOnce, turnsArgs, "j USING INDEX later_job_tenants (queue=? AND kind=? AND priority=? AND tenant>?)"},
	{"turns of what was scheduled", selectTurnsDue, turnsArgs, "j USING INDEX later_job_scheduled (queue=? AND kind=? AND run_at<?)"},
	{"tenants that have become due", selectTenantsDue, []any{"default", `["work"]`, 0, 0, 0, 10}, "j USING INDEX later_job_scheduled (queue=? AND kind=? AND run_at>? AND run_at<?)"},
	{"all tenants", selectTenantsToClaim, turnsArgs[:7], "j USING COVERING INDEX later_job_ready (queue=? AND kind=? AND priority=? AND tenant>?)"},
	{"turns of tenants that are named", selectTurnsNamed, append(slices.Clone(turnsArgs), `[]`), "head USING INDEX later_job_ready (queue=? AND kind=? AND priority=? AND tenant=? AND run_at<?)"},
	{"jobs that may start in a full scope", selectSpecial, []any{"default", `["work"]`, nil, 0, 2, `[]`, true}, "j USING INTEGER PRIMARY KEY"},
	{"gates", selectGateStates, []any{"tenant", `[]`, 0}, "s USING PRIMARY KEY (scope=? AND name=?)"},
	{"jobs of gates", selectGateStates, []any{"tenant", `[]`, 0}, "j USING INTEGER PRIMARY KEY"},
	{"heads", selectHeads, []any{`[]`, 0}, "j USING INTEGER PRIMARY KEY"},
	{"dead heads", selectHeads, []any{`[]`, 0}, "d USING INTEGER PRIMARY KEY"},
	{"storing of gates", upsertGateStates, []any{`[]`}, "json_each"},
	{"fencing", updateFenced, []any{`[]`, 0}, "later_job USING INTEGER PRIMARY KEY"},
	{"what still runs", selectStillLeased, []any{`[]`}, "j USING INTEGER PRIMARY KEY"},
	{"what gates have let in", selectLetIn, []any{"tenant", `[]`}, "s USING PRIMARY KEY (scope=? AND name=?)"},
	{"what has become due", countDue, []any{"default", `["work"]`, 0, 10}, "later_job_scheduled (queue=? AND kind=? AND run_at<?)"},
	{"next due", selectNextDue, []any{`[]`, `[]`}, "later_job_scheduled (queue=? AND kind=? AND run_at>?)"},
	{"claimable jobs of a lane", selectClaimable, claimableArgs, claimableIndex},
	{"claimable jobs of a single lane", selectClaimableRows, claimableArgs, claimableIndex},
	{"jobs by id", selectByID, []any{`[]`}, "later_job USING INTEGER PRIMARY KEY"},
	{"leasing", updateLeased, []any{0, 0, "", 0, `[]`}, "later_job USING INTEGER PRIMARY KEY"},
	{"log of the done", insertDoneLog, []any{`{}`, 0}, "j USING INTEGER PRIMARY KEY"},
	{"done together", deleteDone, []any{`{}`}, "j USING INTEGER PRIMARY KEY"},
	{"refused", selectRefused, []any{`{}`}, "j USING INTEGER PRIMARY KEY"},
	{"lost attempt", selectLost, []any{1}, "PRIMARY KEY"},
	{"taking", updateTaken, []any{0, 0, "", 0, 1, 1}, "PRIMARY KEY"},
	{"sweep of the cancelled", selectCancelled, []any{0, 10}, "later_job_cancelled"},
	{"sweep of the expired", selectExpired, []any{0, 10}, "later_job_expiring (expires_at<?)"},
	{"sweep of the lost", selectLostForGood, []any{0, 10, 5}, "later_job_crashed (crashes>?)"},
	{"suspect", selectSuspect, []any{0, `[]`, `[]`, 2, 5, nil, `[]`}, "later_job_crashed (crashes>?)"},
	{"renewal", updateRenewed, []any{0, 0, 0}, "PRIMARY KEY"},
	{"cancel requests", selectCancelRequests, nil, "later_job_cancelled (cancel_at>?)"},
	{"checkpoint", updateCheckpoint, []any{"", 0, 0}, "PRIMARY KEY"},
	{"done", deleteHeld, []any{0, 0}, "PRIMARY KEY"},
	{"log of one put off", insertPutOffLog[1], make([]any, 4+1), "j USING INTEGER PRIMARY KEY"},
	{"log of those put off", insertPutOffLog[64], make([]any, 4*64+1), "j USING INTEGER PRIMARY KEY"},
	{"retry", updateRetry, []any{0, "", 0, 0}, "PRIMARY KEY"},
	{"snooze", updateSnoozed, []any{0, 0, 0}, "PRIMARY KEY"},
	{"queues of those put off", selectQueues, []any{`{}`}, "j USING INTEGER PRIMARY KEY"},
	{"release", updateReleased, []any{0, 0}, "PRIMARY KEY"},
	{"attempt", selectAttempt, []any{0, 0}, "PRIMARY KEY"},
	{"burial", insertDead, []any{0, "", "", "", 0, 0, 1}, "PRIMARY KEY"},
	{"revival", insertRevived, []any{0, 0}, "PRIMARY KEY"},
	{"dropping a dead job", deleteDead, []any{0}, "PRIMARY KEY"},
	{"steering", selectForSteering, []any{0}, "PRIMARY KEY"},
	{"log of a job", selectLog, []any{0, 10}, "later_job_log_job"},
	{"finding", selectJob, []any{0, 0}, "PRIMARY KEY"},
	{"finding a dead job", selectDead, []any{0}, "PRIMARY KEY"},
	{"who holds a key", selectHolder, []any{"", "work", "k"}, "later_job_unique (tenant=? AND kind=? AND unique_key=?)"},
	{"who holds the key of a dead job", selectKeyHolder, []any{0}, "j USING COVERING INDEX later_job_unique (tenant=? AND kind=? AND unique_key=?)"},
	{"whose window it is", selectWindow, []any{"", "work", "k", 0}, "later_key_window USING PRIMARY KEY (tenant=? AND kind=? AND key=?)"},
	{"the job of a window", selectWindowJob, []any{0}, "PRIMARY KEY"},
	{"replacing", updateReplaced, []any{"", "", 0}, "PRIMARY KEY"},
	{"old windows", deleteOldWindows, []any{0, 10}, "later_key_window_end (ends_at<?)"},
}

func plan(t *testing.T, s *Store, query string, args ...any) string {
	t.Helper()
	rows, err := s.DB().Query("explain query plan "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, detail)
	}
	return b.String()
}

// The plans hold on an empty table, and with statistics that were taken on a
// table that looked otherwise: an application may run ANALYZE on its file.
func TestPlans(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "later.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(t *testing.T) {
		for _, h := range hot {
			got := plan(t, s, h.query, h.args...)
			if fullScan.MatchString(got) || !strings.Contains(got, h.index) {
				t.Errorf("%s: want %s and no scan, got\n%s", h.name, h.index, got)
			}
		}
		// They need the rows in the index's order, and end when they have enough.
		for _, query := range []string{selectClaimable, selectClaimableRows, selectTurnsAtOnce, selectTenantsToClaim, selectNextDue} {
			i := slices.IndexFunc(hot, func(h hotStatement) bool { return h.query == query })
			if got := plan(t, s, query, hot[i].args...); strings.Contains(got, "TEMP B-TREE") {
				t.Errorf("%s: something is sorted:\n%s", hot[i].name, got)
			}
		}
	}
	t.Run("on an empty table", check)

	_, err = s.DB().Exec(`
with recursive n (i) as (select 1 union all select i + 1 from n where i < 20000)
insert into later_job (kind, queue, run_at, expires_at, crashes, cancel_at, payload)
select 'kind-' || i, 'queue-' || i, 0, i, i % 3, i, '{}' from n;
analyze;
delete from later_job`)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("with statistics of another time", check)
}

// What a claim reads does not depend on what waits beside the jobs that it
// takes: future jobs of a better priority, unknown kinds, other queues.
func TestClaimReadsWhatItTakes(t *testing.T) {
	s, err := Open(t.Context(), ":memory:", Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.DB().Exec(`
with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000)
insert into later_job (kind, queue, priority, run_at, payload)
select 'work', 'default', -1, 253402300799999, '{}' from n
union all select 'unknown', 'default', -2, 0, '{}' from n
union all select 'work', 'elsewhere', -3, 0, '{}' from n;
insert into later_job (kind, payload) values ('work', '{}'), ('work', '{}'), ('work', '{}')`)
	if err != nil {
		t.Fatal(err)
	}
	err = s.writer.do(t.Context(), 1, func(tx *writeTx) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		levels, err := readLevels(tx, "default", `["work","none","work"]`, now)
		if err != nil {
			return err
		}
		if len(levels) != 1 || levels[0].priority != 0 || fmt.Sprint(levels[0].kinds) != "[work]" || levels[0].shared {
			t.Errorf("levels %+v, want only priority 0 with the kind work and one tenant", levels)
		}
		list, err := s.claimable(tx, "default", `["work","none","work"]`, nil, false, 10, nil, now)
		if len(list) != 3 {
			t.Errorf("claimable %v, want 3 jobs, each once", idsOf(list))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Merging the kinds of a lane gives the order of one list, however many there are
// and however many jobs are wanted.
func TestMergeKinds(t *testing.T) {
	s, err := Open(t.Context(), ":memory:", Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// Three kinds, two priorities, equal times among them.
	_, err = s.DB().Exec(`
with recursive n (i) as (select 0 union all select i + 1 from n where i < 299)
insert into later_job (kind, priority, run_at, payload)
select 'kind-' || (i * 7 % 3), i * 5 % 2, 1000 + i * 31 % 40, '{}' from n`)
	if err != nil {
		t.Fatal(err)
	}
	want := queryIDs(t, s, `select id from later_job order by priority, run_at, id`)
	for limit := 1; limit <= 310; limit += 7 {
		err = s.writer.do(t.Context(), 1, func(tx *writeTx) error {
			list, err := s.claimable(tx, later.DefaultQueue, `["kind-0","kind-1","kind-2"]`, nil, false, limit, nil, 10_000)
			got := idsOf(list)
			if fmt.Sprint(got) != fmt.Sprint(want[:min(limit, len(want))]) {
				t.Errorf("limit %d: got %v", limit, got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func idsOf(rows []*claimedRow) (ids []int64) {
	for _, r := range rows {
		ids = append(ids, r.record.ID)
	}
	return ids
}

func queryIDs(t *testing.T, s *Store, query string) []int64 {
	t.Helper()
	ids, err := readIDs(s.reader(t.Context()), query)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

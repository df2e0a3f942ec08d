package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/later-queue/later"
)

// Attempts after which the job runs again, because it failed or was snoozed, have
// their log rows written from the jobs, many with one statement, so that nothing is
// read into Go. Their jobs are changed one by one: together is no faster, and slower
// with long errors. The figures are in docs/decisions/0012-sqlite-speed.md.

const (
	// Parameters: run_at, errors, id, token.
	updateRetry = `
update later_job
set run_at = ?, errors = ?, failures = min(failures, 2147483646) + 1, crashes = 0,
  lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
where id = ? and lease_token = ?`

	// Parameters: run_at, id, token.
	updateSnoozed = `
update later_job
set run_at = ?, attempt = max(min(attempt, 2147483647) - 1, 0), crashes = 0,
  lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
where id = ? and lease_token = ?`

	// selectQueues are the queues of jobs that are held. Parameters: leases.
	selectQueues = `
select distinct j.queue
from json_each(?1) lease
cross join later_job j
where j.id = lease.key and j.lease_token = lease.value`
)

// putOffSizes are the numbers of log rows that one statement writes; a list is cut
// into them.
var putOffSizes = []int{64, 8, 1}

// insertPutOffLog are the statements, by the number of rows. Those of jobs that are
// not held any more are left out.
//
// Parameters: id, token, outcome and error of each, and now.
var insertPutOffLog = func() map[int]string {
	const row = "(?, ?, ?, ?)"
	statements := map[int]string{}
	for _, n := range putOffSizes {
		statements[n] = `
with ended (id, token, outcome, error) as (
  values ` + row + strings.Repeat(",\n    "+row, n-1) + `)
insert into later_job_log (` + logColumns + `)
select j.id, j.attempt, j.queue, j.kind, j.tenant, e.outcome, j.lease_holder, j.claimed_at, ?, e.error
from ended e
cross join later_job j
where j.id = e.id and j.lease_token = e.token`
	}
	return statements
}()

// splitPutOff returns the settlements after which the job runs again at a time of
// its own, and the others.
func splitPutOff(settlements []later.Settlement) (putOff, others []later.Settlement) {
	for _, st := range settlements {
		if st.Outcome == later.OutcomeRetry || st.Outcome == later.OutcomeSnoozed {
			putOff = append(putOff, st)
		} else {
			others = append(others, st)
		}
	}
	return putOff, others
}

// settlePutOff ends attempts that were retried or snoozed, and returns the leases
// that are lost.
func (s *Store) settlePutOff(tx transaction, list []later.Settlement, now int64) (refused []later.Lease, err error) {
	if err := wakeForSoon(tx, list, now); err != nil {
		return nil, err
	}
	logged, err := s.recordPutOff(tx, list, now)
	if err != nil {
		return nil, err
	}
	for _, st := range list {
		switch err := putOff(tx, st, now); {
		case errors.Is(err, later.ErrLeaseLost):
			refused = append(refused, st.Lease)
		case err != nil:
			return nil, fmt.Errorf("job %d: %w", st.Lease.ID, err)
		}
	}
	if held := int64(len(list) - len(refused)); !s.config.NoLog && logged != held {
		return nil, fmt.Errorf("logged %d attempts, want %d", logged, held)
	}
	return refused, nil
}

// recordPutOff writes the log rows of those that are held, unless the log is off.
func (s *Store) recordPutOff(tx transaction, list []later.Settlement, now int64) (logged int64, err error) {
	if s.config.NoLog {
		return 0, nil
	}
	for _, n := range putOffSizes {
		for ; len(list) >= n; list = list[n:] {
			args := make([]any, 0, 4*n+1)
			for _, st := range list[:n] {
				args = append(args, st.Lease.ID, st.Lease.Token, string(st.Outcome), nullText(st.Error))
			}
			result, err := tx.exec(insertPutOffLog[n], append(args, now)...)
			if err != nil {
				return 0, err
			}
			rows, err := result.RowsAffected()
			if err != nil {
				return 0, err
			}
			logged += rows
		}
	}
	return logged, nil
}

// putOff changes one job, or returns ErrLeaseLost.
func putOff(tx transaction, st later.Settlement, now int64) error {
	if st.Outcome == later.OutcomeSnoozed {
		return changed(tx.exec(updateSnoozed, after(now, st.Delay), st.Lease.ID, st.Lease.Token))
	}
	return changed(tx.exec(updateRetry, after(now, st.Delay), writeErrors(st.Errors), st.Lease.ID, st.Lease.Token))
}

// wakeForSoon wakes for those of the jobs that are due again soon.
func wakeForSoon(tx transaction, list []later.Settlement, now int64) error {
	var soon []later.Lease
	for _, st := range list {
		if isSoon(after(now, st.Delay), now) {
			soon = append(soon, st.Lease)
		}
	}
	if len(soon) == 0 {
		return nil
	}
	rows, err := tx.query(selectQueues, jsonLeases(soon))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var queue string
		if err := rows.Scan(&queue); err != nil {
			return err
		}
		tx.wake(queue)
	}
	return rows.Err()
}

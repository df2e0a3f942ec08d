package sqlite

import (
	"strconv"

	"github.com/later-queue/later"
)

// Attempts that are done are ended together, with two statements for all. The
// log rows are written from the jobs, so nothing is read into Go; that takes
// space before any is freed, so on a full disk each is settled by itself.
//
// Leases are passed as a JSON object of ids and tokens.
const (
	// Parameters: leases, now.
	insertDoneLog = `
insert into later_job_log (job_id, attempt, queue, kind, tenant, outcome, worker, started_at, finished_at)
select j.id, j.attempt, j.queue, j.kind, j.tenant, 'done', j.lease_holder, j.claimed_at, ?2
from json_each(?1) lease
cross join later_job j
where j.id = lease.key and j.lease_token = lease.value`

	// Parameters: leases.
	deleteDone = `
delete from later_job
where id in (
  select j.id
  from json_each(?1) lease
  cross join later_job j
  where j.id = lease.key and j.lease_token = lease.value)`

	// selectRefused is for the case that some of leases are lost. Parameters: leases.
	selectRefused = `
select lease.key, lease.value
from json_each(?1) lease
where not exists (
  select 1
  from later_job j
  where j.id = lease.key and j.lease_token = lease.value)`
)

// splitDone returns the leases of the settlements that only delete the job and
// log it without an error, and the other settlements.
func splitDone(settlements []later.Settlement) (done []later.Lease, others []later.Settlement) {
	done = make([]later.Lease, 0, len(settlements))
	for _, st := range settlements {
		if st.Outcome == later.OutcomeDone && st.Error == "" {
			done = append(done, st.Lease)
		} else {
			others = append(others, st)
		}
	}
	return done, others
}

// settleDone ends attempts as done, and returns the leases that are lost.
func (s *Store) settleDone(tx transaction, leases []later.Lease, now int64) (refused []later.Lease, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	list := jsonLeases(leases)
	held := int64(-1) // unknown
	if !s.config.NoLog {
		result, err := tx.exec(insertDoneLog, list, now)
		if err != nil {
			return nil, err
		}
		if held, err = result.RowsAffected(); err != nil {
			return nil, err
		}
	}
	if held != int64(len(leases)) {
		if refused, err = readRefused(tx, list); err != nil {
			return nil, err
		}
	}
	result, err := tx.exec(deleteDone, list)
	if err != nil {
		return nil, err
	}
	return refused, wantRows(result, len(leases)-len(refused))
}

func readRefused(tx transaction, leases string) ([]later.Lease, error) {
	rows, err := tx.query(selectRefused, leases)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var refused []later.Lease
	for rows.Next() {
		var l later.Lease
		if err := rows.Scan(&l.ID, &l.Token); err != nil {
			return nil, err
		}
		refused = append(refused, l)
	}
	return refused, rows.Err()
}

// jsonLeases is a list of leases as a parameter: an object of tokens by id.
func jsonLeases(leases []later.Lease) string {
	text := make([]byte, 0, 40*len(leases))
	for i, l := range leases {
		text = append(text, `,"`...)
		if i == 0 {
			text[0] = '{'
		}
		text = strconv.AppendInt(text, l.ID, 10)
		text = append(text, `":`...)
		text = strconv.AppendInt(text, l.Token, 10)
	}
	return string(append(text, '}'))
}

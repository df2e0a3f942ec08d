package sqlite

import (
	"database/sql"
	"fmt"
	"math"
	"strconv"

	"github.com/later-queue/later"
)

// taking is what a claim and a sweep lease with.
type taking struct {
	now    int64
	worker string
	token  int64
	until  int64
}

const selectLost = `
select id, attempt, queue, kind, tenant, lease_holder, claimed_at, lease_until, max_attempts, crashes
from later_job
where id = ?`

// updateTaken leases a job. A lease that it still had was lost. An attempt is
// counted within limits, because one saturated counter would fail the claim of
// all jobs beside it.
//
// Parameters: lease_until, lease_token, lease_holder, now, attempts to add, id.
const updateTaken = `
update later_job
set attempt = min(max(attempt, 0), 2147483647 - ?5) + ?5,
  crashes = min(max(crashes, 0), 999999) + (lease_until is not null),
  lease_until = ?1, lease_token = ?2, lease_holder = ?3, claimed_at = ?4,
  unique_key = iif(unique_until = 'started', null, unique_key)
where id = ?6
returning ` + jobColumns

// take leases the job with that id, which nobody holds.
func (s *Store) take(tx transaction, id int64, t taking, doom later.Doom) (*later.Claimed, error) {
	c := &later.Claimed{Lease: later.Lease{ID: id, Token: t.token}, Doom: doom, Now: toTime(t.now)}
	var l logRow
	var leaseUntil sql.NullInt64
	var maxAttempts, crashes int64
	err := tx.queryRow(selectLost, id).Scan(append(l.targets(), &leaseUntil, &maxAttempts, &crashes)...)
	if err != nil {
		return nil, err
	}
	if leaseUntil.Valid {
		crashes++
		c.LostWorker, c.LostAt = l.worker.String, toTime(leaseUntil.Int64)
		if err := s.record(tx, l, later.OutcomeLost, t.now, ""); err != nil {
			return nil, err
		}
	}
	// Its only attempt was lost.
	if doom == later.DoomNone && maxAttempts == 1 && crashes > 0 {
		c.Doom = later.DoomLost
	}
	counts := 0
	if c.Doom == later.DoomNone {
		counts = 1
	}
	var row jobRow
	if err := tx.queryRow(updateTaken, t.until, t.token, t.worker, t.now, counts, id).Scan(row.targets()...); err != nil {
		return nil, err
	}
	c.Record = row.value()
	return c, nil
}

// claimedColumns are what a claim reads of a job.
const claimedColumns = recordColumns + `, lease_until`

// claimedRow scans claimedColumns.
type claimedRow struct {
	recordRow
	leaseUntil sql.NullInt64
}

// plain reports whether a claim does nothing to the job but count an attempt
// and lease it.
func (r *claimedRow) plain() bool { return !r.leaseUntil.Valid && r.crashes == 0 }

// readClaimed reads jobs as far as budget allows.
func readClaimed(rows *sql.Rows, err error, budget *budget) ([]*claimedRow, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*claimedRow
	for !budget.spent() && rows.Next() {
		r := &claimedRow{}
		if err := rows.Scan(append(r.targets(), &r.leaseUntil)...); err != nil {
			return nil, err
		}
		list = append(list, r)
		budget.spend(len(r.record.Payload))
	}
	return list, rows.Err()
}

// updateLeased leases jobs that were never lost, with one statement for all. It
// returns nothing: what becomes of a row is known, and reading it a second time
// took as long as the rest of the claim.
//
// Parameters: lease_until, lease_token, lease_holder, now, ids as JSON.
const updateLeased = `
update later_job
set attempt = min(max(attempt, 0), 2147483646) + 1,
  lease_until = ?1, lease_token = ?2, lease_holder = ?3, claimed_at = ?4,
  unique_key = iif(unique_until = 'started', null, unique_key)
where id in (select value from json_each(?5))`

// takeAll leases jobs that may be claimed and have just been read.
func (s *Store) takeAll(tx transaction, rows []*claimedRow, t taking) ([]*later.Claimed, error) {
	claimed := make([]*later.Claimed, 0, len(rows))
	plain := make([]int64, 0, len(rows))
	for _, r := range rows {
		if !r.plain() {
			c, err := s.take(tx, r.record.ID, t, later.DoomNone)
			if err != nil {
				return nil, err
			}
			claimed = append(claimed, c)
			continue
		}
		plain = append(plain, r.record.ID)
		r.attempt = min(max(r.attempt, 0), math.MaxInt32-1) + 1
		claimed = append(claimed, &later.Claimed{
			Record: r.value(), Lease: later.Lease{ID: r.record.ID, Token: t.token}, Now: toTime(t.now),
		})
	}
	if len(plain) == 0 {
		return claimed, nil
	}
	result, err := tx.exec(updateLeased, t.until, t.token, t.worker, t.now, jsonIDs(plain))
	if err != nil {
		return nil, err
	}
	return claimed, wantRows(result, len(plain))
}

// wantRows is an error unless a statement has changed n rows: all of those that
// were read in the same transaction.
func wantRows(result sql.Result, n int) error {
	got, err := result.RowsAffected()
	if err == nil && got != int64(n) {
		err = fmt.Errorf("changed %d rows, want %d", got, n)
	}
	return err
}

// jsonIDs is a list of ids as a parameter.
func jsonIDs(ids []int64) string {
	text := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, id, 10)
	}
	return string(append(text, ']'))
}

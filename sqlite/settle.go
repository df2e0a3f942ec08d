package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/later-queue/later"
)

const (
	// Parameters: id, token.
	updateReleased = `
update later_job
set attempt = max(min(attempt, 2147483647) - 1, 0),
  lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
where id = ? and lease_token = ?
returning queue`

	selectAttempt = `
select ` + attemptColumns + `
from later_job
where id = ? and lease_token = ?`

	// It replaces the dead job of that id, which is there only if somebody copied
	// it back by hand and left it.
	//
	// Parameters: now, reason, error, errors, id, token, failures to add.
	insertDead = `
insert or replace into later_dead_job (` + deadColumns + `)
select id, queue, priority, tenant, kind, run_at, attempt, max_attempts, timeout_ms, expires_at,
  created_at, min(failures, 2147483646) + ?7, crashes, generation, headers, ?4, checkpoint, payload, ?1, ?2, ?3,
  unique_key, unique_until
from later_job
where id = ?5 and lease_token = ?6`
)

const deadColumns = recordColumns + `, died_at, reason, error, ` + keyColumns

// Settle implements [later.Runner].
func (s *Store) Settle(ctx context.Context, settlements []later.Settlement) (refused []later.Lease, err error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	err = s.writer.do(ctx, len(settlements), func(tx *writeTx) error {
		refused = nil
		now, err := tx.now()
		if err != nil {
			return err
		}
		rest := settlements
		if !tx.frugal {
			var done []later.Lease
			done, rest = splitDone(settlements)
			if refused, err = s.settleDone(tx, done, now); err != nil {
				return err
			}
		}
		// Those that stay come last: on a full disk, others free space before.
		putOff, single := splitPutOff(rest)
		for _, st := range single {
			err := s.settle(tx, st, now)
			if errors.Is(err, later.ErrLeaseLost) {
				refused = append(refused, st.Lease)
				continue
			}
			if err != nil {
				return fmt.Errorf("job %d: %w", st.Lease.ID, err)
			}
		}
		s.freed(tx)
		lost, err := s.settlePutOff(tx, putOff, now)
		refused = append(refused, lost...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settle: %w", err)
	}
	return refused, nil
}

// settle ends one attempt after which the job leaves or is free again, or returns
// ErrLeaseLost and changes nothing.
func (s *Store) settle(tx transaction, st later.Settlement, now int64) error {
	lease := st.Lease
	if st.Outcome == later.OutcomeReleased {
		return released(tx, lease)
	}
	// Jobs that leave are deleted before the log row is written: on a full disk
	// there is room for that row then.
	query := selectAttempt
	switch st.Outcome {
	case later.OutcomeDone, later.OutcomeCancelled, later.OutcomeExpired:
		query = deleteHeld
	case later.OutcomeDead:
	default:
		return fmt.Errorf("outcome %q cannot be settled", st.Outcome)
	}
	var l logRow
	err := tx.queryRow(query, lease.ID, lease.Token).Scan(l.targets()...)
	if errors.Is(err, sql.ErrNoRows) {
		return later.ErrLeaseLost
	}
	if err != nil {
		return err
	}
	if st.Outcome == later.OutcomeDead {
		if err := bury(tx, st, now); err != nil {
			return err
		}
	}
	return s.record(tx, l, st.Outcome, now, st.Error)
}

// released gives a job back.
func released(tx transaction, lease later.Lease) error {
	var queue string
	err := tx.queryRow(updateReleased, lease.ID, lease.Token).Scan(&queue)
	if errors.Is(err, sql.ErrNoRows) {
		return later.ErrLeaseLost
	}
	if err == nil {
		tx.wake(queue)
	}
	return err
}

// bury moves a job to the dead ones.
func bury(tx transaction, st later.Settlement, now int64) error {
	text := st.Error
	if n := len(st.Errors); n > 0 {
		text = st.Errors[n-1].Error
	}
	failed := 1
	if st.Reason == later.DeadLost {
		failed = 0
	}
	err := changed(tx.exec(insertDead, now, string(st.Reason), nullText(text),
		writeErrors(st.Errors), st.Lease.ID, st.Lease.Token, failed))
	if err != nil {
		return err
	}
	var l logRow
	return tx.queryRow(deleteHeld, st.Lease.ID, st.Lease.Token).Scan(l.targets()...)
}

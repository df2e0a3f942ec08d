package sqlite

import (
	"database/sql"
	"errors"

	"github.com/later-queue/later"
)

const (
	// lockWriters takes the file's write lock and changes nothing. A transaction of
	// the caller's may have begun deferred: if its first statement were to read, and
	// somebody wrote before it does, SQLite would refuse its writes for good. And the
	// clock is read after the wait for the lock.
	lockWriters = `delete from later_key_window where 0`

	// Parameters: tenant, kind, key.
	selectHolder = `
select id, ` + holderColumns + `
from later_job indexed by later_job_unique
where tenant = ?1 and kind = ?2 and unique_key = ?3`

	// Parameters: id.
	selectWindowJob = `
select ` + holderColumns + `
from later_job
where id = ?`

	selectIsDead = `select exists (select 1 from later_dead_job where id = ?)`

	// keyColumns are those of jobs and dead jobs that claims do not read.
	keyColumns = `unique_key, unique_until`

	holderColumns = `unique_until, run_at, created_at, attempt, lease_until, claimed_at, cancel_at, expires_at`

	updateKeyGone = `update later_job set unique_key = null where id = ?`

	// Parameters: payload, headers, id.
	updateReplaced = `update later_job set payload = ?, headers = ?, checkpoint = null where id = ?`

	updatePostponed = `update later_job set run_at = ? where id = ?`

	// Parameters: tenant, kind, key, now.
	selectWindow = `
select job_id
from later_key_window
where tenant = ? and kind = ? and key = ? and ends_at > ?`

	// Parameters: tenant, kind, key, ends_at, job_id.
	putWindow = `
insert or replace into later_key_window (tenant, kind, key, ends_at, job_id)
values (?, ?, ?, ?, ?)`

	insertKeyed = `
insert into later_job (queue, priority, tenant, kind, run_at, max_attempts, timeout_ms, expires_at, created_at, headers, payload,
  unique_key, unique_until)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// keyRow scans keyColumns.
type keyRow struct{ key, until sql.NullString }

func (k *keyRow) show(info *later.JobInfo) {
	info.UniqueKey = k.key.String
	if k.key.Valid && k.until.String == later.UntilStarted.String() {
		info.UniqueUntil = later.UntilStarted
	}
}

// holderRow scans holderColumns.
type holderRow struct {
	until      sql.NullString
	runAt      int64
	createdAt  int64
	attempt    int64
	leaseUntil sql.NullInt64
	claimedAt  sql.NullInt64
	cancelAt   sql.NullInt64
	expiresAt  sql.NullInt64
}

func (h *holderRow) targets() []any {
	return []any{&h.until, &h.runAt, &h.createdAt, &h.attempt, &h.leaseUntil, &h.claimedAt, &h.cancelAt, &h.expiresAt}
}

// state is the holder's, as jobState says it.
func (h *holderRow) state(now int64) later.State {
	switch {
	case h.leaseUntil.Valid && h.leaseUntil.Int64 >= now:
		return later.StateRunning
	case h.leaseUntil.Valid:
		return later.StateLost
	case h.runAt <= now:
		return later.StateReady
	case h.attempt > 0:
		return later.StateRetry
	}
	return later.StateScheduled
}

// willNotRun reports whether the holder only waits for being ended: it was cancelled
// or has expired. A lease that began after that is the sweep's, which ends it.
func (h *holderRow) willNotRun(now int64) bool {
	at := now
	if h.leaseUntil.Valid && h.leaseUntil.Int64 >= now && h.claimedAt.Valid {
		at = h.claimedAt.Int64
		return h.cancelAt.Valid && h.cancelAt.Int64 < at || h.expiresAt.Valid && h.expiresAt.Int64 <= at
	}
	return h.cancelAt.Valid || h.expiresAt.Valid && h.expiresAt.Int64 <= at
}

// hasStarted reports whether the holder was to hold its key until it started, and has
// started: claimed by a program that knows no keys.
func (h *holderRow) hasStarted() bool {
	return h.until.String == later.UntilStarted.String() && (h.attempt > 0 || h.leaseUntil.Valid)
}

// insertUnique stores a job with a key, or meets the holder of the key.
func insertUnique(tx transaction, j later.NewJob, now int64) (later.Enqueued, error) {
	if j.Unique.Until == later.ForWindow {
		return insertInWindow(tx, j, now)
	}
	var id int64
	var h holderRow
	err := tx.queryRow(selectHolder, j.Tenant, j.Kind, j.Unique.Key).Scan(append([]any{&id}, h.targets()...)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return later.Enqueued{}, err
	case h.willNotRun(now) || h.hasStarted():
		if _, err := tx.exec(updateKeyGone, id); err != nil {
			return later.Enqueued{}, err
		}
	default:
		return meet(tx, id, &h, j, now)
	}
	return insertOne(tx, j, now)
}

func insertInWindow(tx transaction, j later.NewJob, now int64) (later.Enqueued, error) {
	met := later.Enqueued{Outcome: later.Skipped}
	err := tx.queryRow(selectWindow, j.Tenant, j.Kind, j.Unique.Key, now).Scan(&met.ID)
	if errors.Is(err, sql.ErrNoRows) {
		done, err := insertOne(tx, j, now)
		if err != nil {
			return later.Enqueued{}, err
		}
		_, err = tx.exec(putWindow, j.Tenant, j.Kind, j.Unique.Key, j.Unique.WindowEnd(toTime(now)).UnixMilli(), done.ID)
		return done, err
	}
	if err != nil {
		return later.Enqueued{}, err
	}
	var h holderRow
	err = tx.queryRow(selectWindowJob, met.ID).Scan(h.targets()...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		met.Holder, err = leftAs(tx, met.ID)
		return met, err
	case err != nil:
		return later.Enqueued{}, err
	case h.willNotRun(now):
		met.Holder = h.state(now)
		return met, nil
	}
	return meet(tx, met.ID, &h, j, now)
}

// leftAs is the state of a job that is not in the table any more.
func leftAs(tx transaction, id int64) (later.State, error) {
	var dead bool
	err := tx.queryRow(selectIsDead, id).Scan(&dead)
	if dead {
		return later.StateDead, err
	}
	return later.StateEnded, err
}

// meet does to a holder what the request says, if it waits.
func meet(tx transaction, id int64, h *holderRow, j later.NewJob, now int64) (later.Enqueued, error) {
	met := later.Enqueued{ID: id, Outcome: later.Skipped, Holder: h.state(now)}
	if h.leaseUntil.Valid {
		return met, nil
	}
	replaced := j.Unique.OnConflict.Replaces()
	if replaced {
		if _, err := tx.exec(updateReplaced, string(j.Payload), writeHeaders(j.Headers), id); err != nil {
			return later.Enqueued{}, err
		}
	}
	runAt := min(dueAt(j, now), after(h.createdAt, j.Unique.Latest))
	postponed := j.Unique.OnConflict.Postpones() && runAt > h.runAt
	if postponed {
		if _, err := tx.exec(updatePostponed, runAt, id); err != nil {
			return later.Enqueued{}, err
		}
	}
	met.Outcome = later.ChangedOutcome(replaced, postponed)
	return met, nil
}

// insertOne stores a job with a key that nobody holds, or for a window.
func insertOne(tx transaction, j later.NewJob, now int64) (later.Enqueued, error) {
	var key, until any
	switch j.Unique.Until {
	case later.UntilStarted:
		key, until = j.Unique.Key, j.Unique.Until.String()
	case later.UntilDone:
		key = j.Unique.Key
	}
	runAt := dueAt(j, now)
	wakeIfSoon(tx, j.Queue, runAt, now)
	result, err := tx.exec(insertKeyed, j.Queue, j.Priority, j.Tenant, j.Kind, runAt, j.MaxAttempts,
		durationMillis(j.Timeout), expiryOf(j, now), now, writeHeaders(j.Headers), string(j.Payload), key, until)
	if err != nil {
		return later.Enqueued{}, err
	}
	id, err := result.LastInsertId()
	return later.Enqueued{ID: id}, err
}

package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/later-queue/later"
)

// The three reasons for which a job is ended, each a statement with a small
// index of its own. A job that is leased is left alone.
//
// Parameters: now, limit; and CrashLimit for the last.
const (
	selectCancelled = `
select id
from later_job indexed by later_job_cancelled
where cancel_at is not null
  and (lease_until is null or lease_until < ?1)
order by cancel_at
limit ?2`

	selectExpired = `
select id
from later_job indexed by later_job_expiring
where expires_at <= ?1
  and (lease_until is null or lease_until < ?1)
order by expires_at
limit ?2`

	selectLostForGood = `
select id
from later_job indexed by later_job_crashed
where crashes > 0
  and (lease_until is null or lease_until < ?1)
  and (crashes + (lease_until is not null) >= ?3 or max_attempts = 1)
order by crashes desc
limit ?2`
)

// selectSuspect is the first job that was lost too often to be claimed, and not
// often enough to be dead, outside of some scopes: each of these is a list of its two words and
// a job that is none of them.
//
// Parameters: now, queues and kinds as JSON, SuspectCrashes, CrashLimit, names of the only
// tenants or null, scopes.
const selectSuspect = `
select id, queue, kind, tenant
from later_job indexed by later_job_crashed
where crashes > 0
  and run_at <= ?1
  and cancel_at is null
  and (expires_at is null or expires_at > ?1)
  and (lease_until is null or lease_until < ?1)
  and crashes + (lease_until is not null) >= ?4
  and crashes + (lease_until is not null) < ?5
  and max_attempts > 1
  and queue in (select value from json_each(?2))
  and kind in (select value from json_each(?3))
  and (?6 is null or tenant in (select cast(unhex(value) as text) from json_each(?6)))
  and not exists (
    select 1 from later_gate g
    where g.paused_at is not null
      and (g.scope, g.name) in (('queue', later_job.queue), ('kind', later_job.kind), ('tenant', later_job.tenant)))
  and not exists (
    select 1 from json_each(?7) held
    where (held.value ->> 0, cast(unhex(held.value ->> 1) as text))
        in (('queue', later_job.queue), ('kind', later_job.kind), ('tenant', later_job.tenant))
      and later_job.id not in (select value from json_each(held.value -> 2)))
order by priority, run_at, id
limit 1`

// Sweep implements [later.Runner].
func (s *Store) Sweep(ctx context.Context, req later.SweepRequest) ([]*later.Claimed, error) {
	queues, err1 := json.Marshal(req.Queues)
	kinds, err2 := json.Marshal(req.Kinds)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("sweep: %w", firstOf(err1, err2))
	}
	// Most sweeps find nothing; they need no write lock.
	found := false
	err := s.snapshot(ctx, func(r reader) error {
		gates, err := readGates(r)
		if err != nil {
			return err
		}
		doomed, suspect, _, err := findSwept(r, req, string(queues), string(kinds), gates)
		found = len(doomed) > 0 || suspect != 0
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", explain(err))
	}
	if !found {
		return nil, nil
	}
	var claimed []*later.Claimed
	err = s.writer.do(ctx, req.Limit+1, func(tx *writeTx) error {
		claimed = nil
		gates, err := s.gatesOf(tx)
		if err != nil {
			return err
		}
		doomed, suspect, adm, err := findSwept(tx, req, string(queues), string(kinds), gates)
		if err != nil {
			return err
		}
		now, err := tx.now()
		if err != nil {
			return err
		}
		taking := taking{now: now, worker: req.Worker, token: req.Token, until: after(now, req.Lease)}
		for _, d := range doomed {
			c, err := s.take(tx, d.id, taking, d.doom)
			if err != nil {
				return err
			}
			claimed = append(claimed, c)
		}
		if suspect != 0 {
			c, err := s.take(tx, suspect, taking, later.DoomNone)
			if err != nil {
				return err
			}
			claimed = append(claimed, c)
		}
		markLimited(gates.limits, claimed)
		return adm.save(tx)
	})
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return claimed, nil
}

// doomedJob is a job to be ended, and why.
type doomedJob struct {
	id   int64
	doom later.Doom
}

// findSwept returns the jobs that a sweep is to lease; suspect is 0 without one, and else was
// let in.
func findSwept(q querier, req later.SweepRequest, queues, kinds string, gates *gates) (doomed []doomedJob, suspect int64, adm *admission, err error) {
	var now int64
	if err := q.queryRow(selectNow).Scan(&now); err != nil {
		return nil, 0, nil, err
	}
	seen := map[int64]bool{}
	for _, reason := range []struct {
		doom  later.Doom
		query string
		args  []any
	}{
		{later.DoomCancelled, selectCancelled, []any{now, req.Limit}},
		{later.DoomExpired, selectExpired, []any{now, req.Limit}},
		{later.DoomLost, selectLostForGood, []any{now, req.Limit, later.CrashLimit}},
	} {
		ids, err := readIDs(q, reason.query, reason.args...)
		if err != nil {
			return nil, 0, nil, err
		}
		for _, id := range ids {
			if !seen[id] && len(doomed) < req.Limit {
				seen[id] = true
				doomed = append(doomed, doomedJob{id, reason.doom})
			}
		}
	}
	adm = newAdmission(q, gates.limits, now)
	if !req.Suspect || len(req.Queues) == 0 || len(req.Kinds) == 0 {
		return doomed, 0, adm, nil
	}
	suspect, err = findSuspect(q, req, queues, kinds, adm)
	return doomed, suspect, adm, err
}

// findSuspect lets the first suspect in that gates do not hold back, or returns 0. Each of its
// looks leaves out one scope more, and so all the suspects that wait in it.
func findSuspect(q querier, req later.SweepRequest, queues, kinds string, adm *admission) (int64, error) {
	var tenants any
	if req.Tenants != nil {
		tenants = jsonNames(req.Tenants)
	}
	held := []any{}
	for {
		list, err := json.Marshal(held)
		if err != nil {
			return 0, err
		}
		var id int64
		var queue, kind, tenant string
		err = q.queryRow(selectSuspect, adm.now, queues, kinds, later.SuspectCrashes, later.CrashLimit, tenants, string(list)).
			Scan(&id, &queue, &kind, &tenant)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		err = firstOf(adm.load(later.ScopeQueue, queue), adm.load(later.ScopeKind, kind), adm.load(later.ScopeTenant, tenant))
		if err != nil {
			return 0, err
		}
		if adm.lets(id, queue, kind, tenant) {
			adm.let(id, queue, kind, tenant)
			return id, nil
		}
		for _, g := range adm.over(queue, kind, tenant) {
			if now := toTime(adm.now); !g.letsHead(id, now) {
				held = append(held, []any{g.scope.Of, hex.EncodeToString([]byte(g.scope.Name)), g.startable(now)})
			}
		}
	}
}

func readIDs(q querier, query string, args ...any) ([]int64, error) {
	rows, err := q.query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

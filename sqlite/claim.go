package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"

	"github.com/later-queue/later"
)

// A lane is one (queue, kind, priority). selectLanes lists the lanes of a queue
// that have a due job, best priority first: a loose scan over the ready index,
// with two looks for each lane that there is, whatever waits in it. "union" and
// not "union all", because a kind that is named twice is one lane.
//
// Parameters: queue, kinds as JSON, now.
const selectLanes = `
with recursive lane (kind, priority) as (
  select wanted.value, (
    select j.priority
    from later_job j indexed by later_job_ready
    where j.queue = ?1 and j.kind = wanted.value
    order by j.priority
    limit 1)
  from json_each(?2) wanted
  union
  select lane.kind, (
    select j.priority
    from later_job j indexed by later_job_ready
    where j.queue = ?1 and j.kind = lane.kind and j.priority > lane.priority
    order by j.priority
    limit 1)
  from lane
  where lane.priority is not null
)
select lane.priority, lane.kind
from lane
where lane.priority is not null
  and exists (
    select 1
    from later_job j indexed by later_job_ready
    where j.queue = ?1 and j.kind = lane.kind and j.priority = lane.priority and j.run_at <= ?3)
order by lane.priority, lane.kind`

// selectClaimable lists the first jobs of a lane, behind a position, that may be
// claimed. It reads the ready index up to now and no further.
//
// Parameters: queue, kind, priority, now, run_at and id of the position, limit,
// SuspectCrashes.
const selectClaimable = `
select id, run_at
from later_job indexed by later_job_ready
where queue = ?1 and kind = ?2 and priority = ?3
  and run_at <= ?4 and run_at >= ?5
  and (run_at > ?5 or id > ?6)
  and cancel_at is null
  and (expires_at is null or expires_at > ?4)
  and (lease_until is null or lease_until < ?4)
  and crashes + (lease_until is not null) < ?8
order by run_at, id
limit ?7`

type lane struct {
	queue    string
	kind     string
	priority int64
}

// candidate is a job that may be claimed, with its place in the lane.
type candidate struct {
	runAt int64
	id    int64
}

func (c candidate) before(d candidate) bool {
	return c.runAt < d.runAt || c.runAt == d.runAt && c.id < d.id
}

// Claim implements [later.Runner].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	if len(req.Queues) == 0 || len(req.Kinds) == 0 || req.Limit <= 0 {
		return nil, nil
	}
	kinds, err := json.Marshal(req.Kinds)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	var claimed []*later.Claimed
	err = s.writer.do(ctx, req.Limit, func(tx *writeTx) error {
		claimed = nil
		now, err := now(tx)
		if err != nil {
			return err
		}
		if err := giveBack(tx, req.Unanswered); err != nil {
			return err
		}
		taking := taking{now: now, worker: req.Worker, token: req.Token, until: after(now, req.Lease)}
		for _, q := range req.Queues {
			ids, err := claimable(tx, q.Queue, string(kinds), min(q.Limit, req.Limit-len(claimed)), now)
			if err != nil {
				return err
			}
			for _, id := range ids {
				c, err := s.take(tx, id, taking, later.DoomNone)
				if err != nil {
					return err
				}
				claimed = append(claimed, c)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return claimed, nil
}

// updateGivenBack takes back what claims did whose answer was lost. It reads the
// whole table: a claim of this store is answered unless its process dies, so it is
// hardly ever run.
//
// Parameters: tokens as JSON.
const updateGivenBack = `
update later_job
set attempt = max(min(attempt, 2147483647) - (max_attempts > 1 or crashes = 0), 0),
  lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
where lease_token in (select value from json_each(?))`

// giveBack frees the jobs that are leased with one of tokens.
func giveBack(tx transaction, tokens []int64) error {
	if len(tokens) == 0 {
		return nil
	}
	list, err := json.Marshal(tokens)
	if err != nil {
		return err
	}
	_, err = tx.exec(updateGivenBack, string(list))
	return err
}

// claimable returns the ids of at most limit jobs of a queue, in the order of
// priority, run_at, id.
func claimable(tx transaction, queue, kinds string, limit int, now int64) ([]int64, error) {
	if limit <= 0 {
		return nil, nil
	}
	lanes, err := readLanes(tx, queue, kinds, now)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for len(lanes) > 0 && len(ids) < limit {
		// The lanes of one priority are merged.
		same := 1
		for same < len(lanes) && lanes[same].priority == lanes[0].priority {
			same++
		}
		more, err := mergeLanes(tx, lanes[:same], limit-len(ids), now)
		if err != nil {
			return nil, err
		}
		ids, lanes = append(ids, more...), lanes[same:]
	}
	return ids, nil
}

func readLanes(tx transaction, queue, kinds string, now int64) ([]lane, error) {
	rows, err := tx.query(selectLanes, queue, kinds, now)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lanes []lane
	for rows.Next() {
		l := lane{queue: queue}
		if err := rows.Scan(&l.priority, &l.kind); err != nil {
			return nil, err
		}
		lanes = append(lanes, l)
	}
	return lanes, rows.Err()
}

// mergeLanes returns the first limit jobs of several lanes of one priority. It
// reads from each lane a share of what is wanted, and more where that was used
// up, so that many kinds cost no more than one.
func mergeLanes(tx transaction, lanes []lane, limit int, now int64) ([]int64, error) {
	share := limit/len(lanes) + 1
	if len(lanes) == 1 {
		share = limit
	}
	heads := make([]laneHead, len(lanes))
	for i, l := range lanes {
		heads[i] = laneHead{lane: l, last: candidate{runAt: math.MinInt64}}
		if err := heads[i].read(tx, share, now); err != nil {
			return nil, err
		}
	}
	var ids []int64
	for len(ids) < limit {
		var best *laneHead
		for i := range heads {
			h := &heads[i]
			if len(h.rows) > 0 && (best == nil || h.rows[0].before(best.rows[0])) {
				best = h
			}
		}
		if best == nil {
			break
		}
		ids = append(ids, best.rows[0].id)
		best.rows = best.rows[1:]
		if len(best.rows) == 0 && !best.ended && len(ids) < limit {
			if err := best.read(tx, min(share, limit-len(ids)), now); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// laneHead is how far a merge has come in a lane.
type laneHead struct {
	lane
	rows  []candidate
	last  candidate // the last one that was read
	ended bool
}

func (h *laneHead) read(tx transaction, limit int, now int64) error {
	rows, err := tx.query(selectClaimable, h.queue, h.kind, h.priority, now, h.last.runAt, h.last.id, limit, later.SuspectCrashes)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&h.last.id, &h.last.runAt); err != nil {
			return err
		}
		h.rows = append(h.rows, h.last)
	}
	h.ended = len(h.rows) < limit
	return rows.Err()
}

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
set attempt = min(attempt, 2147483647 - ?5) + ?5,
  crashes = min(max(crashes, 0), 999999) + (lease_until is not null),
  lease_until = ?1, lease_token = ?2, lease_holder = ?3, claimed_at = ?4
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

package sqlite

import (
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

// selectClaimable lists the places of the first jobs of a lane, behind a
// position, that may be claimed, and selectClaimableRows lists the jobs
// themselves. They read the ready index up to now and no further.
//
// Parameters: queue, kind, priority, now, run_at and id of the position, limit,
// SuspectCrashes.
const (
	selectClaimable = `
select id, run_at` + fromClaimable
	selectClaimableRows = `
select ` + claimedColumns + fromClaimable

	fromClaimable = `
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
)

// selectByID reads jobs in the order of the list. Parameters: ids as JSON.
const selectByID = `
select ` + claimedColumns + `
from (select value from json_each(?1)) wanted
cross join later_job
where id = wanted.value`

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

// claimable returns at most limit jobs of a queue that may be claimed, in the
// order of priority, run_at, id.
func claimable(tx transaction, queue, kinds string, limit int, now int64) ([]*claimedRow, error) {
	if limit <= 0 {
		return nil, nil
	}
	lanes, err := readLanes(tx, queue, kinds, now)
	if err != nil {
		return nil, err
	}
	var list []*claimedRow
	for len(lanes) > 0 && len(list) < limit {
		same := 1
		for same < len(lanes) && lanes[same].priority == lanes[0].priority {
			same++
		}
		more, err := readLevel(tx, lanes[:same], limit-len(list), now)
		if err != nil {
			return nil, err
		}
		list, lanes = append(list, more...), lanes[same:]
	}
	return list, nil
}

// readLevel returns the first limit jobs of the lanes of one priority. Several
// lanes are merged by the places of their jobs first, so that no large job is
// read in vain.
func readLevel(tx transaction, lanes []lane, limit int, now int64) ([]*claimedRow, error) {
	if len(lanes) == 1 {
		l := lanes[0]
		return readClaimed(tx.query(selectClaimableRows, l.queue, l.kind, l.priority, now, int64(math.MinInt64), 0, limit, later.SuspectCrashes))
	}
	ids, err := mergeLanes(tx, lanes, limit, now)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	return readClaimed(tx.query(selectByID, jsonIDs(ids)))
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

package sqlite

import (
	"math"

	"github.com/later-queue/later"
)

// A lane is one (queue, priority, tenant). In the ready index each kind of it is
// a part by itself. selectClaimable lists the places of the first jobs of a part,
// behind a position, that may be claimed, and selectClaimableRows lists the jobs
// themselves. They read later_job_ready up to now and no further.
//
// Parameters: queue, kind, priority, now, SuspectCrashes, tenant, run_at and id of
// the position, limit.
const (
	selectClaimable = `
select id, run_at, octet_length(payload)` + fromClaimable
	selectClaimableRows = `
select ` + claimedColumns + fromClaimable

	fromClaimable = `
from later_job indexed by later_job_ready
where queue = ?1 and kind = ?2 and priority = ?3 and tenant = ?6
  and run_at <= ?4 and run_at >= ?7
  and (run_at > ?7 or id > ?8)
  and ` + isClaimable + `
order by run_at, id
limit ?9`

	// isClaimable is what else a claim asks of a job that is due. Parameter 4 is
	// now, and 5 SuspectCrashes.
	isClaimable = `cancel_at is null
  and (expires_at is null or expires_at > ?4)
  and (lease_until is null or lease_until < ?4)
  and crashes + (lease_until is not null) < ?5`
)

// selectByID reads jobs in the order of the list. Parameters: ids as JSON.
const selectByID = `
select ` + claimedColumns + `
from (select value from json_each(?1)) wanted
cross join later_job
where id = wanted.value`

// candidate is a job that may be claimed, with its place in the lane.
type candidate struct {
	runAt int64
	id    int64
	kind  string // if it was read with others of its tenant
	bytes int    // of its payload
}

func (c candidate) before(d candidate) bool {
	return c.runAt < d.runAt || c.runAt == d.runAt && c.id < d.id
}

// readLane returns the first limit jobs of a level that has one tenant. Several
// kinds are merged by the places of their jobs first, so that no large job is
// read in vain.
func readLane(tx transaction, l level, limit int, budget *budget, now int64) ([]*claimedRow, error) {
	if len(l.kinds) == 1 {
		rows, err := tx.query(selectClaimableRows,
			l.queue, l.kinds[0], l.priority, now, later.SuspectCrashes, l.tenant, int64(math.MinInt64), 0, limit)
		return readClaimed(rows, err, budget)
	}
	ids, err := mergeKinds(tx, l, limit, budget, now)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	return readByID(tx, ids)
}

// readByID reads jobs that a budget has been spent on already.
func readByID(tx transaction, ids []int64) ([]*claimedRow, error) {
	rows, err := tx.query(selectByID, jsonIDs(ids))
	return readClaimed(rows, err, nil)
}

// mergeKinds returns the first limit jobs of a lane with several kinds. It reads
// from each a share of what is wanted, and more where that was used up, so that
// many kinds cost no more than one.
func mergeKinds(tx transaction, l level, limit int, budget *budget, now int64) ([]int64, error) {
	share := limit/len(l.kinds) + 1
	heads := make([]kindHead, len(l.kinds))
	for i, kind := range l.kinds {
		heads[i] = kindHead{level: l, kind: kind, last: candidate{runAt: math.MinInt64}}
		if err := heads[i].read(tx, share, now); err != nil {
			return nil, err
		}
	}
	var ids []int64
	for len(ids) < limit && !budget.spent() {
		var best *kindHead
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
		budget.spend(best.rows[0].bytes)
		best.rows = best.rows[1:]
		if len(best.rows) == 0 && !best.ended && len(ids) < limit {
			if err := best.read(tx, min(share, limit-len(ids)), now); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// kindHead is how far a merge has come in a kind of a lane.
type kindHead struct {
	level level
	kind  string
	rows  []candidate
	last  candidate // the last one that was read
	ended bool
}

func (h *kindHead) read(tx transaction, limit int, now int64) error {
	rows, err := tx.query(selectClaimable,
		h.level.queue, h.kind, h.level.priority, now, later.SuspectCrashes, h.level.tenant, h.last.runAt, h.last.id, limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&h.last.id, &h.last.runAt, &h.last.bytes); err != nil {
			return err
		}
		h.rows = append(h.rows, h.last)
	}
	h.ended = len(h.rows) < limit
	return rows.Err()
}

package sqlite

import (
	"math"
	"slices"
)

// lane is what is left of a tenant's jobs in a level.
type lane struct {
	tenant  string
	heads   []kindHead
	special []special
	had     int  // jobs in its turn
	cut     bool // there is more, which its queue or kind holds back
}

// ended reports whether the lane has nothing more, or nothing that its tenant may have.
func (one *lane) ended() bool { return len(one.heads) == 0 && !one.cut }

// drop leaves out a kind.
func (one *lane) drop(kind string) {
	one.heads = slices.DeleteFunc(one.heads, func(h kindHead) bool { return h.kind == kind })
	one.cut = true
}

// laneJob is a job at the head of a lane.
type laneJob struct {
	candidate
	special bool
}

// pop takes the first job of the lane.
func (one *lane) pop(tx transaction, share int, now int64) (job laneJob, found bool, err error) {
	best := -1
	for i := 0; i < len(one.heads); {
		h := &one.heads[i]
		if len(h.rows) == 0 && !h.ended {
			if err := h.read(tx, share/len(one.heads)+1, now); err != nil {
				return laneJob{}, false, err
			}
		}
		if len(h.rows) == 0 {
			one.heads = slices.Delete(one.heads, i, i+1)
			continue
		}
		if best < 0 || h.rows[0].before(one.heads[best].rows[0]) {
			best = i
		}
		i++
	}
	if len(one.special) > 0 && (best < 0 || !one.heads[best].rows[0].before(one.special[0].candidate)) {
		job = laneJob{one.special[0].candidate, true}
		one.special = one.special[1:]
		return job, true, nil
	}
	if best < 0 {
		return laneJob{}, false, nil
	}
	h := &one.heads[best]
	job = laneJob{h.rows[0], false}
	job.kind = h.kind
	h.rows = h.rows[1:]
	return job, true, nil
}

// unread is a lane's part of a kind of which nothing has been read.
func unread(l level, kind string) kindHead {
	return kindHead{level: l, kind: kind, last: candidate{runAt: math.MinInt64}}
}

package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// claimScan reads the answer of a claim, of which each row has a job or, in one of a
// careful claim, what was seen.
type claimScan struct {
	store *Store
	token int64

	decoder decoder
	known   bool      // whether binary is known
	binary  bool      // the answer can be read by the decoder
	now     time.Time // when the transaction began
	// began is when the statement did, its planning not included, and clock when the
	// latest row was made.
	began, clock time.Time
	lost         lostLeases
	seen         seen
}

// lostLeases are the leases that had ended of jobs that were claimed; mostly none.
type lostLeases struct {
	IDs     []int64
	Untils  []time.Time
	Holders []string
}

// The columns behind those of the record.
const (
	columnNow  = 18
	columnLost = 21
	columnSeen = 24
)

// row reads one row; the job is nil where there is none.
func (c *claimScan) row(row pgx.CollectableRow) (*later.Claimed, error) {
	values := row.RawValues()
	if !c.known {
		c.known, c.binary = true, isBinary(row.FieldDescriptions())
	}
	dest := make([]any, 0, columnSeen+4)
	var r recordRow
	hasJob := values[0] != nil
	if c.binary {
		c.now, c.began, c.clock = timestamp(values[columnNow]), timestamp(values[columnNow+1]), timestamp(values[columnNow+2])
		if hasJob {
			r = c.decoder.record(values)
		}
	} else {
		if hasJob {
			dest = r.dest()
		}
		dest = append(dest[:len(dest):len(dest)], make([]any, columnNow-len(dest))...)
		dest = append(dest, &c.now, &c.began, &c.clock)
	}
	careful := len(values) > columnSeen
	if !careful || !hasJob {
		c.lost = lostLeases{} // of an earlier try, if it has any
	}
	if values[columnLost] != nil {
		dest = append(dest, make([]any, columnLost-len(dest))...)
		dest = append(dest, &c.lost.IDs, &c.lost.Untils, &c.lost.Holders)
	}
	if careful && values[columnSeen] != nil {
		dest = append(dest, make([]any, columnSeen-len(dest))...)
		dest = append(dest, &c.seen.nrs, &c.seen.priorities, &c.seen.asked, &c.seen.picked)
	}
	if len(dest) > 0 {
		if err := row.Scan(append(dest, make([]any, len(values)-len(dest))...)...); err != nil {
			return nil, err
		}
	}
	if !hasJob {
		return nil, nil
	}
	return &later.Claimed{Record: r.record(c.store)}, nil
}

// finish leaves out what is no job and tells of each the lease that it has and the one
// that was lost.
func (c *claimScan) finish(jobs []*later.Claimed) []*later.Claimed {
	c.seen.now, c.seen.elapsed = c.now.UTC(), c.clock.Sub(c.began)
	jobs = slices.DeleteFunc(jobs, func(job *later.Claimed) bool { return job == nil })
	for _, job := range jobs {
		job.Lease = later.Lease{ID: job.ID, Token: c.token}
		job.Now = c.seen.now
		if job.MaxAttempts == 1 && job.Crashes > 0 {
			job.Doom = later.DoomLost
		}
		if i := slices.Index(c.lost.IDs, job.ID); i >= 0 {
			job.LostWorker, job.LostAt = c.lost.Holders[i], c.lost.Untils[i].UTC()
		}
	}
	return jobs
}

package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// claimScan reads the answer of a claim, of which each row has a job or, if it was asked for,
// whether any job has a tenant, and the version of the gates.
type claimScan struct {
	store *Store
	token int64

	decoder decoder
	known   bool      // whether binary is known
	binary  bool      // the answer can be read by the decoder
	now     time.Time // when the transaction began; zero: there was no row
	// began is when the statement did, its planning not included, and clock when the
	// latest row was made.
	began, clock time.Time
	tenants      bool
	version      int64 // of the gates; zero: it was not asked for

	bytes *byteBudget
}

// byteBudget is what the payloads of a whole claim may have together.
type byteBudget struct {
	most, had int           // most: 0 is no bound
	over      []later.Lease // of jobs beyond it, which come without their payloads
}

func (b *byteBudget) full() bool { return b.most > 0 && b.had >= b.most }

// elapsed is how long the statement took by the server.
func (c *claimScan) elapsed() time.Duration { return c.clock.Sub(c.began) }

// lostLease is a lease that had ended of a job that was claimed.
type lostLease struct {
	Until  int64  `json:"until"` // microseconds since 1970
	Holder string `json:"holder"`
}

// The columns of the record that may be large, and those behind it.
const (
	columnPayload    = 5
	columnCheckpoint = 17

	columnNow     = 18
	columnLost    = 21
	columnTenants = 22
)

// row reads one row; the job is nil where there is none.
func (c *claimScan) row(row pgx.CollectableRow) (*later.Claimed, error) {
	values := row.RawValues()
	if !c.known {
		c.known, c.binary = true, isBinary(row.FieldDescriptions())
	}
	dest := make([]any, 0, columnTenants+2)
	var r recordRow
	hasJob := values[0] != nil
	over := hasJob && c.bytes.full()
	if over { // then it is not kept in memory
		values[columnPayload], values[columnCheckpoint] = nil, nil
	}
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
	if len(values) > columnTenants && values[columnTenants] != nil {
		dest = append(dest, make([]any, columnTenants-len(dest))...)
		dest = append(dest, &c.tenants, &c.version)
	}
	if len(dest) > 0 {
		if err := row.Scan(append(dest, make([]any, len(values)-len(dest))...)...); err != nil {
			return nil, err
		}
	}
	if !hasJob {
		return nil, nil
	}
	job := &later.Claimed{Record: r.record(c.store)}
	if c.bytes.had += len(job.Payload); over {
		c.bytes.over = append(c.bytes.over, later.Lease{ID: job.ID, Token: c.token})
	}
	if text := values[columnLost]; text != nil {
		var lost lostLease
		if err := json.Unmarshal(text, &lost); err != nil {
			return nil, fmt.Errorf("lost lease of job %d: %w", job.ID, err)
		}
		job.LostWorker, job.LostAt = lost.Holder, time.UnixMicro(lost.Until).UTC()
	}
	return job, nil
}

// finish leaves out what is no job, and tells of each what the whole claim knows.
func (c *claimScan) finish(jobs []*later.Claimed) []*later.Claimed {
	c.now = c.now.UTC()
	jobs = slices.DeleteFunc(jobs, func(job *later.Claimed) bool { return job == nil })
	for _, job := range jobs {
		job.Lease = later.Lease{ID: job.ID, Token: c.token}
		job.Now = c.now
		if job.MaxAttempts == 1 && job.Crashes > 0 {
			job.Doom = later.DoomLost
		}
	}
	return jobs
}

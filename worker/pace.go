package worker

import (
	"time"

	"github.com/later-queue/later"
)

const (
	// startWithin is how long a job that was claimed ahead of a free slot may
	// have to wait for one, by what was measured. Chosen: the round trip of a
	// claim fits in many times, so that slots never wait for the database; and
	// it is what a job of better priority, or another worker, loses at most.
	startWithin = 100 * time.Millisecond
	// turnWithin is the same as startWithin where jobs have tenants: what is claimed ahead begins before
	// the job of a tenant that has just come. Chosen: several round trips of a claim, and a few times what a
	// job waits for in an idle system.
	turnWithin = 20 * time.Millisecond
	// maxAhead bounds the jobs that wait for a slot. Measured: with claims and
	// settles of about 1,000 jobs the database does a job at the least cost, and
	// the line is filled up when it is half empty. A drain with 4,000 was 1.1 to
	// 1.2 times as fast as with 2,000, since slots waited less for claims; with 8,000
	// it was no faster.
	maxAhead = 4000
	// limitedWithin is the same as startWithin for a job under a limit, which takes up a place while
	// it waits. Chosen: some round trips of a claim. One may wait in any case: if none did where
	// all slots are taken by what was claimed ahead, those under limits would never run.
	limitedWithin = 10 * time.Millisecond
	// aheadBytes bounds the payloads of the jobs that wait. Chosen: a fraction
	// of what a worker may use.
	aheadBytes = 8 << 20
	// claimBytes bounds the payloads of one claim's answer, whatever the average of the
	// latest was. Chosen: above the largest payload, so that most claims never meet it.
	claimBytes = 16 << 20
	// giveBackAfter is how long a claimed job waits for a slot at most; then the
	// jobs have become slow, and it goes back to where others can claim it.
	// Chosen: above the pauses of a busy machine.
	giveBackAfter = 500 * time.Millisecond
)

// reachesBytes reports whether a claim's answer may have ended because of its bytes.
func reachesBytes(jobs []*later.Claimed) bool {
	n := 0
	for _, c := range jobs {
		n += len(c.Payload)
	}
	return n >= claimBytes
}

// pace is what is known of how fast the jobs of one queue run. Jobs are claimed
// ahead only as far as it was measured that they will start in time.
type pace struct {
	// proven is how many jobs ran for no longer than one may wait, less when jobs
	// had to wait too long and whenever the queue is found empty. So what is
	// claimed ahead begins at nothing and doubles with each claim.
	proven int
	took   time.Duration // moving average of the handlers' run times
	bytes  int           // average payload of the latest claim
	// once: the latest claim had a job with a single attempt. Such a job is lost for
	// good if the worker dies, so none waits for a slot, and nothing is claimed ahead.
	once bool
	// turns: the latest claim had a job of a tenant, so tenants take turns.
	turns bool
}

// within is how long a job may wait for a slot.
func (p *pace) within() time.Duration {
	if p.turns {
		return turnWithin
	}
	return startWithin
}

// ended notes that a handler has run for d.
func (p *pace) ended(d time.Duration) {
	if p.took == 0 {
		p.took = d
	}
	// Over about 16 jobs: chosen.
	p.took += (d - p.took) / 16
	if d <= p.within() {
		p.proven = min(p.proven+1, maxAhead)
	}
}

// waited notes that the last of the jobs of a claim has waited for d.
func (p *pace) waited(d time.Duration) {
	if most := p.within(); d > most {
		p.proven = int(int64(p.proven) * int64(most) / int64(d))
	}
}

// lull notes that the queue had less than was asked for. Whatever comes next is
// to be shared with the other workers, until it is seen to be much again.
func (p *pace) lull() { p.proven /= 2 }

// slow notes that jobs had to be given back.
func (p *pace) slow() { p.proven = 0 }

// aheadLimited is how many jobs under a limit may wait for one of slots, if jobs may wait.
func (p *pace) aheadLimited(slots int) int {
	return max(1, int(int64(slots)*int64(limitedWithin)/int64(max(p.took, 1))))
}

// ahead is how many jobs may wait for one of slots at the moment.
func (p *pace) ahead(slots int) int {
	n := int64(p.proven)
	if n == 0 || p.once {
		return 0
	}
	n = min(n, int64(slots)*int64(p.within())/int64(max(p.took, 1)))
	if p.bytes > 0 {
		n = min(n, int64(aheadBytes/p.bytes))
	}
	return int(n)
}

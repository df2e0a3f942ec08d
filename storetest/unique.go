package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// situation is where a job with a key can be when a request with the same key comes,
// and what that meets, for each way to hold a key.
type situation struct {
	name string
	// bring enqueues the job and brings it there.
	bring                 func(c *uniqueCell) int64
	done, started, window meets
}

// meets is what a request meets: nobody, or a holder in that state, which can be
// changed if it waits.
type meets struct {
	holder later.State
	waits  bool
}

// The ways in which a key is not free.
var (
	free      = meets{}
	ready     = meets{later.StateReady, true}
	scheduled = meets{later.StateScheduled, true}
	retries   = meets{later.StateRetry, true}
	running   = meets{later.StateRunning, false}
	lost      = meets{later.StateLost, false}
	overdue   = meets{later.StateReady, false} // expired, and not ended yet
	isDead    = meets{later.StateDead, false}
	ended     = meets{later.StateEnded, false}
)

// situations are the rows of the table in docs/unique.md. Cases 104, 109, 110 and 112.
var situations = []situation{
	{"waits", func(c *uniqueCell) int64 { return c.first(nil) }, ready, ready, ready},
	{"is scheduled", func(c *uniqueCell) int64 {
		return c.first(func(o *later.Options) { o.Delay = long })
	}, scheduled, scheduled, scheduled},
	{"runs", func(c *uniqueCell) int64 { return c.claimed().ID }, running, free, running},
	{"waits for a retry", func(c *uniqueCell) int64 {
		held := c.claimed()
		if err := c.store.Checkpoint(c.ctx, held.Lease, []byte(`{"done":7}`)); err != nil {
			c.t.Fatalf("Checkpoint: %v", err)
		}
		return c.ends(held, later.OutcomeRetry)
	}, retries, free, retries},
	{"was snoozed", func(c *uniqueCell) int64 { return c.ends(c.claimed(), later.OutcomeSnoozed) }, scheduled, free, scheduled},
	{"was given back", func(c *uniqueCell) int64 { return c.ends(c.claimed(), later.OutcomeReleased) }, ready, free, ready},
	{"lost its worker", func(c *uniqueCell) int64 {
		held := c.claimed()
		c.endLease(held)
		return held.ID
	}, lost, free, lost},
	{"runs and is to be cancelled", func(c *uniqueCell) int64 {
		id := c.claimed().ID
		c.cancel(id, true)
		return id
	}, running, free, running},
	{"was to be cancelled and lost its worker", func(c *uniqueCell) int64 {
		held := c.claimed()
		c.cancel(held.ID, true)
		c.endLease(held)
		return held.ID
	}, free, free, lost},
	{"has expired and was not ended yet", func(c *uniqueCell) int64 { return c.expires() }, free, free, overdue},
	{"has expired and is being ended", func(c *uniqueCell) int64 {
		id := c.expires()
		c.swept(id)
		return id
	}, free, free, running},
	{"has expired and was ended", func(c *uniqueCell) int64 {
		return c.ends(c.swept(c.expires()), later.OutcomeExpired)
	}, free, free, ended},
	{"is dead", func(c *uniqueCell) int64 { return c.ends(c.claimed(), later.OutcomeDead) }, free, free, isDead},
	{"was brought back from the dead", func(c *uniqueCell) int64 {
		id := c.ends(c.claimed(), later.OutcomeDead)
		c.retry(id)
		return id
	}, ready, free, ready},
	{"is done", func(c *uniqueCell) int64 { return c.ends(c.claimed(), later.OutcomeDone) }, free, free, ended},
	{"was cancelled", func(c *uniqueCell) int64 {
		id := c.first(nil)
		c.cancel(id, false)
		return id
	}, free, free, ended},
	{"was cancelled while it ran", func(c *uniqueCell) int64 {
		return c.ends(c.claimed(), later.OutcomeCancelled)
	}, free, free, ended},
	{"was deleted", func(c *uniqueCell) int64 {
		id := c.first(nil)
		c.delete(id)
		return id
	}, free, free, ended},
	{"was deleted when it was dead", func(c *uniqueCell) int64 {
		id := c.ends(c.claimed(), later.OutcomeDead)
		c.delete(id)
		return id
	}, free, free, ended},
}

// uniqueCell is one cell of the table: a key, and a queue of its own.
type uniqueCell struct {
	*world
	opts later.Options
}

// first enqueues the job that takes the key.
func (c *uniqueCell) first(change func(*later.Options)) int64 {
	c.t.Helper()
	opts := c.opts
	if change != nil {
		change(&opts)
	}
	done, err := c.client().Enqueue(c.ctx, raw(`{"first":true}`), opts)
	if err != nil {
		c.t.Fatalf("Enqueue: %v", err)
	}
	equal(c.t, "outcome of the first", done, later.Enqueued{ID: done.ID})
	return done.ID
}

func (c *uniqueCell) claimed() *later.Claimed { return c.claimThis(c.first(nil)) }

func (c *uniqueCell) ends(held *later.Claimed, outcome later.Outcome) int64 {
	c.t.Helper()
	s := end(held, outcome)
	if outcome == later.OutcomeRetry || outcome == later.OutcomeSnoozed {
		s.Delay = long
	}
	c.settle(s)
	return held.ID
}

// expires enqueues a job that has expired.
func (c *uniqueCell) expires() int64 {
	c.t.Helper()
	id := c.first(func(o *later.Options) { o.ExpiresIn = short })
	c.pass(id, c.find(id).ExpiresAt.Add(clockStep))
	return id
}

// swept is the doomed job id under the lease of a sweep; what else there is to sweep
// comes from other cells, and is ended.
func (c *uniqueCell) swept(id int64) *later.Claimed {
	c.t.Helper()
	var found *later.Claimed
	c.eventually("the sweep finds the job", func() bool {
		for _, doomed := range c.sweepWith(seek(100, false)) {
			if doomed.ID == id {
				found = doomed
				continue
			}
			c.world.settle(end(doomed, later.OutcomeExpired))
		}
		return found != nil
	})
	return found
}

func (w *world) delete(id int64) {
	w.t.Helper()
	if err := w.store.Delete(w.ctx, id); err != nil {
		w.t.Fatalf("Delete %d: %v", id, err)
	}
}

// holds are the columns of the table.
var holds = []struct {
	name   string
	unique later.Unique
	meets  func(s situation) meets
}{
	{"until done", later.Unique{}, func(s situation) meets { return s.done }},
	{"until started", later.Unique{Until: later.UntilStarted}, func(s situation) meets { return s.started }},
	{"for a window", later.Unique{Until: later.ForWindow, Window: later.MaxWindow}, func(s situation) meets { return s.window }},
	{"for a sliding window", later.Unique{Until: later.ForWindow, Window: long, Sliding: true}, func(s situation) meets { return s.window }},
}

var everyConflict = []later.OnConflict{later.Skip, later.Replace, later.Postpone, later.ReplaceAndPostpone}

// testUniqueTable is docs/unique.md cell by cell. Cases 104, 109, 110 and 112.
func testUniqueTable(t *testing.T, open Open) {
	w := newWorld(t, open)
	cell := 0
	for _, hold := range holds {
		for _, s := range situations {
			for _, conflict := range everyConflict {
				t.Run(fmt.Sprintf("a key %s, whose job %s, with %s", hold.name, s.name, conflict), func(t *testing.T) {
					cell++
					unique := hold.unique
					unique.Key = fmt.Sprintf("key-%d", cell)
					c := &uniqueCell{
						world: &world{t: t, ctx: t.Context(), store: w.store},
						opts:  later.Options{Queue: fmt.Sprintf("queue-%d", cell), Unique: &unique},
					}
					c.meet(s.bring(c), conflict, hold.meets(s))
				})
			}
		}
	}
}

// meet has a request come while job id is the one that took the key.
func (c *uniqueCell) meet(id int64, conflict later.OnConflict, want meets) {
	c.t.Helper()
	before, err := c.store.Find(c.ctx, id)
	if err != nil {
		c.t.Fatalf("Find %d: %v", id, err)
	}
	unique, opts := *c.opts.Unique, c.opts
	unique.OnConflict = conflict
	if conflict.Postpones() {
		unique.Latest = 24 * time.Hour
	}
	opts.Unique, opts.Delay, opts.Headers = &unique, 2*long, map[string]string{"new": "1"}
	done, err := c.client().Enqueue(c.ctx, raw(`{"second":true}`), opts)
	if err != nil {
		c.t.Fatalf("Enqueue: %v", err)
	}

	if want == free {
		equal(c.t, "result", done, later.Enqueued{ID: done.ID})
		info := c.state(done.ID, later.StateScheduled)
		equal(c.t, "it is a new job", done.ID != id, true)
		equal(c.t, "payload", string(info.Payload), `{"second":true}`)
		return
	}
	outcome := later.Skipped
	if want.waits {
		outcome = later.ChangedOutcome(conflict.Replaces(), conflict.Postpones())
	}
	equal(c.t, "result", done, later.Enqueued{ID: id, Outcome: outcome, Holder: want.holder})
	after, err := c.store.Find(c.ctx, id)
	if err != nil {
		c.t.Fatalf("Find %d: %v", id, err)
	}
	expect := *before
	if want.waits && conflict.Replaces() {
		expect.Payload, expect.Headers, expect.Checkpoint = []byte(`{"second":true}`), opts.Headers, nil
	}
	if want.waits && conflict.Postpones() {
		between(c.t, "run_at", after.RunAt, before.Now.Add(2*long), after.Now.Add(2*long))
		expect.RunAt = after.RunAt
		if expect.State == later.StateReady {
			expect.State = after.State
		}
	}
	sameInfo(c.t, "holder", after, &expect)
}

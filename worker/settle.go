package worker

import (
	"runtime"
	"time"

	"github.com/later-queue/later"
)

const (
	// maxBatch bounds one settle. Measured: about there a job costs the least (see
	// maxAhead), and one that fails is bigger to repeat.
	maxBatch = 1000
	// settleBound is the longest that a settle may take.
	settleBound = 10 * time.Second
	// inTxBound is the same for jobs whose handler settled them in a
	// transaction. A handler that returned without ending that transaction
	// still locks the row.
	inTxBound = 2 * time.Second
	// hurriedBound is inTxBound while draining, so that several tries fit in.
	hurriedBound = 500 * time.Millisecond
	// hurriedPause is the longest pause between tries while draining.
	hurriedPause = 250 * time.Millisecond
)

// backlog is a line of results with a loop of its own that settles them.
type backlog struct {
	wake    chan struct{}
	results []*attempt // oldest first
	inHand  int        // taken from results for the settle that is under way
	ids     map[int64]bool
}

// put adds results to the backlog that they belong to. Those that may hang, or
// that the store may refuse to take, have one of their own, where they delay
// nobody else. The lock is held.
func (r *run) put(results ...*attempt) {
	for _, a := range results {
		b := &r.ordinary
		if a.solo || a.verdict.inTx {
			b = &r.doubtful
		}
		b.results = append(b.results, a)
		wake(b.wake)
	}
}

// waiting is how many results have not been stored. The lock is held.
func (r *run) waiting() int {
	return len(r.ordinary.results) + r.ordinary.inHand + len(r.doubtful.results) + r.doubtful.inHand
}

// toSettle hands the attempt's verdict to a settle loop. The lock is held.
func (r *run) toSettle(a *attempt, v verdict) {
	a.stage, a.verdict = pending, v
	a.hooks = v.failure != nil && (r.cfg.OnError != nil || r.cfg.OnDead != nil) ||
		v.settlement.Outcome == later.OutcomeExpired && r.cfg.OnExpired != nil
	r.put(a)
}

// settleLoop settles what has ended. While one settle is under way, the next
// batch forms.
func (r *run) settleLoop(b *backlog) {
	failures := 0
	for {
		batch, wait := r.nextBatch(b, time.Now())
		switch {
		case batch == nil:
		case r.settle(b, batch):
			failures = 0
			continue
		default:
			failures++
			wait = retryBackoff.Delay(failures, nil)
		}
		if !r.settlePause(b, wait, batch == nil) {
			return
		}
	}
}

// settlePause waits for d, or for new results if they count. It returns false
// when the run is over.
func (r *run) settlePause(b *backlog, d time.Duration, results bool) bool {
	var news, stopped chan struct{}
	if results {
		news = b.wake
	}
	if r.isStopping() {
		d = min(d, hurriedPause)
	} else {
		stopped = r.stopped
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-news:
		// Short jobs that are about to end may come along: without this a settle
		// of a single job would often be under way when the others end.
		runtime.Gosched()
	case <-timer.C:
	case <-stopped:
	case <-r.ops.Done():
		return false
	}
	return true
}

// nextBatch takes the results that can be settled together: the oldest that is
// due and, unless it is to be settled alone, others. Without one it returns how
// long to wait.
func (r *run) nextBatch(b *backlog, now time.Time) (batch []*attempt, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = time.Hour
	if b.ids == nil {
		b.ids = map[int64]bool{}
	}
	ids := b.ids
	clear(ids)
	if b == &r.ordinary {
		// None of these has to wait, or to be settled alone.
		n := 0
		for ; n < min(len(b.results), maxBatch) && !ids[b.results[n].claimed.ID]; n++ {
			ids[b.results[n].claimed.ID] = true
		}
		b.inHand = n
		if n > 0 {
			batch = b.results[:n:n]
			b.results = b.results[n:]
		}
		return batch, wait
	}
	var rest []*attempt
	for _, a := range b.results {
		due := a.retryAt.Sub(now)
		if r.stopping && due > hurriedPause {
			a.retryAt = now.Add(hurriedPause)
			due = hurriedPause
		}
		together := len(batch) == 0 || !a.solo && !batch[0].solo && len(batch) < maxBatch
		switch {
		case due > 0:
			wait = min(wait, due)
			rest = append(rest, a)
		case together && !ids[a.claimed.ID]: // one settle never names an id twice
			batch = append(batch, a)
			ids[a.claimed.ID] = true
		default:
			rest = append(rest, a)
		}
	}
	b.results, b.inHand = rest, len(batch)
	return batch, wait
}

// settle stores the verdicts of batch. It returns false when the store seems to
// be away; what was not settled is in a backlog again.
func (r *run) settle(b *backlog, batch []*attempt) bool {
	settlements := make([]later.Settlement, len(batch))
	for i, a := range batch {
		settlements[i] = a.verdict.settlement
	}
	bound := settleBound
	if batch[0].verdict.inTx {
		bound = inTxBound
		if r.isStopping() {
			bound = hurriedBound
		}
	}
	ctx, cancel := r.op(bound)
	refused, err := r.store.Settle(ctx, settlements)
	hung := ctx.Err() != nil
	cancel()

	r.mu.Lock()
	defer r.mu.Unlock()
	b.inHand = 0
	defer r.poke()
	if err != nil {
		return r.settleFailed(batch, err, hung)
	}
	r.outage = false
	r.outages.works("settle")
	isRefused := setOf(refused)
	var t tally
	for i, a := range batch {
		t = r.settled(a, isRefused[a.lease()], t)
		batch[i] = nil // its array may live on
	}
	r.counters.addOutcomes(t)
	return true
}

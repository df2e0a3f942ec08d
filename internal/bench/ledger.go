package bench

import (
	"slices"
	"sync/atomic"
	"time"
)

// ledger notes which jobs of a phase have been started, by their number, and
// when. It is safe for concurrent use.
type ledger struct {
	begin    time.Time
	seen     []atomic.Uint32 // one bit for each job
	acked    []int64         // nanoseconds after begin; each written once, by its caller
	started  []atomic.Int64  // likewise, by the first start
	calls    []int64         // how long the call took, in nanoseconds
	count    atomic.Int64    // jobs that were started
	repeated atomic.Int64
	strange  atomic.Int64 // jobs that are none of the phase
}

// newLedger has room for a number of jobs; times says whether to keep times too.
func newLedger(jobs int, times bool) *ledger {
	l := &ledger{begin: time.Now(), seen: make([]atomic.Uint32, (jobs+31)/32)}
	if times {
		l.acked, l.started, l.calls = make([]int64, jobs), make([]atomic.Int64, jobs), make([]int64, jobs)
	}
	return l
}

// start notes that the handler of a job has begun.
func (l *ledger) start(seq int) {
	if seq < 0 || seq/32 >= len(l.seen) {
		l.strange.Add(1)
		return
	}
	bit := uint32(1) << (seq % 32)
	if l.seen[seq/32].Or(bit)&bit != 0 {
		l.repeated.Add(1)
		return
	}
	if l.started != nil {
		l.started[seq].Store(int64(time.Since(l.begin)))
	}
	l.count.Add(1)
}

// ack notes that the call that enqueued a job began at from and has returned now.
func (l *ledger) ack(seq int, from time.Time) {
	now := time.Now()
	l.acked[seq], l.calls[seq] = int64(now.Sub(l.begin)), int64(now.Sub(from))
}

// starts are the latencies of the first n jobs from the end of the enqueue to
// the start of the handler. The handler may be first, because the answer of the
// commit has a way to go too: that is 0.
func (l *ledger) starts(n int) *Latency {
	all := make([]int64, n)
	for seq := range n {
		all[seq] = max(0, l.started[seq].Load()-l.acked[seq])
	}
	return latencyOf(all)
}

// latencyOf sorts the samples, which are nanoseconds: all of them are there, so
// nothing has to be estimated.
func latencyOf(samples []int64) *Latency {
	if len(samples) == 0 {
		return nil
	}
	slices.Sort(samples)
	at := func(percent int) float64 { // the nearest rank
		return float64(samples[(len(samples)*percent+99)/100-1]) / 1e6
	}
	return &Latency{Samples: len(samples), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

package worker

import "slices"

// line is where the claimed jobs of one queue wait for a slot: first those that
// are not to wait, then the better priority, and otherwise as they were claimed.
// Its owner locks it.
type line struct {
	jobs     []*attempt // from head on; those that left it otherwise are skipped
	head     int
	n        int // how many wait
	limited  int // how many of them are under a limit
	unsorted bool
	// served is the priority of the latest that started. A job that a claim brought from the
	// lowest priority counts as one of it: else later ones would go ahead of it for ever.
	served int
}

// push adds a job at its place.
func (l *line) push(a *attempt) {
	if a.lowest {
		a.rank = min(a.rank, l.served)
	}
	if len(l.jobs) > l.head && a.rank < l.jobs[len(l.jobs)-1].rank {
		l.unsorted = true
	}
	a.stage, a.line = queued, l
	l.jobs = append(l.jobs, a)
	l.n++
	if a.claimed.Limited {
		l.limited++
	}
}

// pop takes the first job, nil if there is none.
func (l *line) pop() *attempt {
	if l.unsorted {
		l.unsorted = false
		slices.SortStableFunc(l.jobs[l.head:], func(a, b *attempt) int {
			return a.rank - b.rank
		})
	}
	for l.head < len(l.jobs) {
		a := l.jobs[l.head]
		l.jobs[l.head] = nil
		l.head++
		switch {
		case l.head == len(l.jobs):
			l.jobs, l.head = l.jobs[:0], 0
		case l.head >= maxAhead:
			l.jobs, l.head = slices.Delete(l.jobs, 0, l.head), 0
		}
		if a.line == l {
			if l.leave(a); a.rank != firstRank {
				l.served = a.rank
			}
			return a
		}
	}
	return nil
}

// leave takes a job out of the line, wherever it stands.
func (l *line) leave(a *attempt) {
	a.line = nil
	l.n--
	if a.claimed.Limited {
		l.limited--
	}
}

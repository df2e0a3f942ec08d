package worker

import "slices"

// line is where the claimed jobs of one queue wait for a slot: the better
// priority first, and otherwise as they were claimed. Its owner locks it.
type line struct {
	jobs     []*attempt // from head on; those that left it otherwise are skipped
	head     int
	n        int // how many wait
	unsorted bool
}

// push adds a job at its place.
func (l *line) push(a *attempt) {
	if len(l.jobs) > l.head && a.claimed.Priority < l.jobs[len(l.jobs)-1].claimed.Priority {
		l.unsorted = true
	}
	a.stage, a.line = queued, l
	l.jobs = append(l.jobs, a)
	l.n++
}

// pop takes the first job, nil if there is none.
func (l *line) pop() *attempt {
	if l.unsorted {
		l.unsorted = false
		slices.SortStableFunc(l.jobs[l.head:], func(a, b *attempt) int {
			return int(a.claimed.Priority) - int(b.claimed.Priority)
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
			l.leave(a)
			return a
		}
	}
	return nil
}

// leave takes a job out of the line, wherever it stands.
func (l *line) leave(a *attempt) {
	a.line = nil
	l.n--
}

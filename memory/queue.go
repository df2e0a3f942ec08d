package memory

import (
	"cmp"
	"slices"
	"time"
)

// queue keeps a queue's jobs in the order of priority, run_at, id: a level per
// priority, so that jobs of a better priority that are not due yet cost a claim
// nothing. Running jobs stay in it; a claim passes over them.
type queue struct {
	levels []*level // by priority
}

type level struct {
	priority int16
	jobs     []*job // by run_at, id
}

func (q *queue) add(j *job) {
	at, found := q.find(j.Priority)
	if !found {
		q.levels = slices.Insert(q.levels, at, &level{priority: j.Priority})
	}
	l := q.levels[at]
	place, _ := l.find(j)
	l.jobs = slices.Insert(l.jobs, place, j)
}

func (q *queue) remove(j *job) {
	at, found := q.find(j.Priority)
	if !found {
		return
	}
	l := q.levels[at]
	place, found := l.find(j)
	if !found {
		return
	}
	// Jobs leave mostly at the head: shifting the shorter side makes that cheap.
	if place < len(l.jobs)/2 {
		copy(l.jobs[1:place+1], l.jobs[:place])
		l.jobs[0] = nil
		l.jobs = l.jobs[1:]
	} else {
		l.jobs = slices.Delete(l.jobs, place, place+1)
	}
	if len(l.jobs) == 0 {
		q.levels = slices.Delete(q.levels, at, at+1)
	}
}

func (q *queue) empty() bool { return len(q.levels) == 0 }

// due calls visit for the jobs whose run_at has come, in order, until it
// returns false.
func (q *queue) due(now time.Time, visit func(*job) bool) {
	for _, l := range q.levels {
		for _, j := range l.jobs {
			if j.RunAt.After(now) {
				break
			}
			if !visit(j) {
				return
			}
		}
	}
}

func (q *queue) find(priority int16) (int, bool) {
	return slices.BinarySearchFunc(q.levels, priority, func(l *level, p int16) int {
		return cmp.Compare(l.priority, p)
	})
}

func (l *level) find(j *job) (int, bool) {
	return slices.BinarySearchFunc(l.jobs, j, func(a, b *job) int {
		return cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
	})
}

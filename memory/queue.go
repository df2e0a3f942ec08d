package memory

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// queue keeps a queue's jobs: a level per priority, and in it a lane per tenant,
// so that jobs of a better priority that are not due yet, and those of other
// tenants, cost a claim next to nothing. Running jobs stay in their lanes; a
// claim passes over them.
type queue struct {
	levels []*level // by priority
}

type level struct {
	priority int16
	lanes    []*lane // by the bytes of the tenant
}

type lane struct {
	tenant string
	jobs   []*job // by run_at, id
}

func (q *queue) add(j *job) {
	at, found := q.find(j.Priority)
	if !found {
		q.levels = slices.Insert(q.levels, at, &level{priority: j.Priority})
	}
	q.levels[at].add(j)
}

func (q *queue) remove(j *job) {
	at, found := q.find(j.Priority)
	if !found {
		return
	}
	l := q.levels[at]
	l.remove(j)
	if len(l.lanes) == 0 {
		q.levels = slices.Delete(q.levels, at, at+1)
	}
}

func (q *queue) empty() bool { return len(q.levels) == 0 }

func (q *queue) find(priority int16) (int, bool) {
	return slices.BinarySearchFunc(q.levels, priority, func(l *level, p int16) int {
		return cmp.Compare(l.priority, p)
	})
}

func (l *level) add(j *job) {
	at, found := l.find(j.Tenant)
	if !found {
		l.lanes = slices.Insert(l.lanes, at, &lane{tenant: j.Tenant})
	}
	l.lanes[at].add(j)
}

func (l *level) remove(j *job) {
	at, found := l.find(j.Tenant)
	if !found {
		return
	}
	lane := l.lanes[at]
	lane.remove(j)
	if len(lane.jobs) == 0 {
		l.lanes = slices.Delete(l.lanes, at, at+1)
	}
}

func (l *level) find(tenant string) (int, bool) {
	return slices.BinarySearchFunc(l.lanes, tenant, func(lane *lane, t string) int {
		return strings.Compare(lane.tenant, t)
	})
}

func (l *lane) add(j *job) {
	place, _ := l.find(j)
	l.jobs = slices.Insert(l.jobs, place, j)
}

func (l *lane) remove(j *job) {
	place, found := l.find(j)
	if !found {
		return
	}
	// Jobs leave mostly at the head: shifting the shorter side makes that cheap.
	if place < len(l.jobs)/2 {
		copy(l.jobs[1:place+1], l.jobs[:place])
		l.jobs[0] = nil
		l.jobs = l.jobs[1:]
		return
	}
	l.jobs = slices.Delete(l.jobs, place, place+1)
}

func (l *lane) find(j *job) (int, bool) {
	return slices.BinarySearchFunc(l.jobs, j, func(a, b *job) int {
		return cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
	})
}

// deal hands the due jobs of a level to offer, until room of them are taken, or all that
// offer wants. The tenants take turns, of as many jobs as their weights say. It begins where
// the mark says, and returns where the next one begins; that is not set if nothing was taken.
func (l *level) deal(now time.Time, from turnMark, room int, weight func(tenant string) int, offer func(*job) verdict) (next turnMark) {
	first, begun := 0, 0 // begun is what is left of the turn of the first tenant
	if from.set {
		at, found := l.find(from.tenant)
		if first = at; found {
			if begun = from.left; begun == 0 {
				first++
			}
		}
	}
	heads := make([]laneHead, len(l.lanes)) // of the tenants that may have more
	for i := range heads {
		heads[i].lane = l.lanes[(first+i)%len(l.lanes)]
	}
	for len(heads) > 0 && room > 0 {
		more := heads[:0]
		for _, h := range heads {
			if room == 0 {
				break
			}
			turn := weight(h.lane.tenant)
			if begun > 0 {
				turn, begun = min(begun, turn), 0
			}
			got, enough := h.take(now, min(turn, room), offer)
			if room -= got; enough {
				room = 0
			}
			if got > 0 {
				next = turnMark{tenant: h.lane.tenant, set: true}
				if room == 0 {
					next.left = turn - got
				}
			}
			if got == turn {
				more = append(more, h)
			}
		}
		heads = more
	}
	return next
}

// turnMark is a tenant whose turn it was last, and how many jobs it still has in it. The
// empty tenant is one too.
type turnMark struct {
	tenant string
	left   int
	set    bool
}

// verdict is what becomes of a job that was offered.
type verdict int

const (
	passed    verdict = iota
	taken             // by the claim
	takenLast         // and the claim has enough
	laneShut          // nor can any other job of its lane be taken
)

// laneHead is how far a claim has come in a lane.
type laneHead struct {
	lane *lane
	next int
}

// take offers the lane's due jobs until most of them are taken, or enough is.
func (h *laneHead) take(now time.Time, most int, offer func(*job) verdict) (got int, enough bool) {
	for ; got < most && h.next < len(h.lane.jobs); h.next++ {
		j := h.lane.jobs[h.next]
		if j.RunAt.After(now) {
			return got, false
		}
		switch offer(j) {
		case taken:
			got++
		case takenLast:
			h.next++
			return got + 1, true
		case laneShut:
			h.next = len(h.lane.jobs)
			return got, false
		}
	}
	return got, false
}

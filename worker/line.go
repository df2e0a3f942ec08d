package worker

import (
	"cmp"
	"maps"
	"slices"
)

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
	// served round by round: now is the round of the latest that started, by rank, and rounds are
	// those of the latest that came, since the line was empty. Who comes anew begins at now.
	now    map[int]int
	rounds map[lane]round
}

// lane is whose jobs of a rank come one after the other.
type lane struct {
	rank   int
	tenant string
}

// round is in which round a job is, by which turn of which claim.
type round struct {
	round, turn int
	claim       int64 // its token
}

// push adds a job at its place.
func (l *line) push(a *attempt) {
	if a.lowest {
		a.rank = min(a.rank, l.served)
	}
	l.enter(a)
	if len(l.jobs) > l.head && compare(a, l.jobs[len(l.jobs)-1]) < 0 {
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
		slices.SortStableFunc(l.jobs[l.head:], compare)
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
			l.now[a.rank] = max(l.now[a.rank], a.round)
			return a
		}
	}
	return nil
}

// compare is the order of two jobs in line.
func compare(a, b *attempt) int { return cmp.Or(a.rank-b.rank, a.round-b.round) }

// enter says in which round a job is. A claim's turns go on from the round in which its tenant is; so
// who has jobs in line has no more of a round because another claim brings some.
func (l *line) enter(a *attempt) {
	if l.n == 0 {
		l.now, l.rounds = map[int]int{}, map[lane]round{}
	}
	of, claim := lane{a.rank, a.claimed.Tenant}, a.claimed.Lease.Token
	switch had, known := l.rounds[of]; {
	case known && had.claim == claim:
		a.round = had.round + a.claimed.Turn - had.turn
	case known:
		a.round = max(had.round+1, l.now[a.rank])
	default:
		a.round = l.now[a.rank]
	}
	l.rounds[of] = round{a.round, a.claimed.Turn, claim}
	if len(l.rounds) > 2*maxAhead { // most of these have none in line
		maps.DeleteFunc(l.rounds, func(of lane, r round) bool { return r.round < l.now[of.rank] })
	}
}

// leave takes a job out of the line, wherever it stands.
func (l *line) leave(a *attempt) {
	a.line = nil
	l.n--
	if a.claimed.Limited {
		l.limited--
	}
}

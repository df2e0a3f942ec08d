package worker

import (
	"slices"

	"github.com/later-queue/later"
)

// shares divides the slots between the queues, and holds the jobs that were
// claimed ahead. Its owner locks it.
type shares struct {
	queues []queueShare
	byName map[string]int
	slots  int
	inLine int // jobs that wait for a slot, of all queues
}

type queueShare struct {
	Queue
	// more: as far as is known the queue has work. A claim that got less than
	// it asked for clears it, the next poll sets it.
	more bool
	// cut: the latest claim brought as many jobs as it might bring of those under limits, and
	// less than it asked for. So that is most of what there is, and no more jobs are to wait
	// than may wait of these.
	cut bool
	// occupied counts the slots that jobs of this queue hold.
	occupied int
	// credit is the queue's place in the smooth weighted round robin that
	// settles what rounding leaves open: who gets the only slot next. turn is
	// the same for starting what was claimed.
	credit, turn float64
	// line are the jobs that wait for a slot.
	line line
	pace pace
}

func newShares(queues []Queue, slots int) *shares {
	s := &shares{byName: map[string]int{}, slots: slots}
	for i, q := range queues {
		s.queues = append(s.queues, queueShare{Queue: q, more: true})
		s.byName[q.Name] = i
	}
	return s
}

// refresh lets every queue be asked again.
func (s *shares) refresh() {
	for i := range s.queues {
		s.queues[i].more = true
	}
}

// anyMore reports whether a claim may find something.
func (s *shares) anyMore() bool {
	for i := range s.queues {
		if s.queues[i].more {
			return true
		}
	}
	return false
}

// find returns the queue of that name, or nil. A queue that is not served (a
// store's mistake, or a job of the sweep) is nobody's share.
func (s *shares) find(queue string) *queueShare {
	if len(s.queues) == 1 && s.queues[0].Name == queue {
		return &s.queues[0]
	}
	if i, ok := s.byName[queue]; ok {
		return &s.queues[i]
	}
	return nil
}

// occupy changes how many slots the queue's jobs hold.
func (s *shares) occupy(queue string, by int) {
	if q := s.find(queue); q != nil {
		q.occupied += by
	}
}

// active is the sum of the shares of the queues that have work, as far as is
// known.
func (s *shares) active() int {
	active := 0
	for i := range s.queues {
		if q := &s.queues[i]; q.more || q.line.n > 0 {
			active += q.Share
		}
	}
	return active
}

// below reports whether the queue, with n more jobs than now, holds less than
// its part, rounded up, of the slots.
func (s *shares) below(q *queueShare, n, active int) bool {
	return (q.occupied+n)*active < s.slots*q.Share
}

// ahead is how many jobs of the queue may wait for a slot, and how many under limits
// are among them at most.
func (s *shares) ahead(q *queueShare, active int) (n, limited int) {
	if q.pace.proven == 0 {
		return 0, 0
	}
	part := (s.slots*q.Share + active - 1) / active
	if n = min(q.pace.ahead(part), (maxAhead*q.Share+active-1)/active); n == 0 {
		return 0, 0
	}
	if limited = min(n, q.pace.aheadLimited(part)); q.cut {
		n = limited
	}
	return n, limited
}

// wants reports whether a claim is worthwhile: for a free slot, or because half
// of the jobs that may wait are gone. Not sooner than half: else a claim would
// follow each job. forAhead says that jobs may be claimed ahead at all.
func (s *shares) wants(free int, forAhead bool) bool {
	active := s.active()
	forAhead = forAhead && s.inLine < maxAhead
	for i := range s.queues {
		q := &s.queues[i]
		switch {
		case !q.more:
		case free > 0 && s.below(q, q.line.n, active):
			return true
		case forAhead:
			if n, _ := s.ahead(q, active); n > 0 && q.line.n <= n/2 {
				return true
			}
		}
	}
	return false
}

// asking is what a claim asks for.
type asking struct {
	limits []later.QueueLimit
	total  int // jobs in all
	// limited is how many of them may be under limits: one for each free slot, and those
	// that may wait.
	limited int
}

// free is the request's Free, of which 0 means something else.
func (a *asking) free() int {
	switch {
	case a.limited >= a.total:
		return 0 // no bound
	case a.limited == 0:
		return -1
	}
	return a.limited
}

// divide says what a claim is to ask for, at most limit jobs in all. Each of the
// free slots goes to a queue that may have work: to one that holds less than its
// part of all slots, in turn by shares. So every free slot is offered to
// somebody (nothing is kept back for a queue that has no work), and a queue that
// comes back gets the next slots until it has its part. Then comes what each
// queue may have waiting, if forAhead. Where there are more queues than slots,
// those that got none follow with one job each, which they get if the others have
// less than they were given: so one claim is enough to find all of them empty.
func (s *shares) divide(free, limit int, forAhead bool) (ask asking) {
	active := s.active()
	if active == 0 {
		return ask
	}
	given := make([]int, len(s.queues))
	taken := make([]int, len(s.queues)) // slots for jobs that wait
	for ; free > 0 && limit > 0; free-- {
		best := -1
		for i := range s.queues {
			q := &s.queues[i]
			if !q.more && q.line.n == taken[i] || !s.below(q, given[i]+taken[i], active) {
				continue
			}
			q.credit += float64(q.Share) / float64(active)
			if best < 0 || q.credit > s.queues[best].credit {
				best = i
			}
		}
		if best < 0 {
			// All have their part, and slots lent to idle queues' jobs do not
			// count: cannot happen while free ≤ slots − occupied.
			break
		}
		s.queues[best].credit--
		if taken[best] < s.queues[best].line.n {
			taken[best]++
			continue
		}
		given[best]++
		ask.limited++
		limit--
	}
	ask.limits = make([]later.QueueLimit, 0, len(s.queues))
	room := min(limit, maxAhead-s.inLine)
	for i := range s.queues {
		q := &s.queues[i]
		if forAhead && q.more {
			most, limited := s.ahead(q, active)
			n := max(0, min(room, most-q.line.n+taken[i]))
			given[i] += n
			room -= n
			ask.limited += max(0, min(n, limited-q.line.limited))
		}
		if given[i] > 0 {
			ask.limits = append(ask.limits, later.QueueLimit{Queue: q.Name, Limit: given[i]})
			ask.total += given[i]
		}
	}
	for i := range s.queues {
		q := &s.queues[i]
		if ask.total > 0 && given[i] == 0 && q.more && s.below(q, q.line.n, active) {
			ask.limits = append(ask.limits, later.QueueLimit{Queue: q.Name, Limit: 1})
		}
	}
	return ask
}

// pick takes the job that is to have the next slot, nil if none of those that
// wait may have it: a slot that belongs to a queue with work of its own waits for
// the claim that asks for it.
func (s *shares) pick() *attempt {
	if s.inLine == 0 {
		return nil
	}
	best := 0
	if len(s.queues) > 1 {
		best = s.nextTurn()
	}
	if best < 0 {
		return nil
	}
	a := s.queues[best].line.pop()
	if a != nil {
		s.inLine--
	}
	return a
}

// mayPick reports whether pick would return a job: while all queues that have jobs in
// line hold their parts already, it would not.
func (s *shares) mayPick() bool {
	if s.inLine == 0 || len(s.queues) == 1 {
		return s.inLine > 0
	}
	active := s.active()
	return slices.ContainsFunc(s.queues, func(q queueShare) bool {
		return q.line.n > 0 && s.below(&q, 0, active)
	})
}

// nextTurn is the queue whose job starts next, −1 if none may.
func (s *shares) nextTurn() int {
	active, best := s.active(), -1
	for i := range s.queues {
		q := &s.queues[i]
		if q.line.n == 0 || !s.below(q, 0, active) {
			continue
		}
		q.turn += float64(q.Share) / float64(active)
		if best < 0 || q.turn > s.queues[best].turn {
			best = i
		}
	}
	if best >= 0 {
		s.queues[best].turn--
	}
	return best
}

// push lets a job wait for a slot. It returns false when its queue is not
// served.
func (s *shares) push(a *attempt) bool {
	q := s.find(a.claimed.Queue)
	if q == nil {
		return false
	}
	q.line.push(a)
	s.inLine++
	return true
}

// leave takes a job that waits out of its line.
func (s *shares) leave(a *attempt) {
	if a.line != nil {
		a.line.leave(a)
		s.inLine--
	}
}

// proven is how many results may wait to be stored beyond one for each slot: as
// many as jobs may be claimed ahead.
func (s *shares) proven() int {
	n := 0
	for i := range s.queues {
		n += s.queues[i].pace.proven
	}
	return min(n, maxAhead)
}

// learn takes from the result of a claim which queues have no more work, and how big
// their payloads are.
func (s *shares) learn(asked asking, got []*later.Claimed) {
	left, ended := asked.total, reachesBytes(got)
	// There may be more under limits than were allowed to come.
	cut := asked.limited < asked.total && len(got) >= asked.limited
	count := make([]int, len(s.queues))
	bytes := make([]int, len(s.queues))
	once, limited, turns := make([]bool, len(s.queues)), make([]bool, len(s.queues)), make([]bool, len(s.queues))
	for _, c := range got {
		i := 0
		if len(s.queues) > 1 {
			i = s.byName[c.Queue]
		}
		count[i]++
		bytes[i] += len(c.Payload)
		once[i] = once[i] || c.MaxAttempts == 1
		limited[i] = limited[i] || c.Limited
		turns[i] = turns[i] || c.Tenant != ""
	}
	for _, limit := range asked.limits {
		i, ok := s.byName[limit.Queue]
		// With total jobs found, or enough bytes, those that follow were not looked at.
		certain := !ended && (left > 0 || len(got) < asked.total)
		left -= limit.Limit
		if !ok {
			continue
		}
		q := &s.queues[i]
		if count[i] > 0 {
			q.pace.bytes, q.pace.once, q.pace.turns = bytes[i]/count[i], once[i], turns[i]
		}
		switch {
		case count[i] >= limit.Limit:
			q.cut = q.cut && limited[i]
		case certain && cut:
			q.cut = true
		case certain:
			q.more, q.cut = false, false
			q.pace.lull()
		}
	}
}

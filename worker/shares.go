package worker

import "github.com/later-queue/later"

// shares divides the slots between the queues. Its owner locks it.
type shares struct {
	queues []queueShare
	byName map[string]int
}

type queueShare struct {
	Queue
	// more: as far as is known the queue has work. A claim that got less than
	// it asked for clears it, the next poll sets it.
	more bool
	// occupied counts the slots that jobs of this queue hold.
	occupied int
	// credit is the queue's place in the smooth weighted round robin that
	// settles what rounding leaves open: who gets the only slot next.
	credit float64
}

func newShares(queues []Queue) *shares {
	s := &shares{byName: map[string]int{}}
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

// occupy changes how many slots the queue's jobs hold. A queue that is not
// served (a store's mistake, or a job of the sweep) is nobody's share.
func (s *shares) occupy(queue string, by int) {
	if i, ok := s.byName[queue]; ok {
		s.queues[i].occupied += by
	}
}

// divide gives each of the free slots to a queue that may have work: to one
// that holds less than its part of all slots, in turn by shares. So every free
// slot is offered to somebody (nothing is kept back for a queue that has no
// work), and a queue that comes back gets the next slots until it has its part.
func (s *shares) divide(free, slots int) []later.QueueLimit {
	active := 0
	for _, q := range s.queues {
		if q.more {
			active += q.Share
		}
	}
	if active == 0 || free <= 0 {
		return nil
	}
	given := make([]int, len(s.queues))
	for ; free > 0; free-- {
		best := -1
		for i := range s.queues {
			q := &s.queues[i]
			// Below its part, rounded up, of the slots: occupied < slots·share/active.
			if !q.more || (q.occupied+given[i])*active >= slots*q.Share {
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
		given[best]++
	}
	limits := make([]later.QueueLimit, 0, len(s.queues))
	for i, n := range given {
		if n > 0 {
			limits = append(limits, later.QueueLimit{Queue: s.queues[i].Name, Limit: n})
		}
	}
	return limits
}

// learn takes from a claim's result which queues have no more work.
func (s *shares) learn(asked []later.QueueLimit, got []*later.Claimed) {
	count := map[string]int{}
	for _, c := range got {
		count[c.Queue]++
	}
	for _, limit := range asked {
		if i, ok := s.byName[limit.Queue]; ok && count[limit.Queue] < limit.Limit {
			s.queues[i].more = false
		}
	}
}

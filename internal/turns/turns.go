// Package turns is the order in which a claim hands out jobs: the tenants of a
// priority take turns.
package turns

import (
	"cmp"
	"slices"

	"github.com/later-queue/later"
)

// Order is what an order may depend on. The zero value is the usual.
type Order struct {
	FromLowest bool                    // the higher number of priority comes first
	Weight     func(tenant string) int // how many jobs a tenant has in a round; nil: one
}

// Sort puts the jobs of a claim of queues into their order: the queues as given,
// each of which is named once; priorities, the lower number first; within a
// priority rounds, of which the first has each tenant's first job (its first ones, as many as
// it weighs), the second each one's second; within a round run_at, then id. A tenant's first job is the one
// that is first by run_at, then id. So the jobs of one tenant alone come by
// priority, run_at, id, and nothing is allocated for them unless they are of
// several queues. Each job is told its round. Each job's queue is one of queues.
func Sort(jobs []*later.Claimed, queues []string, order Order) {
	sortQueues(jobs, queues, order.FromLowest)
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && jobs[n].Queue == jobs[0].Queue && jobs[n].Priority == jobs[0].Priority {
			n++
		}
		takeTurns(jobs[:n], order.Weight)
		jobs = jobs[n:]
	}
}

// sortQueues sorts jobs as if they were all of one tenant.
func sortQueues(jobs []*later.Claimed, queues []string, fromLowest bool) {
	var place map[string]int // nil: they are of one queue
	if len(queues) > 1 && slices.ContainsFunc(jobs, func(j *later.Claimed) bool { return j.Queue != jobs[0].Queue }) {
		place = make(map[string]int, len(queues))
		for i, name := range queues {
			place[name] = i
		}
	}
	slices.SortFunc(jobs, func(a, b *later.Claimed) int {
		if place != nil && a.Queue != b.Queue {
			return cmp.Compare(place[a.Queue], place[b.Queue])
		}
		better := cmp.Compare(a.Priority, b.Priority)
		if fromLowest {
			better = -better
		}
		return cmp.Or(better, a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
	})
}

// takeTurns sorts jobs of one queue and priority, which come by run_at and id,
// into rounds.
func takeTurns(jobs []*later.Claimed, weight func(tenant string) int) {
	if !slices.ContainsFunc(jobs, func(j *later.Claimed) bool { return j.Tenant != jobs[0].Tenant }) {
		most := 1
		if weight != nil {
			most = max(weight(jobs[0].Tenant), 1)
		}
		for i, j := range jobs {
			j.Turn = i / most
		}
		return
	}
	had := map[string]int{} // by tenant
	for _, j := range jobs {
		j.Turn = had[j.Tenant]
		if weight != nil {
			j.Turn /= max(weight(j.Tenant), 1)
		}
		had[j.Tenant]++
	}
	slices.SortStableFunc(jobs, func(a, b *later.Claimed) int { return cmp.Compare(a.Turn, b.Turn) })
}

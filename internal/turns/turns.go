// Package turns is the order in which a claim hands out jobs: the tenants of a
// priority take turns.
package turns

import (
	"cmp"
	"slices"

	"github.com/later-queue/later"
)

// Sort puts the jobs of a claim of queues into their order: the queues as given,
// each of which is named once; priorities, the lower number first; within a
// priority rounds, of which the first has each tenant's first job, the second each
// one's second; within a round run_at, then id. A tenant's first job is the one
// that is first by run_at, then id. So the jobs of one tenant alone come by
// priority, run_at, id, and nothing is allocated for them unless they are of
// several queues. Each job's queue is one of queues.
func Sort(jobs []*later.Claimed, queues []string) {
	sortQueues(jobs, queues)
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && jobs[n].Queue == jobs[0].Queue && jobs[n].Priority == jobs[0].Priority {
			n++
		}
		takeTurns(jobs[:n])
		jobs = jobs[n:]
	}
}

// sortQueues sorts jobs as if they were all of one tenant.
func sortQueues(jobs []*later.Claimed, queues []string) {
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
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
	})
}

// turn is a job and the round in which its tenant gets it.
type turn struct {
	job   *later.Claimed
	round int
}

// takeTurns sorts jobs of one queue and priority, which come by run_at and id,
// into rounds.
func takeTurns(jobs []*later.Claimed) {
	if !slices.ContainsFunc(jobs, func(j *later.Claimed) bool { return j.Tenant != jobs[0].Tenant }) {
		return
	}
	turns := make([]turn, len(jobs))
	had := map[string]int{} // by tenant
	for i, j := range jobs {
		turns[i] = turn{j, had[j.Tenant]}
		had[j.Tenant]++
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.round, b.round) })
	for i, t := range turns {
		jobs[i] = t.job
	}
}

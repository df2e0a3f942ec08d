package turns

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/later-queue/later"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// job has the time that its id says, unless seconds say otherwise.
func job(id int64, queue string, priority int16, tenant string, seconds ...int) *later.Claimed {
	at := noon.Add(time.Duration(id) * time.Second)
	for _, s := range seconds {
		at = noon.Add(time.Duration(s) * time.Second)
	}
	return &later.Claimed{Record: later.Record{ID: id, Queue: queue, Priority: priority, Tenant: tenant, RunAt: at}}
}

func TestSort(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		queues    []string
		jobs      []*later.Claimed // in the order that is wanted
	}{
		{"no jobs stay no jobs", []string{"a"}, nil},
		{"one tenant's jobs come by priority, run_at, id", []string{"a"}, []*later.Claimed{
			job(9, "a", -1, ""), job(5, "a", 0, "", 1), job(3, "a", 0, "", 2), job(4, "a", 0, "", 2), job(1, "a", 3, ""),
		}},
		{"queues come in the order given", []string{"b", "none", "c", "a"}, []*later.Claimed{
			job(7, "b", 5, ""), job(8, "b", 6, ""), job(3, "c", 0, ""), job(1, "a", -4, ""), job(2, "a", -3, ""),
		}},
		{"tenants take turns, each round by run_at and id", []string{"a"}, []*later.Claimed{
			job(1, "a", 0, "heavy"), job(6, "a", 0, ""), job(8, "a", 0, "light"),
			job(2, "a", 0, "heavy"), job(7, "a", 0, ""),
			job(3, "a", 0, "heavy"),
			job(4, "a", 0, "heavy"),
		}},
		{"a tenant's first job is the one that is due longest", []string{"a"}, []*later.Claimed{
			job(9, "a", 0, "x", 1), job(3, "a", 0, "y", 2), job(8, "a", 0, "x", 3), job(2, "a", 0, "y", 4),
		}},
		{"each priority and each queue begins its rounds anew", []string{"a", "b"}, []*later.Claimed{
			job(1, "a", 0, "x"), job(3, "a", 0, "y"), job(2, "a", 0, "x"),
			job(11, "a", 1, "x"), job(13, "a", 1, "y"), job(12, "a", 1, "x"),
			job(4, "b", 1, "x"), job(6, "b", 1, "y"), job(5, "b", 1, "x"),
		}},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			for range 20 {
				got := slices.Clone(c.jobs)
				rand.Shuffle(len(got), func(i, k int) { got[i], got[k] = got[k], got[i] })
				Sort(got, c.queues, Order{})
				if !slices.Equal(got, c.jobs) {
					t.Fatalf("got %v, want %v", ids(got), ids(c.jobs))
				}
			}
		})
	}

	t.Run("the jobs of one tenant cost no allocation", func(t *testing.T) {
		sorted := make([]*later.Claimed, 1000)
		for i := range sorted {
			sorted[i] = job(int64(i*7919%1000), "a", int16(i%3), "acme")
		}
		jobs := make([]*later.Claimed, len(sorted))
		if got := testing.AllocsPerRun(10, func() {
			copy(jobs, sorted)
			Sort(jobs, []string{"b", "a"}, Order{})
		}); got != 0 {
			t.Errorf("got %v allocations, want none", got)
		}
	})
}

func ids(jobs []*later.Claimed) []int64 {
	list := make([]int64, len(jobs))
	for i, j := range jobs {
		list[i] = j.ID
	}
	return list
}

func TestSortOtherwise(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		order     Order
		jobs      []*later.Claimed // in the order that is wanted
	}{
		{"from the lowest, priorities come the other way round, and rounds as ever", Order{FromLowest: true}, []*later.Claimed{
			job(8, "a", 7, ""), job(1, "a", 0, "x"), job(3, "a", 0, "y"), job(2, "a", 0, "x"), job(4, "a", -7, ""),
		}},
		{"a tenant has as many jobs in a round as it weighs", Order{Weight: func(tenant string) int { return map[string]int{"x": 3}[tenant] }}, []*later.Claimed{
			job(1, "a", 0, "x"), job(2, "a", 0, "x"), job(3, "a", 0, "x"), job(7, "a", 0, "y"),
			job(4, "a", 0, "x"), job(5, "a", 0, "x"), job(6, "a", 0, "x"), job(8, "a", 0, "y"),
		}},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			got := slices.Clone(c.jobs)
			slices.Reverse(got)
			Sort(got, []string{"a"}, c.order)
			for i := range got {
				if got[i] != c.jobs[i] {
					t.Fatalf("place %d: got job %d, want job %d", i, got[i].ID, c.jobs[i].ID)
				}
			}
		})
	}
}

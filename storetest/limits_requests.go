package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// testRequests is what a claim can ask for besides queues and kinds.
func testRequests(t *testing.T, open Open) {
	// Case 127: the other direction, and the same order within a priority.
	t.Run("from the lowest, the worst priority comes first, and a level's jobs as ever", func(t *testing.T) {
		w := newWorld(t, open)
		var ids []int64
		for _, p := range []int16{0, 100, -100, 7, -7} {
			ids = append(ids, w.enqueueMany(2, raw(`{}`), later.Options{Priority: p, Tenant: "a"})...)
			ids = append(ids, w.enqueueMany(1, raw(`{}`), later.Options{Priority: p, Tenant: "b"})...)
		}
		of := func(n int) []int64 { return []int64{ids[3*n], ids[3*n+2], ids[3*n+1]} } // a, b, a
		req := ask(7)
		req.FromLowest = true
		equalSlices(t, "ids", idsOf(w.claimWith(req)), slices.Concat(of(1), of(3), of(0)[:1]))
		equalSlices(t, "ids of a claim from the best", idsOf(w.claimWith(ask(3))), of(2))
		req.Token = later.NewToken()
		jobs := idsOf(w.claimWith(req))
		equal(t, "jobs left", len(jobs), 5)
		equalSlices(t, "ids of the last level", jobs[2:], of(4))
	})

	t.Run("from the lowest, queues come as given, each with its own limit", func(t *testing.T) {
		w := newWorld(t, open)
		req := ask(5)
		req.FromLowest = true
		req.Queues = []later.QueueLimit{{Queue: "one", Limit: 2}, {Queue: "two", Limit: 10}}
		ids := map[string][]int64{}
		for _, q := range []string{"two", "one"} {
			for p := range int16(3) {
				ids[q] = append(ids[q], w.enqueue(later.Options{Queue: q, Priority: p}))
			}
		}
		want := []int64{ids["one"][2], ids["one"][1], ids["two"][2], ids["two"][1], ids["two"][0]}
		equalSlices(t, "ids", idsOf(w.claimWith(req)), want)
	})

	t.Run("of a kind come no more than its most, and of others what there are", func(t *testing.T) {
		w := newWorld(t, open)
		req := ask(100)
		req.Kinds = []string{"a", "b", "c", "d"}
		req.Queues = append(req.Queues, later.QueueLimit{Queue: "mail", Limit: 100})
		req.MostOfKind = map[string]int{"a": 3, "b": 0, "c": 50, "unknown": 9}
		want := map[string]int{"a": 3, "b": 0, "c": 20, "d": 20}
		for name := range want {
			for _, q := range req.Queues {
				w.enqueueMany(10, later.RawArgs{JobKind: name, Payload: []byte(`{}`)}, later.Options{Queue: q.Queue, Tenant: name})
			}
		}
		jobs := w.claimWith(req)
		got := map[string]int{}
		for _, c := range jobs {
			got[c.Kind]++
		}
		for name, n := range want {
			equal(t, "jobs of kind "+name, got[name], n)
		}
		equal(t, "jobs", len(jobs), 43)
		req.Token, req.MostOfKind = later.NewToken(), map[string]int{"a": 2}
		var left []*later.Claimed
		w.eventually("all that is left is claimed", func() bool {
			req.Token = later.NewToken()
			more := w.claimWith(req)
			left = append(left, more...)
			for _, c := range more {
				got[c.Kind]++
			}
			return len(left) >= 37
		})
		for name := range want {
			equal(t, "jobs of kind "+name+" at last", got[name], 20)
		}
	})

	// found. Case 125: a kind of which no more is wanted hides nothing.
	t.Run("a job is found behind a thousand of a kind of which none is wanted", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueMany(1000, raw(`{}`), later.Options{Priority: -1})
		w.enqueueMany(1000, raw(`{}`), later.Options{})
		for _, most := range []int{0, 2} {
			id := w.enqueueArgs(later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}, later.Options{})
			req := ask(10)
			req.Kinds, req.MostOfKind = []string{kind, "other"}, map[string]int{kind: most}
			jobs := w.claimWith(req)
			equal(t, "jobs", len(jobs), most+1)
			equal(t, "the other job is there", slices.Contains(idsOf(jobs), id), true)
		}
	})

	t.Run("only jobs of the tenants asked for come", func(t *testing.T) {
		w := newWorld(t, open)
		ids := map[string][]int64{}
		for _, name := range []string{"", "a", "b", "c", "d é"} {
			ids[name] = w.enqueueFor(name, 3)
		}
		for _, names := range [][]string{{"b"}, {""}, {"d é", "nobody", "a"}, {"b"}} {
			var want []int64
			for _, name := range names {
				want = append(want, ids[name]...)
				ids[name] = nil
			}
			req := ask(100)
			req.Tenants = names
			got := idsOf(w.claimWith(req))
			slices.Sort(got)
			slices.Sort(want)
			equalSlices(t, "ids", got, want)
		}
		equalSlices(t, "ids of the claim for all", idsOf(w.claim(3)), ids["c"])
	})

	t.Run("a claim of some tenants leaves the others their turns", func(t *testing.T) {
		w := newWorld(t, open)
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			w.enqueueFor(name, 10)
		}
		req := ask(4)
		req.Tenants = []string{"b", "d"}
		jobs := w.claimWith(req)
		equal(t, "jobs of b", len(idsFor("b", jobs)), 2)
		equal(t, "jobs of d", len(idsFor("d", jobs)), 2)
		jobs = w.claimWith(ask(4))
		for _, name := range names {
			equal(t, "jobs of "+name+" for all", len(idsFor(name, jobs)), 1)
		}
	})

	// found. Case 125.
	t.Run("one tenant's job is found behind two thousand of another that is not asked for", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueueFor("heavy", 2000)
		for _, name := range []string{"a", "z"} {
			id := w.enqueueFor(name, 1)[0]
			req := ask(10)
			req.Tenants = []string{name}
			equalSlices(t, "ids", idsOf(w.claimWith(req)), []int64{id})
		}
	})

	t.Run("a sweep runs suspects of the tenants asked for, and ends the doomed of all", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.suspectFor("acme")
		w.expired(later.Options{Tenant: "zeta"})
		req := seek(10, true)
		req.Tenants = []string{"zeta"}
		jobs := w.sweepWith(req)
		equal(t, "swept", len(jobs), 1)
		equal(t, "doom", jobs[0].Doom, later.DoomExpired)
		req.Tenants, req.Token = []string{""}, later.NewToken()
		equal(t, "swept for those without a tenant", len(w.sweepWith(req)), 0)
		req.Tenants, req.Token = []string{"zeta", "acme"}, later.NewToken()
		equalSlices(t, "ids", idsOf(w.sweepWith(req)), []int64{id})
	})

	t.Run("an answer ends with the job whose payload reaches the bytes asked for", func(t *testing.T) {
		w := newWorld(t, open)
		ids := w.enqueueMany(9, raw(`"`+strings.Repeat("x", 998)+`"`), later.Options{Tenant: "acme"})
		req := ask(20)
		for _, c := range []struct{ bytes, want int }{{1, 1}, {1000, 1}, {1001, 2}, {2500, 3}, {0, 2}} {
			var before []*later.JobInfo
			for _, id := range ids {
				before = append(before, w.find(id))
			}
			req.Token, req.MaxBytes = later.NewToken(), c.bytes
			var got []int64
			w.eventually("jobs are claimed", func() bool {
				got = idsOf(w.claimWith(req))
				return len(got) > 0
			})
			equalSlices(t, fmt.Sprintf("ids for %d bytes", c.bytes), got, ids[:min(c.want, len(ids))])
			for i, id := range ids[len(got):] {
				sameInfo(t, "a job that was left", w.find(id), before[len(got)+i])
			}
			ids = ids[len(got):]
		}
	})

	t.Run("what an answer has no bytes for uses nothing of a limit", func(t *testing.T) {
		w := newWorld(t, open)
		w.limit(everyTenant, both(atMost(3), slow(3)))
		w.enqueueMany(5, raw(`"`+strings.Repeat("x", 998)+`"`), later.Options{Tenant: "acme"})
		req := ask(20)
		req.MaxBytes = 1
		for range 3 {
			w.eventually("a job is claimed", func() bool {
				req.Token = later.NewToken()
				return len(w.claimWith(req)) == 1
			})
		}
		w.claimNone()
	})

	for _, way := range limitWays() {
		t.Run("of jobs under a limit come no more than are free, and of others what there are, of a "+way.name, func(t *testing.T) {
			for _, free := range []int{-1, 1, 3, 7, 0} {
				w := newWorld(t, open)
				w.limit(way.set, atMost(6))
				w.enqueueFor("acme", 10)
				_, req := w.beside(way)
				for range 3 {
					w.beside(way)
				}
				req.Limit, req.Free = 12, free
				for i := range req.Queues {
					req.Queues[i].Limit = 12
				}
				most, total := max(free, 0), 6
				switch free {
				case -1:
					total = 0
				case 0:
					most = req.Limit
				}
				limited, others := 0, 0
				w.eventually(fmt.Sprintf("%d jobs under the limit and 4 others are claimed, %d at a time", total, most), func() bool {
					now := 0
					req.Token = later.NewToken()
					for _, c := range w.claimWith(req) {
						if c.Limited {
							now++
						} else {
							others++
						}
					}
					limited += now
					if now > most {
						t.Fatalf("got %d jobs under the limit, want at most %d", now, most)
					}
					return limited >= total && others >= 4
				})
				equal(t, "jobs under the limit", limited, total)
				equal(t, "other jobs", others, 4)
			}
		})
	}
}

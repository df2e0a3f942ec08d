package admit

import (
	"slices"
	"time"

	"github.com/later-queue/later"
)

// Gate is a scope's limit with what is remembered of it, as of a moment.
type Gate struct {
	Limit later.Limit
	// Running are the jobs that were let in and fill a place: those whose lease holds. If the
	// scope is ordered, it is the head: the one let in last, as long as it has not ended (nor, if
	// a dead one blocks, has been retried or deleted), whether it runs or not.
	Running []int64
	// TAT is the rate limiter's theoretical arrival time: when the next start would be if all
	// were spread evenly. Zero: nothing was let in yet.
	TAT time.Time
}

// Room is how many jobs may start now that were not let in before.
func (g *Gate) Room(now time.Time) int {
	room := g.starts(now)
	if most, limited := g.Limit.Cap(); limited {
		room = min(room, max(most-len(g.Running), 0))
	}
	return room
}

// Lets reports whether a job may start now. The head of an ordered scope may, though it fills
// the place: the caller knows that it does not run.
func (g *Gate) Lets(id int64, now time.Time) bool {
	if g.Limit.Ordered && slices.Contains(g.Running, id) {
		return g.starts(now) > 0
	}
	return g.Room(now) > 0
}

// Let lets jobs in, which the caller has asked about before.
func (g *Gate) Let(now time.Time, ids ...int64) {
	if _, limited := g.Limit.Cap(); limited {
		for _, id := range ids {
			if !slices.Contains(g.Running, id) {
				g.Running = append(g.Running, id)
			}
		}
	}
	if every := g.Limit.Rate.Every(); every > 0 {
		if g.TAT.Before(now) {
			g.TAT = now
		}
		g.TAT = g.TAT.Add(time.Duration(len(ids)) * every)
	}
}

// Fit is called when the limit has taken the place of another one: what was used of a slower
// rate is forgotten as far as the new one could not have been used, so that the next start is
// at most Every away. Without it, a rate of one a day that was used, and is now one a second,
// would still let nothing start for a day.
func (g *Gate) Fit(now time.Time) {
	rate := g.Limit.Rate
	if most := now.Add(time.Duration(max(rate.Burst, 1)) * rate.Every()); rate != (later.Rate{}) && g.TAT.After(most) {
		g.TAT = most
	}
}

// Next is when the rate lets the next job start; the zero time: now, or there is no rate.
func (g *Gate) Next(now time.Time) time.Time {
	if g.starts(now) > 0 {
		return time.Time{}
	}
	rate := g.Limit.Rate
	return g.TAT.Add(-time.Duration(max(rate.Burst, 1)-1) * rate.Every())
}

// unlimited is what starts says where there is no rate.
const unlimited = 1 << 30

// starts is how many jobs the rate lets start now. This is the generic cell rate algorithm: a
// start takes Every of the time that Burst starts take, and time gives it back.
func (g *Gate) starts(now time.Time) int {
	every := g.Limit.Rate.Every()
	if every <= 0 {
		return unlimited
	}
	burst := max(g.Limit.Rate.Burst, 1)
	ahead := max(g.TAT.Sub(now), 0) // time that has been used up already
	return max(int((time.Duration(burst)*every-ahead)/every), 0)
}

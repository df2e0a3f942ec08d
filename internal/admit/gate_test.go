package admit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func capOf(n int) later.Limit { return later.Limit{MaxRunning: &n} }

func rateOf(n int, period time.Duration, burst int) later.Limit {
	return later.Limit{Rate: later.Rate{N: n, Period: period, Burst: burst}}
}

func TestGateCap(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		limit     later.Limit
		running   []int64
		want      int
	}{
		{"no limit has room for any number", later.Limit{}, []int64{1, 2}, unlimited},
		{"a weight is no limit", later.Limit{Weight: 3}, nil, unlimited},
		{"a cap has room for what does not run", capOf(3), []int64{1}, 2},
		{"a full cap has none", capOf(3), []int64{1, 2, 3}, 0},
		{"below a lowered cap there is none, and not less", capOf(2), []int64{1, 2, 3, 4}, 0},
		{"a cap of 0 has none", capOf(0), nil, 0},
		{"an order has room for one", inOrder, nil, 1},
		{"an order with a head has none", inOrder, []int64{7}, 0},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			g := Gate{Limit: c.limit, Running: c.running}
			if got := g.Room(noon); got != c.want {
				t.Errorf("Room: got %d, want %d", got, c.want)
			}
			if got, want := g.Lets(99, noon), c.want > 0; got != want {
				t.Errorf("Lets: got %v, want %v", got, want)
			}
			if got := g.Next(noon); !got.IsZero() {
				t.Errorf("Next: got %v, want none without a rate", got)
			}
		})
	}

	t.Run("what is let in fills a place each, once", func(t *testing.T) {
		g := Gate{Limit: capOf(4)}
		g.Let(noon, 5, 3)
		g.Let(noon, 3, 9)
		if got, want := g.Running, []int64{5, 3, 9}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got, want := g.Room(noon), 1; got != want {
			t.Errorf("Room: got %d, want %d", got, want)
		}
	})

	t.Run("without a cap nothing is remembered", func(t *testing.T) {
		for _, limit := range []later.Limit{{}, rateOf(1, time.Second, 5)} {
			g := Gate{Limit: limit}
			g.Let(noon, 1, 2)
			if len(g.Running) != 0 {
				t.Errorf("got %v, want none", g.Running)
			}
		}
	})

	t.Run("the head of an order is let in, and nobody else", func(t *testing.T) {
		g := Gate{Limit: inOrder}
		g.Let(noon, 7)
		for id, want := range map[int64]bool{7: true, 8: false} {
			if got := g.Lets(id, noon); got != want {
				t.Errorf("Lets %d: got %v, want %v", id, got, want)
			}
		}
	})

	t.Run("who fills a place without an order is not let in because of that", func(t *testing.T) {
		g := Gate{Limit: capOf(1)}
		g.Let(noon, 7)
		if g.Lets(7, noon) {
			t.Error("got job 7 let in beside itself")
		}
	})

	t.Run("the head of an order waits for its rate", func(t *testing.T) {
		limit := rateOf(1, time.Second, 1)
		limit.Ordered = true
		g := Gate{Limit: limit}
		g.Let(noon, 7)
		if g.Lets(7, noon.Add(time.Second-time.Microsecond)) || !g.Lets(7, noon.Add(time.Second)) {
			t.Error("want the head let in a second later, and not before")
		}
	})
}

var inOrder = later.Limit{Ordered: true}

func TestGateRate(t *testing.T) {
	t.Run("a full burst starts at once, and then one each Every", func(t *testing.T) {
		g := Gate{Limit: rateOf(4, time.Second, 3)}
		if got, want := g.Room(noon), 3; got != want {
			t.Fatalf("Room: got %d, want %d", got, want)
		}
		g.Let(noon, 1, 2, 3)
		for n := range 4 {
			at := noon.Add(time.Duration(n+1) * 250 * time.Millisecond)
			before := at.Add(-time.Microsecond)
			if got := g.Room(before); got != 0 {
				t.Errorf("Room before start %d: got %d, want 0", n, got)
			}
			if got := g.Next(before); !got.Equal(at) {
				t.Errorf("Next before start %d: got %v, want %v", n, got, at)
			}
			if got := g.Room(at); got != 1 {
				t.Errorf("Room at start %d: got %d, want 1", n, got)
			}
			if got := g.Next(at); !got.IsZero() {
				t.Errorf("Next at start %d: got %v, want now", n, got)
			}
			g.Let(at, int64(10+n))
		}
	})

	t.Run("a burst is gathered, and not more than one", func(t *testing.T) {
		g := Gate{Limit: rateOf(1, time.Minute, 3)}
		g.Let(noon, 1, 2, 3)
		for minutes, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 100000: 3} {
			if got := g.Room(noon.Add(time.Duration(minutes) * time.Minute)); got != want {
				t.Errorf("after %d minutes: got %d, want %d", minutes, got, want)
			}
		}
	})

	t.Run("the longest there is does not overflow", func(t *testing.T) {
		for _, rate := range []later.Rate{
			{N: 1, Period: 365 * 24 * time.Hour, Burst: 1},
			{N: 1_000_000, Period: 365 * 24 * time.Hour, Burst: 1_000_000},
		} {
			if err := later.CheckLimit(later.Scope{Of: later.ScopeTenants}, later.Limit{Rate: rate}, "me"); err != nil {
				t.Fatal(err)
			}
			g := Gate{Limit: later.Limit{Rate: rate}}
			for range rate.Burst {
				g.Let(noon, 1)
			}
			if got := g.Room(noon); got != 0 {
				t.Errorf("%+v: got room for %d after the burst, want 0", rate, got)
			}
			if got, want := g.Next(noon), noon.Add(rate.Every()); !got.Equal(want) {
				t.Errorf("%+v: got Next %v, want %v", rate, got, want)
			}
		}
	})

	t.Run("a faster rate does not wait for what was used of a slower one", func(t *testing.T) {
		g := Gate{Limit: rateOf(1, time.Hour, 2)}
		g.Let(noon, 1, 2)
		g.Limit = rateOf(1, time.Second, 3)
		g.Fit(noon)
		if got, want := g.Next(noon), noon.Add(time.Second); !got.Equal(want) {
			t.Errorf("Next: got %v, want %v", got, want)
		}
	})

	t.Run("a slower rate keeps what was used", func(t *testing.T) {
		g := Gate{Limit: rateOf(1, time.Second, 2)}
		g.Let(noon, 1, 2)
		want := g.TAT
		g.Limit = rateOf(1, time.Hour, 2)
		g.Fit(noon)
		if !g.TAT.Equal(want) {
			t.Errorf("got %v, want %v", g.TAT, want)
		}
		g.Limit = capOf(1)
		g.Fit(noon.Add(-time.Hour))
		if !g.TAT.Equal(want) {
			t.Errorf("without a rate: got %v, want %v", g.TAT, want)
		}
	})
}

// aRate draws a rate that can be set.
func aRate(rt *rapid.T) later.Rate {
	rate := later.Rate{
		N:      rapid.IntRange(1, 50).Draw(rt, "n"),
		Period: time.Duration(rapid.Int64Range(1_000, 10_000_000).Draw(rt, "period in µs")) * time.Microsecond,
		Burst:  rapid.IntRange(0, 8).Draw(rt, "burst"),
	}
	if err := later.CheckLimit(later.Scope{Of: later.ScopeTenants}, later.Limit{Rate: rate}, "me"); err != nil {
		rt.Fatal(err)
	}
	return rate
}

// most is how many may start in a stretch of time, both of its ends included.
func most(rate later.Rate, stretch time.Duration) int {
	return max(rate.Burst, 1) + int(stretch/rate.Every())
}

// The rate is exact: no stretch of time has more starts than Burst + t/Every, and a start is
// refused only if it would make one that has.
func TestRateIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := aRate(rt)
		g := Gate{Limit: later.Limit{Rate: rate}}
		now, starts := noon, []time.Time{}
		for range rapid.IntRange(1, 40).Draw(rt, "claims") {
			step := rapid.SampledFrom([]time.Duration{
				0, time.Microsecond, rate.Every() - time.Microsecond, rate.Every(), rate.Every() + time.Microsecond, 5 * rate.Every(), -1,
			}).Draw(rt, "step")
			if step < 0 {
				step = time.Duration(rapid.Int64Range(0, int64(2*rate.Every())).Draw(rt, "other step")).Truncate(time.Microsecond)
			}
			now = now.Add(step)
			room := g.Room(now)
			if next := g.Next(now); next.IsZero() != (room > 0) {
				rt.Fatalf("Next: got %v with room for %d", next, room)
			} else if room == 0 && (g.Room(next) < 1 || g.Room(next.Add(-time.Microsecond)) > 0) {
				rt.Fatalf("Next: got %v, which is not when there is room again", next)
			}
			if exceeds(rate, append(slices.Clone(starts), repeat(now, room)...)) {
				rt.Fatalf("got room for %d at %v after the starts %v: more than %+v allows", room, now, starts, rate)
			}
			if !exceeds(rate, append(slices.Clone(starts), repeat(now, room+1)...)) {
				rt.Fatalf("got room for %d at %v after the starts %v, although %+v allows one more", room, now, starts, rate)
			}
			for range rapid.IntRange(0, room).Draw(rt, "starts") {
				g.Let(now, int64(len(starts)))
				starts = append(starts, now)
			}
		}
	})
}

// Transactions can come to the gate in another order than their clocks say: what has
// started is within the rate by the clock all the same.
func TestRateHoldsOutOfOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := aRate(rt)
		g := Gate{Limit: later.Limit{Rate: rate}}
		var starts []time.Time
		for range rapid.IntRange(1, 60).Draw(rt, "claims") {
			at := noon.Add(time.Duration(rapid.Int64Range(0, int64(20*rate.Every())).Draw(rt, "at")).Truncate(time.Microsecond))
			for range rapid.IntRange(0, min(g.Room(at), 3)).Draw(rt, "starts") {
				g.Let(at, int64(len(starts)))
				starts = append(starts, at)
			}
		}
		slices.SortFunc(starts, time.Time.Compare)
		if exceeds(rate, starts) {
			rt.Fatalf("the starts %v are more than %+v allows", starts, rate)
		}
	})
}

func exceeds(rate later.Rate, starts []time.Time) bool {
	for i := range starts {
		for k := i; k < len(starts); k++ {
			if k-i+1 > most(rate, starts[k].Sub(starts[i])) {
				return true
			}
		}
	}
	return false
}

func repeat(at time.Time, n int) []time.Time {
	times := make([]time.Time, n)
	for i := range times {
		times[i] = at
	}
	return times
}

// Claims one by one and ends: never more run than may, and a start is refused only if all
// places are filled.
func TestCapIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(0, 5).Draw(rt, "most")
		g := Gate{Limit: capOf(most)}
		running := 0
		for id := range int64(60) {
			if running > 0 && rapid.Bool().Draw(rt, "one ends") {
				at := rapid.IntRange(0, running-1).Draw(rt, "which")
				g.Running = slices.Delete(g.Running, at, at+1)
				running--
				continue
			}
			if got, want := g.Lets(id, noon), running < most; got != want {
				rt.Fatalf("Lets with %d of %d running: got %v, want %v", running, most, got, want)
			}
			if g.Lets(id, noon) {
				g.Let(noon, id)
				running++
			}
		}
	})
}

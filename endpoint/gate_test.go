package endpoint

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestGate(t *testing.T) {
	const limit = 4
	enter := func(g *gate) (func(), time.Duration) { return g.enter(context.Background(), "a", limit) }
	fill := func(t *testing.T, g *gate) (leave []func()) {
		t.Helper()
		for range limit {
			l, _ := enter(g)
			if l == nil {
				t.Fatal("the host is full too early")
			}
			leave = append(leave, l)
		}
		return leave
	}
	t.Run("a job waits for a quick host", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			leave := fill(t, g)
			go func() { time.Sleep(20 * time.Millisecond); leave[0]() }()
			began := time.Now()
			l, _ := enter(g)
			if l == nil {
				t.Fatal("it was put off")
			}
			if got, want := time.Since(began), 20*time.Millisecond; got != want {
				t.Errorf("it waited %v, want %v", got, want)
			}
		})
	})
	t.Run("a job waits for a fifth of a second at most", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			fill(t, g)
			began := time.Now()
			if l, busy := enter(g); l != nil || busy < minBusySnooze {
				t.Errorf("got %v, want at least %v", busy, minBusySnooze)
			}
			if got, want := time.Since(began), 2*shortWait; got != want {
				t.Errorf("it waited %v, want %v", got, want)
			}
		})
	})
	t.Run("a job does not wait for a host that has stopped answering", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			for range 20 { // it was quick before
				l, _ := enter(g)
				time.Sleep(time.Millisecond)
				l()
			}
			fill(t, g)
			time.Sleep(10 * time.Second)
			began := time.Now()
			if l, _ := enter(g); l != nil {
				t.Error("a job came in over the limit")
			}
			if got := time.Since(began); got != 0 {
				t.Errorf("it waited %v", got)
			}
		})
	})
	t.Run("jobs that are put off come back one after another, at the host's pace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			fill(t, g)
			time.Sleep(8 * time.Second) // a request takes 8 s: with 4 at once, a turn every 2 s
			for i := 1; i <= 100; i++ {
				l, busy := enter(g)
				if want := time.Duration(i) * 2 * time.Second; l != nil || busy != want {
					t.Fatalf("job %d: got %v, want %v", i, busy, want)
				}
			}
			for range 1000 {
				if _, busy := enter(g); busy < minBusySnooze || busy > maxBusySnooze {
					t.Fatalf("got %v, want %v at most", busy, maxBusySnooze)
				}
			}
		})
	})
	t.Run("a wait ends with the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			fill(t, g)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			began := time.Now()
			if l, _ := g.enter(ctx, "a", limit); l != nil {
				t.Error("a job came in over the limit")
			}
			if got, want := time.Since(began), 5*time.Millisecond; got != want {
				t.Errorf("it waited %v, want %v", got, want)
			}
		})
	})
	t.Run("a negative limit is none, and another host has its own", func(t *testing.T) {
		g := newGate()
		fill(t, g)
		for range 100 {
			if l, _ := g.enter(t.Context(), "a", -1); l == nil {
				t.Fatal("it was put off")
			}
		}
		if l, _ := g.enter(t.Context(), "b", limit); l == nil {
			t.Fatal("another host was put off")
		}
	})
}

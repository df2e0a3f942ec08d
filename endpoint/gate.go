package endpoint

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// shortWait is how long a job may wait in its slot for a busy host: where
	// requests take milliseconds, a snooze would cost more than the wait.
	// Chosen, not measured.
	shortWait = 100 * time.Millisecond
	// minBusySnooze and maxBusySnooze bound how long a job is put off because
	// its host is busy. Chosen: a snooze is two writes into the database, and a
	// host that has recovered should not stay idle for longer.
	minBusySnooze = time.Second
	maxBusySnooze = 5 * time.Minute
)

// hosts counts this process's requests under way.
var hosts = newGate()

// gate bounds how many requests to one host run at once. A job that finds the
// host full waits for a moment when the host is quick, and else gives its slot
// back: waiting in the slot is what the bound is there to prevent.
type gate struct {
	mu    sync.Mutex
	hosts map[string]*host // as many as there are handlers, at most
}

type host struct {
	running map[*time.Time]struct{} // when each began
	average time.Duration           // moving average of how long requests took
	waiting int
	left    chan struct{} // closed and replaced when a request ends
	// next is when the last job that was put off will have its turn, if the
	// host goes on as it does: so a thousand jobs come back one after another
	// and not together, and each is put off about once.
	next time.Time
}

func newGate() *gate { return &gate{hosts: map[string]*host{}} }

// enter returns a function that must be called when the request has ended, or
// nil and for how long to put the job off.
func (g *gate) enter(ctx context.Context, name string, limit int) (leave func(), busy time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hosts[name]
	if h == nil {
		h = &host{running: map[*time.Time]struct{}{}, left: make(chan struct{})}
		g.hosts[name] = h
	}
	var timer *time.Timer
	for limit >= 0 && len(h.running) >= limit {
		typical := h.typical(time.Now())
		if typical*time.Duration(h.waiting+1)/time.Duration(limit) > shortWait {
			return nil, h.putOff(time.Now(), typical/time.Duration(limit))
		}
		if timer == nil {
			timer = time.NewTimer(2 * shortWait)
			defer timer.Stop()
		}
		if !g.waitLeft(ctx, h, timer) {
			return nil, h.putOff(time.Now(), h.typical(time.Now())/time.Duration(limit))
		}
	}
	began := time.Now()
	h.running[&began] = struct{}{}
	return func() { g.leave(h, &began) }, 0
}

// waitLeft waits, without the lock, until a request to h has ended; it returns
// false when the timer or ctx ended first.
func (g *gate) waitLeft(ctx context.Context, h *host, timer *time.Timer) bool {
	left := h.left
	h.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		h.waiting--
	}()
	select {
	case <-left:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (g *gate) leave(h *host, began *time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	took := time.Since(*began)
	delete(h.running, began)
	if h.average == 0 {
		h.average = took
	}
	h.average += (took - h.average) / 8
	close(h.left)
	h.left = make(chan struct{})
}

// typical is how long a request takes: by those that have ended, or by the age
// of those that run when that is more, so that a host which stopped answering is
// noticed before any request has ended.
func (h *host) typical(now time.Time) time.Duration {
	var ages time.Duration
	for began := range h.running {
		ages += now.Sub(*began)
	}
	return max(h.average, ages/time.Duration(max(len(h.running), 1)))
}

// putOff gives a job the next turn; each turn is share long.
func (h *host) putOff(now time.Time, share time.Duration) time.Duration {
	if h.next.Before(now) {
		h.next = now
	}
	h.next = h.next.Add(share)
	if last := now.Add(maxBusySnooze); h.next.After(last) {
		// More jobs than turns: they come back spread over the second half.
		h.next = last
		return maxBusySnooze - rand.N(maxBusySnooze/2)
	}
	return max(h.next.Sub(now), minBusySnooze)
}

package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/later-queue/later/internal/demo/mailapi"
)

// mishaps kills one worker in the middle of its work and sends SIGTERM to
// another.
type mishaps struct {
	demo      *demo
	toKill    string // names of workers
	toDrain   string
	struck    chan struct{} // closed when the kill is over
	startOver error         // of the worker that replaces the killed one; set before struck is closed

	mu          sync.Mutex
	armed       bool      // the next mail of toKill is its last
	impatient   time.Time // from then on one job in hand will do
	killedWith  int       // calls under way at the kill
	killedAt    time.Time
	halfDone    string // key of the mail whose job the killed worker could not end
	drainedWith int
}

// newMishaps takes the first two of the places as victims.
func newMishaps(d *demo, places []int) *mishaps {
	return &mishaps{
		demo:    d,
		toKill:  fmt.Sprintf("worker-%d", places[0]+1),
		toDrain: fmt.Sprintf("worker-%d", places[1]+1),
		struck:  make(chan struct{}),
	}
}

// The mishaps come after these shares of the orders, in percent.
const (
	killAfter  = 30
	drainAfter = 60
)

// A worker is hit when it has several jobs in hand, or, after some time, one.
const (
	several  = 3
	patience = 2 * time.Second
)

// run returns when both mishaps are over.
func (m *mishaps) run(ctx context.Context) error {
	if err := m.until(ctx, func() bool { return m.share() >= killAfter }); err != nil {
		return err
	}
	m.mu.Lock()
	m.armed, m.impatient = true, time.Now().Add(patience)
	m.mu.Unlock()
	select {
	case <-m.struck:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if m.startOver != nil {
		return m.startOver
	}
	if err := m.until(ctx, func() bool { return m.share() >= drainAfter }); err != nil {
		return err
	}
	return m.drain(ctx)
}

// share is how much of the orders is taken, in percent.
func (m *mishaps) share() int {
	taken, _ := m.demo.sales.counts()
	return taken * 100 / m.demo.sales.wanted
}

// written hears of each mail, before the worker that asked for it does. That is
// the worst moment for a kill: the effect has happened and nobody knows.
func (m *mishaps) written(caller string, mail mailapi.Mail, again bool) {
	d := m.demo
	busy := d.mail.Busy(caller)
	m.mu.Lock()
	if again && mail.Key == m.halfDone {
		m.halfDone = ""
		d.story.tell("%s took over order %d, %s after the kill: the mail service knew the key and wrote no second mail",
			caller, mail.Order, seconds(time.Since(m.killedAt)))
	}
	strike := m.armed && caller == m.toKill && !again && (busy >= several || time.Now().After(m.impatient))
	if strike {
		m.armed, m.killedWith, m.killedAt, m.halfDone = false, busy, time.Now(), mail.Key
	}
	m.mu.Unlock()
	if !strike {
		return
	}
	defer close(m.struck)
	victim := d.fleet.find(caller)
	d.fleet.kill(victim, fmt.Sprintf("killed at %s, %s in hand", seconds(d.story.elapsed()), count(busy, "job")))
	d.story.tell("%s killed (SIGKILL) with %s in hand; the mail of order %d is written, its job is not done", caller, count(busy, "job"), mail.Order)
	m.startOver = d.fleet.start("in the place of " + caller)
}

// drain sends SIGTERM to a worker that is at work, and waits for its end.
func (m *mishaps) drain(ctx context.Context) error {
	d := m.demo
	victim := d.fleet.find(m.toDrain)
	impatient := time.Now().Add(patience)
	err := m.until(ctx, func() bool {
		busy := d.mail.Busy(m.toDrain)
		return busy >= several || busy > 0 && time.Now().After(impatient) || victim.over()
	})
	if err != nil {
		return err
	}
	busy, begun := d.mail.Busy(m.toDrain), time.Now()
	d.fleet.drain(victim)
	d.story.tell("%s got SIGTERM with %s in hand", m.toDrain, count(busy, "job"))
	if err := d.fleet.start("in the place of " + m.toDrain); err != nil {
		return err
	}
	select {
	case <-victim.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if victim.err == nil {
		m.mu.Lock()
		m.drainedWith = busy
		m.mu.Unlock()
		d.fleet.setNote(victim, "drained at %s, exit code 0", seconds(d.story.elapsed()))
		d.story.tell("%s drained in %s, exit code 0: it took no new job, and let those that it had end", m.toDrain, seconds(time.Since(begun)))
	}
	return nil
}

// hands returns how many jobs the killed and the drained worker had in hand; 0
// where that did not happen.
func (m *mishaps) hands() (killed, drained int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.killedWith, m.drainedWith
}

// until asks every few milliseconds.
func (m *mishaps) until(ctx context.Context, reached func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

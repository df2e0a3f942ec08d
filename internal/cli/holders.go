package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/terminal"
)

// heldJobs is how many running jobs are looked at to tell how many each worker
// has. Chosen: as many as one page of a list.
const heldJobs = maxListLimit

// fleetView are the workers, with what they run by their leases. A worker's own
// word on that is up to 15 s old and would contradict the counts beside it.
type fleetView struct {
	workers []workerView
	slots   int // of those that are alive
	alive   int
	// unlisted and silent are running jobs of workers that are not listed, or
	// listed but not alive.
	unlisted, silent int
	capped           bool // there are more running jobs than were looked at
	now              time.Time
}

// takeFleet looks at the workers. Leases are read first: a worker beats before
// it claims, so one whose lease was seen is listed.
func takeFleet(ctx context.Context, store later.Store) (*fleetView, error) {
	running, err := store.List(ctx, later.Filter{State: later.StateRunning, NoPayload: true, Limit: heldJobs})
	if err != nil {
		return nil, err
	}
	workers, err := store.Workers(ctx)
	if err != nil {
		return nil, err
	}
	now, err := storeTime(ctx, store)
	if err != nil {
		return nil, err
	}
	held := map[string]int{}
	for _, job := range running {
		held[job.Worker]++
	}
	f := &fleetView{workers: []workerView{}, unlisted: len(running), capped: len(running) == heldJobs, now: now}
	for _, w := range workers {
		w.Running = held[w.Name]
		view := viewWorker(w, now)
		f.workers = append(f.workers, view)
		f.unlisted -= w.Running
		if view.Alive {
			f.alive++
			f.slots += w.Slots
		} else {
			f.silent += w.Running
		}
	}
	return f, nil
}

// lines are the workers as people see them: always the same words.
func (f *fleetView) lines(a *App, width int) []string {
	p := a.palette
	var lines []string
	if f.alive > 0 {
		lines = append(lines, plural(f.alive, "worker", "workers")+" alive, with "+plural(f.slots, "slot", "slots"))
	} else if f.unlisted+f.silent == 0 {
		lines = append(lines, p.Warn("no worker is alive")+": start one with later work")
	}
	for _, odd := range []struct {
		jobs int
		text string
	}{
		{f.unlisted, "on workers that are not listed (lost, or cut off)"},
		{f.silent, "on workers that are silent (lost, or cut off)"},
	} {
		if odd.jobs > 0 {
			lines = append(lines, p.Warn(plural(odd.jobs, "job is running ", "jobs are running ")+odd.text))
		}
	}
	if f.capped {
		lines = append(lines, p.Faint(fmt.Sprintf("%d running jobs were looked at; there are more", heldJobs)))
	}
	if len(f.workers) > 0 {
		lines = append(lines, a.workerTable(f.workers, f.now).Lines(width, p.Head)...)
	}
	return lines
}

// printFleet prints the workers alone.
func (a *App) printFleet(f *fleetView) error {
	width, _ := terminal.Size(a.Out)
	for _, line := range f.lines(a, width) {
		if err := a.printf("%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

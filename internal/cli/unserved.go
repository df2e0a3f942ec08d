package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/terminal"
)

// readyJobs is how many ready jobs are looked at for those that nobody runs.
// Chosen: it is read in some milliseconds.
const readyJobs = 1000

// anyTenant is no name of a tenant.
const anyTenant = "\x00"

// shownKinds is how many of their kinds are named.
const shownKinds = 10

// unservedView are ready jobs that no live worker takes: none of those that
// serve the queue has a handler for the kind, or runs the tenant's jobs.
type unservedView struct {
	Count int      `json:"count"`
	Kinds []string `json:"kinds"`
	// Complete: all ready jobs were looked at.
	Complete bool `json:"complete"`
}

// findUnserved looks at the newest ready jobs.
func findUnserved(ctx context.Context, store later.Store, workers []workerView) (unservedView, error) {
	found := unservedView{Kinds: []string{}, Complete: true}
	jobs, err := store.List(ctx, later.Filter{State: later.StateReady, NoPayload: true, Limit: readyJobs + 1})
	if err != nil {
		return found, err
	}
	if len(jobs) > readyJobs {
		jobs, found.Complete = jobs[:readyJobs], false
	}
	type pair struct{ queue, kind string }
	served := map[pair]map[string]bool{} // by tenant; anyTenant: of all
	kinds := map[string]bool{}           // of any queue
	for _, w := range workers {
		if !w.Alive {
			continue
		}
		tenants := w.Tenants
		if tenants == nil {
			tenants = []string{anyTenant}
		}
		for _, kind := range w.Kinds {
			kinds[kind] = true
			for _, queue := range w.Queues {
				of := served[pair{queue, kind}]
				if of == nil {
					of = map[string]bool{}
					served[pair{queue, kind}] = of
				}
				for _, tenant := range tenants {
					of[tenant] = true
				}
			}
		}
	}
	for _, job := range jobs {
		of := served[pair{job.Queue, job.Kind}]
		if of[anyTenant] || of[job.Tenant] {
			continue
		}
		found.Count++
		name := job.Kind
		switch {
		case of != nil && job.Tenant == "":
			name += " (without a tenant)"
		case of != nil:
			name += " (tenant " + job.Tenant + ")"
		case kinds[name]:
			name += " (queue " + job.Queue + ")"
		}
		if !slices.Contains(found.Kinds, name) {
			found.Kinds = append(found.Kinds, name)
		}
	}
	slices.Sort(found.Kinds)
	return found, nil
}

// line tells a person; it is empty when there is nothing to tell.
func (u unservedView) line() string {
	if u.Count == 0 {
		return ""
	}
	text := plural(u.Count, "ready job of a kind", "ready jobs of kinds") + " without a worker: " + terminal.Safe(strings.Join(u.Kinds[:min(len(u.Kinds), shownKinds)], ", "))
	if more := len(u.Kinds) - shownKinds; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if !u.Complete {
		text += fmt.Sprintf(" (of the newest %d ready jobs)", readyJobs)
	}
	return text
}

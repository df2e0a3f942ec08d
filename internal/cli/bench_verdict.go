package cli

import (
	"fmt"

	"github.com/later-queue/later/internal/bench"
	"github.com/later-queue/later/internal/terminal"
)

// The figures that Later is built to keep, whatever the machine. They are counts and
// ratios, so that they mean the same everywhere; docs/bench.md has them too.
const (
	goodHOT          = 0.99
	goodCommits      = 0.02 // in a drain
	goodWAL          = 900  // bytes, with the log and bench.DefaultPayload
	goodWALWithout   = 650  // without the log
	goodHeldSnapshot = 1.3  // CPU under a held snapshot, against that without
)

// benchVerdicts says of the figures that do not depend on the machine whether they
// are as they should be.
func (a *App) benchVerdicts(r *bench.Report) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Title: "check"}, terminal.Column{Title: "here", Right: true},
		terminal.Column{Title: "good", Drop: 1}, terminal.Column{Title: "", Rest: true})
	add := func(what, here, good string, ok bool, otherwise string) {
		verdict := terminal.Cell{Text: "good", Paint: a.palette.Good}
		if !ok {
			verdict = terminal.Cell{Text: otherwise, Paint: a.palette.Warn}
		}
		t.Cells(terminal.Cell{Text: what}, terminal.Cell{Text: here}, terminal.Cell{Text: good}, verdict)
	}
	bulk, drain, held := r.Phase(bench.Bulk), r.Phase(bench.Drain), r.Phase(bench.DrainHeld)
	if drain != nil && drain.Cost.HOT != nil {
		add("HOT updates in the drain", percent(drain.Cost.HOT), "99% and more", *drain.Cost.HOT >= goodHOT, "less: claims write to the indexes")
	}
	if drain != nil && drain.Cost.Commits != nil {
		ok := *drain.Cost.Commits <= goodCommits
		add("commits of a job in the drain", known(drain.Cost.Commits, "%.4f"), fmt.Sprintf("up to %v", goodCommits), ok, "more: too few jobs share one, try more --concurrency")
	}
	usual := r.Settings.PayloadBytes == bench.DefaultPayload // others change more than the insert
	if usual && bulk != nil && drain != nil && bulk.Cost.WAL != nil && drain.Cost.WAL != nil {
		limit := float64(goodWAL)
		if !r.Settings.Log {
			limit = goodWALWithout
		}
		sum := *bulk.Cost.WAL + *drain.Cost.WAL
		add("WAL of a job, bulk and drain", fmt.Sprintf("%.0f B", sum), fmt.Sprintf("up to %.0f B", limit), sum <= limit, fullPages(bulk, drain))
	}
	if drain != nil && held != nil && drain.Cost.ServerCPU != nil && held.Cost.ServerCPU != nil && *drain.Cost.ServerCPU > 0 {
		ratio := *held.Cost.ServerCPU / *drain.Cost.ServerCPU
		add("server CPU under a held snapshot", fmt.Sprintf("%.2f times", ratio), fmt.Sprintf("up to %v times", goodHeldSnapshot), ratio <= goodHeldSnapshot, "more: the claims read dead rows, or a vacuum ran")
	}
	return t
}

// fullPages says why there is more WAL than there should be.
func fullPages(phases ...*bench.Result) string {
	var pages int64
	for _, p := range phases {
		if p.Cost.FullPages != nil {
			pages += *p.Cost.FullPages
		}
	}
	if pages > 0 {
		return fmt.Sprintf("more: %s in it, after a checkpoint", plural64(pages, "full page is", "full pages are"))
	}
	return "more than expected"
}

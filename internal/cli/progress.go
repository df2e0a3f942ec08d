package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/later-queue/later/internal/terminal"
)

// progress is a bar on standard error, when that is a terminal; else nothing.
type progress struct {
	bar *progressbar.ProgressBar
}

// newProgress begins a bar of total jobs; -1 is an unknown number.
func (a *App) newProgress(what string, total int) *progress {
	if !terminal.Is(a.Err) || a.flags.json {
		return &progress{}
	}
	width, _ := terminal.Size(a.Err)
	return &progress{bar: progressbar.NewOptions(total,
		progressbar.OptionSetWriter(a.Err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("jobs"),
		progressbar.OptionSetWidth(max(10, min(40, width-60))), // 60: the text beside the bar
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p *progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // it only fails beyond its total: when the file grew while it was read
	}
}

// finish takes the bar away; a second call does nothing.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Exit()
		_ = p.bar.Clear()
		p.bar = nil
	}
}

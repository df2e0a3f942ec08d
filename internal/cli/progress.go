package cli

import (
	"strconv"
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
	columns, _ := terminal.Size(a.Err)
	line := fitProgress(columns, what, total)
	options := []progressbar.Option{
		progressbar.OptionSetWriter(a.Err),
		progressbar.OptionSetDescription(line.what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetItsString("jobs"),
		progressbar.OptionSetWidth(line.bar),
		progressbar.OptionSetElapsedTime(line.times),
		progressbar.OptionSetPredictTime(line.times),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
	}
	if line.rate {
		options = append(options, progressbar.OptionShowIts())
	}
	return &progress{bar: progressbar.NewOptions(total, options...)}
}

// progressLine is what of a progress line there is room for:
// "what 100% |bar| (5000/5000, 81642 jobs/s) [1m10s:2m5s]".
type progressLine struct {
	what        string
	bar         int // columns between the bars
	rate, times bool
}

// How wide the parts of a progress line may get: as what progressbar prints, and the bar as
// chosen.
const (
	percentColumns = len(" 100% || ")
	rateColumns    = len(", 1234567 jobs/s")
	timesColumns   = len(" [12m34s:12m34s] ")
	leastBar       = 8
	mostBar        = 40
)

// fitProgress makes a line of fewer than so many columns, 80 if they are not known. A line that
// the terminal wraps would not be overwritten by the next one.
func fitProgress(columns int, what string, total int) progressLine {
	if columns < 1 {
		columns = 80
	}
	count := 2*len(strconv.Itoa(total)) + len("(/)")
	if total < 0 {
		count = len("(1234567890/-)") // there is a spinner instead of the bar
	}
	rest := columns - 1 - percentColumns - count - leastBar
	line := progressLine{what: terminal.Clip(what, max(1, rest))}
	rest -= terminal.Width(line.what)
	if line.rate = rest >= rateColumns; line.rate {
		rest -= rateColumns
	}
	if line.times = rest >= timesColumns; line.times {
		rest -= timesColumns
	}
	line.bar = leastBar + min(max(0, rest), mostBar-leastBar)
	return line
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

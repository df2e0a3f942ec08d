package cli

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/later-queue/later/internal/bench"
	"github.com/later-queue/later/internal/terminal"
)

// benchLogLevel is what stores and workers may say during a benchmark.
const benchLogLevel = slog.LevelWarn

// lineEvery is how often a long step tells how far it is where no terminal shows
// it. Chosen: a log of a run is still read.
const lineEvery = 10 * time.Second

// benchProgress shows what a benchmark does: a bar on a terminal, lines elsewhere.
type benchProgress struct {
	a     *App
	quiet bool
	lines bool
	name  string // of the step that is shown
	done  int64
	total int64
	told  time.Time
	bar   *progress
}

func (a *App) newBenchProgress(quiet bool) *benchProgress {
	return &benchProgress{a: a, quiet: quiet || a.flags.json, lines: !terminal.Is(a.Err), bar: &progress{}}
}

func (p *benchProgress) step(s bench.Step) {
	if p.quiet {
		return
	}
	if s.Result != nil {
		p.finish()
		r := s.Result
		p.say("%s: %s, %s a second", r.Name, plural64(r.Jobs, "job", "jobs"), grouped(r.Rate))
		return
	}
	if s.Name != p.name || s.Done < p.done || s.Total != p.total {
		p.finish()
		p.name, p.done, p.total, p.told = s.Name, 0, s.Total, time.Now()
		switch {
		case p.lines:
			p.say("%s", s.Name)
		case s.Total > 0:
			p.bar = p.a.newProgress(s.Name, int(s.Total))
		}
	}
	p.bar.add(int(s.Done - p.done))
	p.done = s.Done
	switch text := far(s); {
	case !p.lines && s.Total == 0:
		p.overwrite(text)
	case p.lines && time.Since(p.told) >= lineEvery:
		p.told = time.Now()
		p.say("%s", text)
	}
}

// far says how far a step is.
func far(s bench.Step) string {
	switch {
	case s.Total > 0:
		return fmt.Sprintf("%s: %d of %d", s.Name, s.Done, s.Total)
	case s.Done > 0:
		return fmt.Sprintf("%s: %d", s.Name, s.Done)
	}
	return s.Name
}

// overwrite shows a text in place of the line before, with what a terminal has added to it for a
// Ctrl-C: for steps whose end is not known, which a bar would go on to draw after it was taken away.
func (p *benchProgress) overwrite(text string) {
	text = terminal.Safe(text)
	columns, _ := terminal.Size(p.a.Err)
	if columns < 1 {
		columns = 80
	}
	text = terminal.Clip(text, columns-1)
	fmt.Fprintf(p.a.Err, "\r%s%s\r", text, strings.Repeat(" ", max(0, columns-1-terminal.Width(text))))
}

func (p *benchProgress) say(format string, args ...any) {
	fmt.Fprintln(p.a.Err, terminal.Safe(fmt.Sprintf(format, args...)))
}

// finish takes the bar away; a second call does nothing.
func (p *benchProgress) finish() {
	p.bar.finish()
	if p.name != "" && !p.lines {
		p.overwrite("")
	}
	p.name = ""
}

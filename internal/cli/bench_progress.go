package cli

import (
	"fmt"
	"log/slog"
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
		if p.lines {
			p.say("%s", s.Name)
		} else {
			p.bar = p.a.newProgress(s.Name, barTotal(s.Total))
		}
	}
	p.bar.add(int(s.Done - p.done))
	p.done = s.Done
	if p.lines && time.Since(p.told) >= lineEvery {
		p.told = time.Now()
		if s.Total > 0 {
			p.say("%s: %d of %d", s.Name, s.Done, s.Total)
		} else {
			p.say("%s: %d", s.Name, s.Done)
		}
	}
}

// barTotal is -1 where a bar cannot know its end.
func barTotal(total int64) int {
	if total == 0 {
		return -1
	}
	return int(total)
}

func (p *benchProgress) say(format string, args ...any) {
	fmt.Fprintln(p.a.Err, terminal.Safe(fmt.Sprintf(format, args...)))
}

// finish takes the bar away; a second call does nothing.
func (p *benchProgress) finish() {
	p.bar.finish()
	p.name = ""
}

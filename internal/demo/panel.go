package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/terminal"
)

// The smallest terminal on which the panel is of use.
const (
	panelColumns = 80
	panelRows    = 20
)

// panel is a picture that is redrawn in place.
type panel struct {
	out    io.Writer
	screen *terminal.Screen
	paint  terminal.Palette
	title  string
}

func newPanel(config Config, at place) *panel {
	p := &panel{
		out: config.Out, screen: terminal.NewScreen(config.Out), paint: terminal.NewPalette(config.Colour),
		title: fmt.Sprintf("later demo on %s, seed %d", at.kind(), config.Seed),
	}
	p.screen.Enter()
	return p
}

func (p *panel) hear(event) {}

func (p *panel) close() { p.screen.Leave() }

func (p *panel) show(pic *picture) {
	columns, rows := terminal.Size(p.out)
	if columns < 1 || rows < 1 {
		return
	}
	// The last column stays free: some terminals wrap after it.
	lines := p.draw(pic, columns-1, rows)
	_ = p.screen.Draw(lines, rows) // a terminal that is gone ends the demo by its signal
}

// draw returns the picture's lines, none wider than columns, as many as rows.
func (p *panel) draw(pic *picture, columns, rows int) []string {
	clock := seconds(pic.elapsed)
	title := terminal.Clip(p.title, columns-len(clock)-2)
	lines := []string{
		p.paint.Strong(title) + strings.Repeat(" ", max(1, columns-terminal.Width(title)-len(clock))) + clock,
		"",
	}
	lines = append(lines, p.counts(pic, columns)...)
	lines = append(lines, "")
	lines = append(lines, p.workers(pic, columns)...)
	lines = append(lines, "")
	// The newest events that fit, each in full.
	var events []string
	for _, e := range slices.Backward(pic.events) {
		text := eventLines(e, p.paint, columns)
		if len(lines)+len(text)+len(events) > rows {
			break
		}
		events = append(text, events...)
	}
	return append(lines, events...)
}

// counts are the shop's numbers, the mail service's and Later's.
func (p *panel) counts(pic *picture, columns int) []string {
	const label, number = 12, 4
	const notes = len("52 calls failed, 18 repeated") // the widest note that is usual
	bar := min(max(columns-label-number-len(" of 200")-notes-4, 8), 60)
	line := func(name string, n int, note string, paint terminal.Paint) string {
		full := 0
		if pic.wanted > 0 {
			full = min(n*bar/pic.wanted, bar)
		}
		head := fmt.Sprintf("%-*s%*d of %d  ", label, name, number, n, pic.wanted)
		drawn := paint(strings.Repeat("█", full)) + p.paint.Faint(strings.Repeat("░", bar-full))
		return head + drawn + "  " + terminal.Clip(note, columns-len(head)-bar-2)
	}
	jobs := func(name string, states ...later.State) string {
		var n int64
		for _, state := range states {
			n += pic.jobs[state]
		}
		text := fmt.Sprintf("%3d %s", n, name)
		switch {
		case n == 0:
			return p.paint.Faint(text)
		case states[0] == later.StateLost, states[0] == later.StateDead:
			return p.paint.Bad(text)
		default:
			return text
		}
	}
	return []string{
		line("orders", pic.taken, fmt.Sprintf("%d rolled back", pic.declined), p.paint.Strong),
		line("confirmed", pic.confirmed, "", p.paint.Good),
		line("mails", pic.service.Written, fmt.Sprintf("%d calls failed, %d repeated", pic.service.Failed(), pic.service.Absorbed), p.paint.Good),
		fmt.Sprintf("%-*s", label, "jobs") + strings.Join([]string{
			jobs("waiting", later.StateReady, later.StateScheduled), jobs("running", later.StateRunning),
			jobs("to retry", later.StateRetry), jobs("lost", later.StateLost), jobs("dead", later.StateDead),
		}, "   "),
	}
}

// workers are the processes, those that ended included.
func (p *panel) workers(pic *picture, columns int) []string {
	table := terminal.NewTable(
		terminal.Column{Title: "worker"}, terminal.Column{Title: "pid", Right: true},
		terminal.Column{Title: "confirmed", Right: true}, terminal.Column{Title: "state"}, terminal.Column{Title: "", Rest: true})
	for _, w := range pic.workers {
		table.Cells(
			terminal.Cell{Text: w.name}, terminal.Cell{Text: fmt.Sprint(w.pid)},
			terminal.Cell{Text: fmt.Sprint(pic.confirmedBy[w.name])},
			terminal.Cell{Text: w.fate.String(), Paint: p.fatePaint(w.fate)}, terminal.Cell{Text: w.note})
	}
	return table.Lines(columns, p.paint.Head)
}

func (p *panel) fatePaint(f fate) terminal.Paint {
	switch f {
	case working:
		return p.paint.Good
	case draining, drained:
		return p.paint.Warn
	default:
		return p.paint.Bad
	}
}

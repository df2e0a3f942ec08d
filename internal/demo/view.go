package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/terminal"
)

// view shows what happens while it does.
type view interface {
	show(*picture)
	hear(event)
	close()
}

// newView is a panel on a terminal, and lines for everything else.
func (d *demo) newView() view {
	columns, rows := terminal.Size(d.config.Out)
	if columns < panelColumns || rows < panelRows {
		return &lines{out: d.config.Out}
	}
	return newPanel(d.config, d.place)
}

// lines prints one line for each event, and the counts every second.
type lines struct {
	out   io.Writer
	shown time.Duration
}

func (l *lines) show(p *picture) {
	if p.elapsed-l.shown < time.Second && l.shown > 0 {
		return
	}
	l.shown = p.elapsed
	fmt.Fprintf(l.out, "%8s  orders %3d  confirmed %3d  mails %3d | jobs: waiting %d  running %d  retry %d  lost %d  dead %d\n",
		seconds(p.elapsed), p.taken, p.confirmed, p.service.Written,
		p.jobs[later.StateReady]+p.jobs[later.StateScheduled], p.jobs[later.StateRunning], p.jobs[later.StateRetry],
		p.jobs[later.StateLost], p.jobs[later.StateDead])
}

func (l *lines) hear(e event) {
	fmt.Fprintf(l.out, "%8s  %s\n", seconds(e.after), terminal.Safe(e.text))
}

func (l *lines) close() {}

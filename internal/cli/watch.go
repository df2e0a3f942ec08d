package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/later-queue/later/internal/terminal"
)

// picture is something that is looked at again and again.
type picture interface {
	json() any
	// lines are for a terminal of this width; 0 is endless.
	lines(width int) []string
}

func (a *App) printPicture(p picture) error {
	if a.flags.json {
		return a.printJSON(p.json())
	}
	width, _ := terminal.Size(a.Out)
	_, err := io.WriteString(a.Out, strings.Join(p.lines(width), "\n")+"\n")
	return err
}

// restShare is how many times as long as a look took nothing is asked, at
// least: looks take at most a fifth of the time.
const restShare = 4

// watch looks until ctx ends, which is its good end. The first look must
// succeed; later ones that fail are shown, and tried again.
func (a *App) watch(ctx context.Context, interval time.Duration, look func(ctx context.Context) (picture, error)) error {
	began := time.Now()
	latest, err := look(ctx)
	if err != nil {
		return err
	}
	if !terminal.Is(a.Out) || a.flags.json {
		return a.watchPlain(ctx, interval, latest, began, look)
	}
	events, stop := terminal.Events() // before the first picture, which has a size
	defer stop()
	w := &watcher{app: a, screen: terminal.NewScreen(a.Out), latest: latest, interval: interval}
	w.screen.Enter()
	defer w.screen.Leave()
	if err := w.draw(); err != nil {
		return err
	}
	timer := time.NewTimer(pauseAfter(interval, time.Since(began)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-events:
			if event == terminal.Suspend {
				w.screen.Leave()
				terminal.SuspendProcess() // returns when it is continued
				w.screen.Enter()
			}
		case <-timer.C:
			began = time.Now()
			latest, err := look(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				w.fault = err
			default:
				w.latest, w.fault = latest, nil
			}
			timer.Reset(pauseAfter(interval, time.Since(began)))
		}
		if err := w.draw(); err != nil {
			return err
		}
	}
}

func pauseAfter(interval, took time.Duration) time.Duration {
	return max(interval-took, restShare*took, 0)
}

// watcher draws the latest picture.
type watcher struct {
	app      *App
	screen   *terminal.Screen
	latest   picture
	fault    error // of the last look
	interval time.Duration
}

func (w *watcher) draw() error {
	width, rows := terminal.Size(w.app.Out)
	p := w.app.palette
	lines := []string{p.Faint(fmt.Sprintf("later status, every %v, %s; Ctrl-C ends", w.interval, time.Now().Format("15:04:05"))), ""}
	if w.fault != nil {
		lines[1] = p.Bad("the last look failed, this is the one before: ") + terminal.Safe(oneLine(w.fault.Error()))
		lines = append(lines, "")
	}
	return w.screen.Draw(append(lines, w.latest.lines(width)...), rows)
}

// watchPlain prints picture after picture.
func (a *App) watchPlain(ctx context.Context, interval time.Duration, latest picture, began time.Time, look func(ctx context.Context) (picture, error)) error {
	for {
		if latest != nil {
			if err := a.printPicture(latest); err != nil {
				return err
			}
			if !a.flags.json {
				if err := a.printf("\n"); err != nil {
					return err
				}
			}
		}
		timer := time.NewTimer(pauseAfter(interval, time.Since(began)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		began = time.Now()
		var err error
		latest, err = look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			a.report(err)
			latest = nil
		}
	}
}

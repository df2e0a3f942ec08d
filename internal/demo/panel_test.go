package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/demo/mailapi"
	"github.com/later-queue/later/internal/terminal"
)

// busyPicture has long texts and large numbers.
func busyPicture() *picture {
	pic := &picture{
		elapsed: 98_700 * time.Millisecond, wanted: 200, taken: 200, declined: 8, confirmed: 150,
		confirmedBy: map[string]int{"worker-1": 150},
		jobs:        map[later.State]int64{later.StateReady: 1234, later.StateRunning: 16, later.StateRetry: 50, later.StateLost: 4, later.StateDead: 2},
		service:     mailapi.Stats{Calls: 254, Written: 160, Absorbed: 18, Errors: 40},
	}
	for range 7 {
		pic.workers = append(pic.workers, workerView{name: "worker-1", pid: 4_194_304, fate: killed, note: "killed at 4.3 s, 4 jobs in hand, and then some more"})
	}
	for range 9 {
		pic.events = append(pic.events, event{after: 12 * time.Second, text: "worker-3 told somebody: job 79 is dead: " + strings.Repeat("ünicode ", 20) + "\x1b[2J"})
	}
	return pic
}

func TestPanel(t *testing.T) {
	for _, size := range []struct{ columns, rows int }{{panelColumns, panelRows}, {80, 24}, {120, 40}, {240, 60}} {
		p := &panel{paint: terminal.NewPalette(false), title: "later demo on SQLite, seed 1"}
		lines := p.draw(busyPicture(), size.columns-1, size.rows)
		if len(lines) > size.rows {
			t.Errorf("%v: got %d lines", size, len(lines))
		}
		for _, line := range lines {
			if got := terminal.Width(line); got >= size.columns {
				t.Errorf("%v: got a line of %d columns: %s", size, got, line)
			}
			if strings.Contains(line, "\x1b") {
				t.Errorf("%v: got a command for the terminal from an event: %q", size, line)
			}
		}
		text := strings.Join(lines, "\n")
		for _, want := range []string{"98.7 s", "200 of 200", "150 of 200", "8 rolled back", "16 running", "4 lost", "2 dead", "killed"} {
			if !strings.Contains(text, want) {
				t.Errorf("%v: got\n%s\nwant %q in it", size, text, want)
			}
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"one two three", 7, "one two|three"},
		{"one", 0, "one"},
		{"", 5, ""},
		{"a verylongword b", 5, "a|very…|b"},
	} {
		if got := strings.Join(wrap(c.text, c.width), "|"); got != c.want {
			t.Errorf("wrap(%q, %d): got %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

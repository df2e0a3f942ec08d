package terminal

import (
	"fmt"
	"strings"
	"testing"
)

func TestTableFits(t *testing.T) {
	columns := []Column{
		{Title: "id", Right: true}, {Title: "state"}, {Title: "queue", Max: 20, Drop: 2}, {Title: "kind", Max: 30},
		{Title: "tenant", Max: 20, Drop: 1}, {Title: "payload", Max: 60, Rest: true, Drop: 3},
	}
	long := []string{"1234567", "scheduled", strings.Repeat("q", 40), strings.Repeat("k", 40), strings.Repeat("t", 40), strings.Repeat("p", 90)}
	bare := []string{"1", "ready", "default", "mail", "", strings.Repeat("p", 90)}
	none := func(text string) string { return text }
	for _, c := range []struct {
		width  int
		row    []string
		titles string // those that are left
	}{
		{0, long, "id state queue kind tenant payload"},
		{200, long, "id state queue kind tenant payload"},
		{80, long, "id state queue kind tenant payload"},
		{60, long, "id state queue kind tenant payload"},
		{50, long, "id state queue kind payload"},
		{40, long, "id state kind payload"},
		{30, long, "id state kind"},
		{44, bare, "id state queue kind tenant payload"},
		{34, bare, "id state queue kind payload"},
	} {
		t.Run(fmt.Sprintf("%d columns", c.width), func(t *testing.T) {
			table := NewTable(columns...)
			table.Row(c.row...)
			lines := table.Lines(c.width, none)
			if got := strings.Join(strings.Fields(lines[0]), " "); got != c.titles {
				t.Errorf("got the columns %q, want %q", got, c.titles)
			}
			for _, line := range lines {
				if c.width > 0 && Width(line) > c.width {
					t.Errorf("%q has %d columns, want at most %d", line, Width(line), c.width)
				}
			}
		})
	}
	t.Run("what cannot get narrower wraps", func(t *testing.T) {
		table := NewTable(Column{Title: "id"})
		table.Row("1234567")
		if got := table.Lines(3, none); got[1] != "1234567" {
			t.Errorf("got %q", got)
		}
	})
}

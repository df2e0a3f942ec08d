package demo

import (
	"strings"

	"github.com/later-queue/later/internal/terminal"
)

// wrap breaks text between words into lines of at most width columns; a longer
// word is cut. A width under 1 is endless.
func wrap(text string, width int) []string {
	if width < 1 {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		word = terminal.Clip(word, width)
		switch {
		case line == "":
			line = word
		case terminal.Width(line)+1+terminal.Width(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// eventLines is an event as it is shown: its time, and its text beside it.
func eventLines(e event, paint terminal.Palette, width int) []string {
	const head = 10
	if width > 0 {
		width = max(width-head, head)
	}
	lines := wrap(terminal.Safe(e.text), width)
	for i, line := range lines {
		margin := strings.Repeat(" ", head)
		if i == 0 {
			margin = paint.Faint(strings.Repeat(" ", max(0, head-2-len(seconds(e.after)))) + seconds(e.after) + "  ")
		}
		lines[i] = margin + line
	}
	return lines
}

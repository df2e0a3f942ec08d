package cli

import (
	"strings"

	"github.com/later-queue/later/internal/terminal"
)

// hanging breaks text between words into lines of at most width columns: the first behind
// head, the others as far in. A word that is longer is not cut, so that an address can be copied.
// A width under 1 is endless.
func hanging(head, text string, width int) []string {
	margin := strings.Repeat(" ", terminal.Width(head))
	var lines []string
	line, empty := head, true
	for _, word := range strings.Fields(text) {
		if !empty && width > 0 && terminal.Width(line)+1+terminal.Width(word) > width {
			lines = append(lines, line)
			line, empty = margin, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return append(lines, line)
}

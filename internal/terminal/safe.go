// Package terminal prints text of strangers on a person's terminal: safely,
// aligned, and in colour where that is wanted.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Safe makes s harmless on one line of a terminal: what is not a visible
// character (controls, among them the escape that begins a terminal's commands;
// marks that turn the writing direction; characters without a width; invalid
// bytes) becomes visible as \n, \t, \xNN or \uNNNN. Everything else stays as it
// is.
func Safe(s string) string {
	if isSafe(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case isVisible(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += size
	}
	return b.String()
}

// SafeLines is [Safe] for a text of several lines: line ends stay, tabs become
// four spaces.
func SafeLines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = Safe(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// Width is how many columns s takes on a terminal: a Chinese character two, a
// combining accent none.
func Width(s string) int { return uniseg.StringWidth(s) }

// Clip cuts s to at most width columns, the sign … included where it was cut.
func Clip(s string, width int) string {
	if len(s) <= width || Width(s) <= width { // no character is wider than its bytes
		return s
	}
	if width < 1 {
		return ""
	}
	var b strings.Builder
	used := 0
	graphemes := uniseg.NewGraphemes(s)
	for graphemes.Next() {
		used += graphemes.Width()
		if used > width-1 {
			break
		}
		b.WriteString(graphemes.Str())
	}
	return b.String() + "…"
}

func isSafe(s string) bool {
	for i, r := range s {
		if !isVisible(r) {
			return false
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return false
			}
		}
	}
	return true
}

// isVisible is unicode.IsPrint (letters, marks, numbers, punctuation, symbols
// and the ASCII space) without the fillers that print nothing. It has none of
// the direction marks, which are of the category Cf.
func isVisible(r rune) bool {
	switch r {
	case 0x115f, 0x1160, 0x3164, 0xffa0: // Hangul fillers: letters without ink
		return false
	}
	return unicode.IsPrint(r)
}

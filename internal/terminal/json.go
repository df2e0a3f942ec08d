package terminal

import (
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// JSONWriter passes JSON on to a terminal and replaces characters that are not
// visible by their \u escapes, which mean the same to whoever decodes it. JSON
// escapes only the controls below U+0020; U+009B begins a terminal's command
// as well, and U+202E turns the writing direction. Each Write must hold whole
// characters.
type JSONWriter struct {
	W io.Writer
}

// Write implements io.Writer.
func (w JSONWriter) Write(p []byte) (int, error) {
	safe := make([]byte, 0, len(p))
	for i := 0; i < len(p); {
		r, size := utf8.DecodeRune(p[i:])
		switch {
		case r == '\n' || r == '\t' || r == '\r' || isVisible(r):
			safe = append(safe, p[i:i+size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			safe = fmt.Appendf(safe, `\u%04x\u%04x`, high, low)
		default:
			safe = fmt.Appendf(safe, `\u%04x`, r)
		}
		i += size
	}
	if _, err := w.W.Write(safe); err != nil {
		return 0, err
	}
	return len(p), nil
}

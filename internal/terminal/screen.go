package terminal

import (
	"io"
	"strings"
	"sync"
)

// Screen is the terminal's second screen, on which a picture is redrawn in
// place; what the person had before comes back at the end. It is safe for
// concurrent use.
type Screen struct {
	mu   sync.Mutex
	w    io.Writer
	open bool
}

// The control sequences are those of ECMA-48 and of xterm's private modes 1049
// (second screen), 25 (cursor) and 7 (wrapping of long lines), which every
// terminal in use understands.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// NewScreen returns a screen on the terminal w that is not shown yet.
func NewScreen(w io.Writer) *Screen { return &Screen{w: w} }

// Enter shows the screen; a second call does nothing.
func (s *Screen) Enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		s.open = true
		_, _ = io.WriteString(s.w, enterScreen)
	}
}

// Leave brings the terminal back to what it was; a second call does nothing.
func (s *Screen) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		s.open = false
		_, _ = io.WriteString(s.w, leaveScreen)
	}
}

// Draw replaces the picture by lines (at most rows of them, at most one of the
// terminal's lines each) in one write, and line by line instead of clearing
// first: so it does not flicker. It draws nothing when the screen is not shown.
func (s *Screen) Draw(lines []string, rows int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return nil
	}
	if rows > 0 && len(lines) > rows {
		lines = lines[:rows]
	}
	var b strings.Builder
	b.WriteString(cursorHome)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line)
		b.WriteString(clearLine)
	}
	b.WriteString(clearBelow)
	_, err := io.WriteString(s.w, b.String())
	return err
}

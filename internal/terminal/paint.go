package terminal

import (
	"io"
	"os"

	"github.com/fatih/color"
	"golang.org/x/term"
)

// Paint colours a text that is safe already.
type Paint func(text string) string

// Palette are the colours of the command, by meaning. Each is used beside a
// word that says the same: no meaning is in the colour alone.
type Palette struct {
	Head, Good, Bad, Warn, Faint, Strong Paint
}

// NewPalette returns a palette that colours, or one that leaves all text as it
// is.
func NewPalette(colour bool) Palette {
	paint := func(attributes ...color.Attribute) Paint {
		c := color.New(attributes...)
		if colour {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return func(text string) string { return c.Sprint(text) }
	}
	return Palette{
		Head:   paint(color.Bold, color.Underline),
		Good:   paint(color.FgGreen),
		Bad:    paint(color.FgRed),
		Warn:   paint(color.FgYellow),
		Faint:  paint(color.Faint),
		Strong: paint(color.Bold),
	}
}

// Is reports whether stream (an io.Reader or io.Writer) is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Size returns the terminal's columns and rows, and zeros when w is none.
func Size(w io.Writer) (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

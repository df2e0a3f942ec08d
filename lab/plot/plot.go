// Package plot draws the few kinds of chart that docs/benchmarks.md needs, as
// small SVG files: [Lines] for curves and [Bars] for medians with their spread.
//
// The SVG is written by hand. A plotting library (gonum's was tried on paper)
// draws text as the font metrics of its own fonts, knows one theme, and has
// legends; here the files are a few kilobytes, say their text as text, follow
// the reader's light or dark mode, and name each curve where it ends.
//
// Each picture has a background of its own, so that it is readable on a page
// whose mode the picture cannot know. Output is deterministic: the same data give the same
// bytes.
package plot

import (
	"fmt"
	"html"
	"strings"
)

// The size of a picture, in its own units, which are pixels when it is not
// scaled. Chosen for a page of GitHub: narrower than its column, and still
// readable at half the size.
const (
	width = 680.0
	pad   = 18.0
)

// Sizes of text. A glyph is taken to be glyphWidth of its size wide: measured with
// the system fonts of three desktops it is 0.50 to 0.55 for text like ours.
const (
	titleSize  = 17.0
	textSize   = 13.5
	glyphWidth = 0.56
)

// Heading is what stands above a chart.
type Heading struct {
	// Title says what the chart shows.
	Title string
	// Subtitle says what is measured, in which unit and where it goes ("jobs
	// per second, higher is better"). It stands in place of a turned label at the axis.
	Subtitle string
	// Description is for readers who do not see the picture; "" is the title
	// and the subtitle.
	Description string
}

func textWidth(s string, size float64) float64 {
	return float64(len([]rune(s))) * size * glyphWidth
}

// canvas collects the elements of a picture.
type canvas struct {
	strings.Builder
	height float64
}

// newCanvas begins a picture: its background and heading.
func newCanvas(h Heading, height float64) *canvas {
	c := &canvas{height: height}
	description := h.Description
	if description == "" {
		description = strings.TrimSuffix(h.Title+": "+h.Subtitle, ": ")
	}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%[1]s" height="%[2]s" role="img" aria-label="%s">`+"\n",
		num(width), num(height), html.EscapeString(description))
	c.WriteString("<style>" + styles() + "</style>\n")
	fmt.Fprintf(c, `<rect class="page" x=".5" y=".5" width="%s" height="%s" rx="8"/>`+"\n", num(width-1), num(height-1))
	c.text(pad, pad+14, "title", "", h.Title)
	c.text(pad, pad+35, "soft", "", h.Subtitle)
	return c
}

// top is where a chart may begin below the heading.
const top = pad + 56

func (c *canvas) end() []byte {
	c.WriteString("</svg>\n")
	return []byte(c.String())
}

// text writes s at x, y (its base line); anchor is "", "middle" or "end".
func (c *canvas) text(x, y float64, class, anchor, s string) {
	if s == "" {
		return
	}
	if anchor != "" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	fmt.Fprintf(c, `<text class="%s" x="%s" y="%s"%s>%s</text>`+"\n", class, num(x), num(y), anchor, html.EscapeString(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(c, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, num(x1), num(y1), num(x2), num(y2))
}

// num writes a coordinate with one digit after the point, which is finer than a
// screen's pixel.
func num(v float64) string {
	s := strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

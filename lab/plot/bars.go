package plot

import (
	"fmt"
	"html"
)

// Bars is a chart of horizontal bars, one below the other, each with its value
// written beside it.
type Bars struct {
	Heading
	// Format writes the values; nil is [Number].
	Format Format
	Bars   []Bar
}

// Bar is one bar.
type Bar struct {
	// Name stands at its left, and Detail, in a softer tone, after it.
	Name, Detail string
	// Ours is drawn in the colour [Ours], the rest in a quiet one, so that the eye
	// finds ours first.
	Ours bool
	// Hollow is for what is no queue but a mark to measure by, like the floor.
	Hollow bool
	// Value is its length. The spread from Low to High is drawn across its end where
	// it is wide enough to be seen.
	Value, Low, High float64
	// Note stands after the value, in a softer tone.
	Note string
}

const (
	barHeight = 19.0
	barStep   = 31.0
	// A spread that would be narrower than this is left out: a blot says nothing.
	leastWhisker = 5.0
	// mostNames is the part of the width that names may take; longer ones are cut
	// off by the edge.
	mostNames = 0.55
)

// SVG is the picture. The axis begins at 0, so that lengths can be compared.
func (b Bars) SVG() []byte {
	c := newCanvas(b.Heading, top+float64(len(b.Bars))*barStep+pad-8)
	format := b.Format
	if format == nil {
		format = Number
	}
	names, notes, longest := 0.0, 0.0, 0.0
	for _, bar := range b.Bars {
		label := bar.Name
		if bar.Detail != "" {
			label += "  " + bar.Detail
		}
		names = max(names, textWidth(label, textSize))
		notes = max(notes, textWidth(format(bar.Value)+"  "+bar.Note, textSize))
		longest = max(longest, bar.Value, bar.High)
	}
	left := pad + min(names, width*mostNames) + 10
	s := scale{min: 0, max: max(longest, 1e-9), from: left, to: max(width-pad-notes-10, left+100)}
	for i, bar := range b.Bars {
		bar.draw(c, s, top+float64(i)*barStep, format)
	}
	c.line(left, top-6, left, top+float64(len(b.Bars))*barStep-6, "axis")
	return c.end()
}

func (bar Bar) draw(c *canvas, s scale, y float64, format Format) {
	weight, name, fill := "", "", "mark quiet"
	switch {
	case bar.Ours:
		weight, name, fill = "strong ", Ours.class(), "mark "+Ours.class()
	case bar.Hollow:
		fill = "hollow"
	}
	base := y + barHeight/2 + 4.8
	fmt.Fprintf(c, `<text class="%s%s" x="%s" y="%s" text-anchor="end">%s%s</text>`+"\n",
		weight, name, num(s.from-10), num(base), html.EscapeString(bar.Name), soft(bar.Detail))

	length := max(s.at(bar.Value)-s.from, 1)
	fmt.Fprintf(c, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="2"/>`+"\n",
		fill, num(s.from), num(y), num(length), num(barHeight))
	end := s.from + length
	if low, high := s.at(bar.Low), s.at(bar.High); high-low >= leastWhisker {
		middle := y + barHeight/2
		path := fmt.Sprintf("M%[1]s %[3]sV%[4]sM%[2]s %[3]sV%[4]sM%[1]s %[5]sH%[2]s",
			num(low), num(high), num(middle-4), num(middle+4), num(middle))
		fmt.Fprintf(c, `<path class="clear" d="%[1]s"/><path class="whisker" d="%[1]s"/>`+"\n", path)
		end = max(end, high)
	}
	fmt.Fprintf(c, `<text class="%snum" x="%s" y="%s">%s%s</text>`+"\n",
		weight, num(end+9), num(base), html.EscapeString(format(bar.Value)), soft(bar.Note))
}

// soft is a second part of a text, in the softer tone.
func soft(s string) string {
	if s == "" {
		return ""
	}
	return `<tspan class="soft" font-weight="400" dx="7">` + html.EscapeString(s) + `</tspan>`
}

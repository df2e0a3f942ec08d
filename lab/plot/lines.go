package plot

import (
	"fmt"
	"strings"
)

// Lines is a chart of curves, each with its name at its right end.
type Lines struct {
	Heading
	X, Y Axis
	// Series are drawn in their order, those in colour [Ours] last, on top.
	Series []Series
}

// Series is one curve.
type Series struct {
	Name   string
	Colour Colour
	// Dashed tells apart two settings of one contender, which share a colour.
	Dashed bool
	// Points are in the order of X.
	Points []Point
}

// Point is a value, and the spread around it: a band is drawn from Low to High
// where any point has High above 0.
type Point struct {
	X, Y      float64
	Low, High float64
}

const (
	linesHeight = 400.0
	bottom      = 52.0 // room for the labels of the x axis
	marked      = 12   // the points are marked where no curve has more
)

// SVG is the picture.
func (l Lines) SVG() []byte {
	c := newCanvas(l.Heading, linesHeight)
	area := l.area()
	x := newScale(l.X, l.values(func(p Point) []float64 { return []float64{p.X} }), area.left, area.right, 7)
	y := newScale(l.Y, l.values(func(p Point) []float64 { return []float64{p.Y, p.Low, p.High} }), area.bottom, area.top, 5)
	l.axes(c, area, x, y)

	order := l.order()
	curves := make([]curve, len(l.Series))
	for _, i := range order {
		curves[i] = l.Series[i].curve(x, y)
		l.Series[i].band(c, x, y)
	}
	longest := 0
	for _, s := range l.Series {
		longest = max(longest, len(s.Points))
	}
	for _, i := range order {
		curves[i].draw(c, longest <= marked)
	}
	nameAtEnds(c, curves, area)
	return c.end()
}

// box is a part of the picture.
type box struct{ left, top, right, bottom float64 }

// area is where the curves are. On its left is room for the ticks of y, and on
// its right for the names.
func (l Lines) area() box {
	a := box{left: pad, top: top, bottom: linesHeight - bottom}
	probe := newScale(l.Y, l.values(func(p Point) []float64 { return []float64{p.Y, p.Low, p.High} }), 0, 1, 5)
	widest := 0.0
	for _, v := range probe.tickValues {
		widest = max(widest, textWidth(l.Y.format(v), textSize))
	}
	a.left += widest + 8
	widest = 0
	for _, s := range l.Series {
		widest = max(widest, textWidth(s.Name, textSize))
	}
	a.right = width - pad - widest - 14
	return a
}

func (l Lines) values(of func(Point) []float64) []float64 {
	var all []float64
	for _, s := range l.Series {
		for _, p := range s.Points {
			for i, v := range of(p) {
				if i == 0 || p.High > 0 { // a spread only where there is one
					all = append(all, v)
				}
			}
		}
	}
	return all
}

// order has ours last.
func (l Lines) order() []int {
	var peers, ours []int
	for i, s := range l.Series {
		if s.Colour == Ours {
			ours = append(ours, i)
		} else {
			peers = append(peers, i)
		}
	}
	return append(peers, ours...)
}

func (l Lines) axes(c *canvas, area box, x, y scale) {
	for _, v := range y.tickValues {
		at := y.at(v)
		c.line(area.left, at, area.right, at, "grid")
		c.text(area.left-8, at+4.5, "soft num", "end", l.Y.format(v))
	}
	c.line(area.left, area.bottom, area.right, area.bottom, "axis")
	last := -1000.0
	for _, v := range x.tickValues {
		at, label := x.at(v), l.X.format(v)
		c.line(at, area.bottom, at, area.bottom+5, "axis")
		half := textWidth(label, textSize) / 2
		if at-half < last+6 {
			continue // too narrow for this label
		}
		c.text(at, area.bottom+20, "soft num", "middle", label)
		last = at + half
	}
	c.text((area.left+area.right)/2, area.bottom+40, "soft", "middle", l.X.Label)
}

// curve is a series in coordinates.
type curve struct {
	Series
	at []xy
}

type xy struct{ x, y float64 }

func (s Series) curve(x, y scale) curve {
	c := curve{Series: s}
	for _, p := range s.Points {
		c.at = append(c.at, xy{x.at(p.X), y.at(p.Y)})
	}
	return c
}

func (s Series) class(base string) string {
	class := base + " " + s.Colour.class()
	if s.Colour == Ours && !s.Dashed {
		class += " strong"
	}
	return class
}

func (s Series) band(c *canvas, x, y scale) {
	var above, below []string
	spread := false
	for _, p := range s.Points {
		low, high := p.Y, p.Y
		if p.High > 0 {
			low, high, spread = p.Low, p.High, true
		}
		above = append(above, num(x.at(p.X))+","+num(y.at(high)))
		below = append([]string{num(x.at(p.X)) + "," + num(y.at(low))}, below...)
	}
	if spread && len(s.Points) > 1 {
		fmt.Fprintf(c, `<polygon class="band %s" points="%s"/>`+"\n", s.Colour.class(), strings.Join(append(above, below...), " "))
	}
}

func (k curve) draw(c *canvas, mark bool) {
	if len(k.at) == 0 {
		return
	}
	var path []string
	for _, p := range k.at {
		path = append(path, num(p.x)+","+num(p.y))
	}
	class := k.class("curve")
	if k.Dashed {
		class += " dashed"
	}
	fmt.Fprintf(c, `<polyline class="%s" points="%s"/>`+"\n", class, strings.Join(path, " "))
	if !mark {
		return
	}
	radius := 3.5
	if k.Colour == Ours {
		radius = 4.5
	}
	for _, p := range k.at {
		fmt.Fprintf(c, `<circle class="mark %s" cx="%s" cy="%s" r="%s"/>`+"\n", k.Colour.class(), num(p.x), num(p.y), num(radius))
	}
}

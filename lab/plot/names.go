package plot

import (
	"cmp"
	"math"
	"slices"
)

// lineHeight is the least distance between two names.
const lineHeight = 17.0

// nameAtEnds writes each curve's name to the right of its last point. Names that
// would touch are moved apart, and led back to their curve by a thin line.
func nameAtEnds(c *canvas, curves []curve, area box) {
	var named []curve
	for _, k := range curves {
		if len(k.at) > 0 {
			named = append(named, k)
		}
	}
	end := func(k curve) xy { return k.at[len(k.at)-1] }
	slices.SortStableFunc(named, func(a, b curve) int { return cmp.Compare(end(a).y, end(b).y) })
	wanted := make([]float64, len(named))
	for i, k := range named {
		wanted[i] = end(k).y
	}
	for i, y := range spread(wanted, area.top, area.bottom) {
		k, e := named[i], end(named[i])
		x := area.right + 12
		if e.x < area.right-1 || math.Abs(y-e.y) > 3 {
			c.line(e.x+6, e.y, x-4, y, "lead "+k.Colour.class())
		}
		c.text(x, y+4.5, k.class("label"), "", k.Name)
	}
}

// spread moves the positions, which are in order, apart by lineHeight, as little
// as possible in sum, and keeps them within the edges if there is room.
func spread(wanted []float64, low, high float64) []float64 {
	// Neighbours that touch become a group, placed around the mean of what its
	// members want; groups that touch then become one.
	type group struct {
		sum   float64 // of wanted[i] - i·lineHeight within the group
		first int
		n     int
	}
	start := func(g group) float64 {
		at := g.sum / float64(g.n)
		return math.Max(low, math.Min(at, high-float64(g.n-1)*lineHeight))
	}
	var groups []group
	for i, w := range wanted {
		groups = append(groups, group{sum: w, first: i, n: 1})
		for len(groups) > 1 {
			a, b := groups[len(groups)-2], groups[len(groups)-1]
			if start(a)+float64(a.n)*lineHeight <= start(b) {
				break
			}
			a.sum += b.sum - float64(a.n*b.n)*lineHeight
			a.n += b.n
			groups = append(groups[:len(groups)-2], a)
		}
	}
	placed := make([]float64, len(wanted))
	for _, g := range groups {
		for i := range g.n {
			placed[g.first+i] = start(g) + float64(i)*lineHeight
		}
	}
	return placed
}

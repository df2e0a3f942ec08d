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

// nameInside writes each curve's name beside it, at the place that covers least of
// the other curves and names.
func nameInside(c *canvas, curves []curve, area box) {
	var taken []box
	for i, k := range curves {
		best, bestCost := box{}, math.Inf(1)
		w := textWidth(k.Name, textSize)
		for _, height := range []float64{.5, .62, .38, .74, .26, .86, .14} {
			at, ok := k.crossing(area.bottom + (area.top-area.bottom)*height)
			if !ok {
				continue
			}
			for _, right := range []bool{true, false} {
				b := box{left: at.x + 9, right: at.x + 9 + w, top: at.y - lineHeight/2, bottom: at.y + lineHeight/2}
				if !right {
					b.left, b.right = at.x-9-w, at.x-9
				}
				cost := math.Abs(height-.5) + b.cost(area, curves, i, taken)
				if !right {
					cost += .1
				}
				if cost < bestCost {
					best, bestCost = b, cost
				}
			}
		}
		if math.IsInf(bestCost, 1) {
			continue // the curve has no points
		}
		taken = append(taken, best)
		c.text(best.left, best.bottom-4, k.class("halo"), "", k.Name)
	}
}

// cost is how bad a place for the name of curve own is; below 1 nothing is covered.
func (b box) cost(area box, curves []curve, own int, taken []box) float64 {
	cost := 0.0
	if b.left < area.left || b.right > area.right {
		cost += 20
	}
	for _, t := range taken {
		if b.left < t.right+8 && t.left-8 < b.right && b.top < t.bottom && t.top < b.bottom {
			cost += 10
		}
	}
	for i, k := range curves {
		weight := 2.0
		if i == own {
			weight = 1.5
		}
		if k.meets(b) {
			cost += weight
		}
	}
	return cost
}

// crossing is where the curve first comes to the height y.
func (k curve) crossing(y float64) (xy, bool) {
	for i := 1; i < len(k.at); i++ {
		a, b := k.at[i-1], k.at[i]
		if (a.y-y)*(b.y-y) <= 0 && a.y != b.y {
			return xy{a.x + (b.x-a.x)*(y-a.y)/(b.y-a.y), y}, true
		}
	}
	return xy{}, false
}

// meets reports whether the curve passes through b. It looks along each stretch in
// steps that are small beside a name.
func (k curve) meets(b box) bool {
	for i := 1; i < len(k.at); i++ {
		p, q := k.at[i-1], k.at[i]
		steps := math.Ceil(math.Hypot(q.x-p.x, q.y-p.y)/4) + 1
		for s := range int(steps) + 1 {
			part := float64(s) / steps
			x, y := p.x+(q.x-p.x)*part, p.y+(q.y-p.y)*part
			if x > b.left && x < b.right && y > b.top && y < b.bottom {
				return true
			}
		}
	}
	return false
}

package plot

import "math"

// Axis is one direction of a chart.
type Axis struct {
	// Label is what the values are; used below the x axis only.
	Label string
	// Format writes the ticks; nil is [Number].
	Format Format
	// Log makes the axis logarithmic. Values that it cannot show (0 and below)
	// lie on its lower edge.
	Log bool
	// Min and Max are the edges where the data reach less far; both 0 leaves
	// it to the data. A linear axis always begins at 0 or below.
	Min, Max float64
	// Ticks are the values that are labelled, in order, instead of round ones; the
	// axis ends at the outer ones, or where the data do.
	Ticks []float64
}

func (a Axis) format(v float64) string {
	if a.Format == nil {
		return Number(v)
	}
	return a.Format(v)
}

// scale maps values onto coordinates.
type scale struct {
	log        bool
	min, max   float64 // values
	from, to   float64 // coordinates
	tickValues []float64
}

// newScale covers the values, and rounds its edges to ticks; about n of them.
func newScale(a Axis, values []float64, from, to float64, n int) scale {
	s := scale{log: a.Log, from: from, to: to, min: math.Inf(1), max: math.Inf(-1)}
	if a.Min != 0 || a.Max != 0 {
		values = append([]float64{a.Min, a.Max}, values...)
	}
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || a.Log && v <= 0 {
			continue
		}
		s.min, s.max = math.Min(s.min, v), math.Max(s.max, v)
	}
	if s.min > s.max { // no value at all
		s.min, s.max = 1, 10
	}
	switch {
	case len(a.Ticks) > 0:
		s.tickValues = a.Ticks
		s.min, s.max = math.Min(s.min, a.Ticks[0]), math.Max(s.max, a.Ticks[len(a.Ticks)-1])
		if s.max <= s.min {
			s.max = s.min + 1
		}
	case s.log:
		s.roundLog(n)
	default:
		s.roundLinear(n)
	}
	return s
}

// at is the coordinate of v; outside of the scale it is the nearer edge.
func (s scale) at(v float64) float64 {
	if s.log {
		v = math.Max(v, s.min)
		return s.place((math.Log10(v) - math.Log10(s.min)) / (math.Log10(s.max) - math.Log10(s.min)))
	}
	return s.place((v - s.min) / (s.max - s.min))
}

func (s scale) place(part float64) float64 {
	return s.from + (s.to-s.from)*math.Min(1, math.Max(0, part))
}

// roundLinear sets the edges and ticks to multiples of 1, 2 or 5 times a power of ten.
func (s *scale) roundLinear(n int) {
	s.min = math.Min(s.min, 0)
	if s.max <= s.min {
		s.max = s.min + 1
	}
	raw := (s.max - s.min) / float64(n)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * power
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw*0.999 {
			step = m * power
			break
		}
	}
	first, last := math.Floor(s.min/step), math.Ceil(s.max/step-1e-9)
	for i := first; i <= last; i++ {
		s.tickValues = append(s.tickValues, i*step)
	}
	s.min, s.max = first*step, last*step
}

// roundLog sets the edges to 1, 2 or 5 times a power of ten, and the ticks to powers
// of ten: all, or, when there are more than n, each second or third; with fewer
// than two decades also to 2 and 5 times.
func (s *scale) roundLog(n int) {
	low, high := s.min, s.max
	s.min, s.max = floor125(low), ceil125(high)
	if s.max <= s.min {
		s.min, s.max = s.min/10, s.max*10
	}
	decades := math.Log10(s.max / s.min)
	multiples := []float64{1}
	if decades < 2.2 {
		multiples = []float64{1, 2, 5}
	}
	every := max(1, int(math.Ceil(decades/float64(n))))
	for e := int(math.Floor(math.Log10(s.min) + 1e-9)); e <= int(math.Ceil(math.Log10(s.max)-1e-9)); e++ {
		if e%every != 0 {
			continue
		}
		for _, m := range multiples {
			if v := m * math.Pow(10, float64(e)); v >= s.min*0.999 && v <= s.max*1.001 {
				s.tickValues = append(s.tickValues, v)
			}
		}
	}
}

func floor125(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, m := range []float64{5, 2} {
		if m*power <= v*1.001 {
			return m * power
		}
	}
	return power
}

func ceil125(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*0.999 {
			return m * power
		}
	}
	return 10 * power
}

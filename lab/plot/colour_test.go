package plot

import (
	"fmt"
	"math"
	"strconv"
	"testing"
)

// rgb is a colour in linear light, each part from 0 to 1.
type rgb [3]float64

func parse(t *testing.T, hex string) rgb {
	t.Helper()
	var c rgb
	for i := range c {
		v, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		s := float64(v) / 255
		if s <= 0.04045 {
			c[i] = s / 12.92
		} else {
			c[i] = math.Pow((s+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

func contrast(a, b rgb) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// seen is the colour as seen with a kind of colour vision: Machado, Oliveira and
// Fernandes 2009, severity 1.
func (c rgb) seen(m [9]float64) rgb {
	var out rgb
	for i := range out {
		out[i] = min(1, max(0, m[3*i]*c[0]+m[3*i+1]*c[1]+m[3*i+2]*c[2]))
	}
	return out
}

var visions = map[string][9]float64{
	"usual": {1, 0, 0, 0, 1, 0, 0, 0, 1},
	"without red cones": {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216,
		-0.003882, -0.048116, 1.051998},
	"without green cones": {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413,
		-0.011820, 0.042940, 0.968881},
	"without blue cones": {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602,
		0.004733, 0.691367, 0.303900},
}

// lab is the colour in CIELAB, where distances are about those that the eye sees.
func (c rgb) lab() [3]float64 {
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.9505)
	y := f(c.luminance())
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func distance(a, b rgb) float64 {
	p, q := a.lab(), b.lab()
	return math.Sqrt((p[0]-q[0])*(p[0]-q[0]) + (p[1]-q[1])*(p[1]-q[1]) + (p[2]-q[2])*(p[2]-q[2]))
}

func TestPalette(t *testing.T) {
	for mode, name := range []string{"light", "dark"} {
		page := parse(t, pageColour[mode])
		value := func(c Colour) rgb {
			if mode == 0 {
				return parse(t, palette[c].light)
			}
			return parse(t, palette[c].dark)
		}
		t.Run("text can be read on the "+name+" page", func(t *testing.T) {
			texts := []rgb{parse(t, textColour[mode]), parse(t, softColour[mode])}
			for c := range colours {
				texts = append(texts, value(c))
			}
			for i, c := range texts {
				if got, want := contrast(c, page), 4.5; got < want {
					t.Errorf("text %d: contrast %.2f, want at least %v", i, got, want)
				}
			}
		})
		for vision, m := range visions {
			t.Run(fmt.Sprintf("each colour differs from each other on the %s page, %s", name, vision), func(t *testing.T) {
				least := math.Inf(1)
				for a := range colours {
					for b := range a {
						d := distance(value(a).seen(m), value(b).seen(m))
						least = min(least, d)
						// Ours must stand out; among the peers 10 is a difference that is seen
						// without comparing.
						want := 10.0
						if a == Ours || b == Ours {
							want = 15
						}
						if d < want {
							t.Errorf("colours %d and %d: distance %.1f, want at least %v", b, a, d, want)
						}
					}
				}
				t.Logf("least distance %.1f", least)
			})
		}
	}
}

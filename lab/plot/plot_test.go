package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// texts are all texts of a picture, in their order; it fails when the picture is
// not well-formed XML.
func texts(t *testing.T, svg []byte) []string {
	t.Helper()
	var all []string
	d := xml.NewDecoder(bytes.NewReader(svg))
	inText := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "text" || token.Name.Local == "tspan" {
				inText++
			}
		case xml.EndElement:
			if token.Name.Local == "text" || token.Name.Local == "tspan" {
				inText--
			}
		case xml.CharData:
			if inText > 0 {
				all = append(all, string(token))
			}
		}
	}
}

func sample() Lines {
	return Lines{
		Heading: Heading{Title: "Rate & backlog", Subtitle: `jobs < "all"`},
		X:       Axis{Label: "jobs waiting", Log: true}, Y: Axis{Log: true},
		Series: []Series{
			{Name: "ours", Colour: Ours, Points: []Point{{X: 1e3, Y: 6e4, Low: 5e4, High: 7e4}, {X: 1e6, Y: 5.5e4}}},
			{Name: "peer & co", Colour: PeerA, Points: []Point{{X: 1e3, Y: 5e3}, {X: 1e6, Y: 900}}},
			{Name: "peer, defaults", Colour: PeerA, Dashed: true, Points: []Point{{X: 1e3, Y: 500}, {X: 1e6, Y: 0}}},
			{Name: "absent", Colour: PeerB},
		},
	}
}

func TestLines(t *testing.T) {
	t.Run("the picture says its heading, axis, ticks and each curve's name", func(t *testing.T) {
		got := texts(t, sample().SVG())
		for _, want := range []string{"Rate & backlog", `jobs < "all"`, "jobs waiting", "1k", "100k", "1M", "ours", "peer & co", "peer, defaults"} {
			if !slices.Contains(got, want) {
				t.Errorf("texts %q, want %q among them", got, want)
			}
		}
		if slices.Contains(got, "absent") {
			t.Error("a series without points is named")
		}
	})
	t.Run("ours is drawn last and strongest, and settings differ by their stroke", func(t *testing.T) {
		svg := string(sample().SVG())
		ours := strings.Index(svg, `class="curve c1 strong"`)
		peer := strings.Index(svg, `class="curve c2"`)
		dashed := strings.Index(svg, `class="curve c2 dashed"`)
		if peer < 0 || dashed < peer || ours < dashed {
			t.Errorf("peer at %d, dashed at %d, ours at %d; want them in this order", peer, dashed, ours)
		}
	})
	t.Run("names that would touch stand apart, in the order of their curves", func(t *testing.T) {
		var l Lines
		for _, name := range []string{"third", "first", "second"} {
			y := map[string]float64{"first": 103, "second": 102, "third": 101}[name]
			l.Series = append(l.Series, Series{Name: name, Points: []Point{{X: 1, Y: y}, {X: 2, Y: y}}})
		}
		var got []string
		last := 0.0
		for line := range strings.Lines(string(l.SVG())) {
			if _, rest, ok := strings.Cut(line, `class="label`); ok {
				_, rest, _ = strings.Cut(rest, `y="`)
				y := atof(t, rest[:strings.Index(rest, `"`)])
				if y-last < lineHeight-0.2 {
					t.Errorf("a name at %v, the one before at %v", y, last)
				}
				last = y
				got = append(got, texts(t, []byte(line))...)
			}
		}
		if want := []string{"first", "second", "third"}; !slices.Equal(got, want) {
			t.Errorf("names %q, want %q", got, want)
		}
	})
	t.Run("a spread is drawn as a band, and none without one", func(t *testing.T) {
		svg := string(sample().SVG())
		if got, want := strings.Count(svg, "<polygon"), 1; got != want {
			t.Errorf("%d bands, want %d", got, want)
		}
	})
	t.Run("points are marked where they are few", func(t *testing.T) {
		l := sample()
		if got, want := strings.Count(string(l.SVG()), "<circle"), 6; got != want {
			t.Errorf("%d marks, want %d", got, want)
		}
		for x := range 20 {
			l.Series[0].Points = append(l.Series[0].Points, Point{X: 2e6 + float64(x), Y: 1e4})
		}
		if got := strings.Count(string(l.SVG()), "<circle"); got != 0 {
			t.Errorf("%d marks beside a curve of many points, want none", got)
		}
	})
	t.Run("no coordinate is missing, infinite or outside of the picture", func(t *testing.T) {
		l := sample()
		l.Series[0].Points = append(l.Series[0].Points, Point{X: 1e7, Y: math.Inf(1)}, Point{X: 1e8, Y: -1})
		if svg := string(l.SVG()); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Error(svg)
		}
		if svg := string(Lines{Series: []Series{{Name: "one", Points: []Point{{X: 0, Y: 0}}}}}.SVG()); strings.Contains(svg, "NaN") {
			t.Error(svg)
		}
	})
	t.Run("the same data give the same bytes", func(t *testing.T) {
		if !bytes.Equal(sample().SVG(), sample().SVG()) {
			t.Error("two pictures differ")
		}
	})
}

func TestBars(t *testing.T) {
	bars := Bars{Heading: Heading{Title: "Drain"}, Bars: []Bar{
		{Name: "ours", Detail: "defaults", Ours: true, Value: 61234, Low: 50000, High: 70000},
		{Name: "peer", Value: 981, Low: 970, High: 990, Note: "62 times"},
		{Name: "floor", Hollow: true, Value: 90000},
		{Name: "nothing", Value: 0},
	}}
	svg := bars.SVG()
	t.Run("each bar has its name, its value and its note", func(t *testing.T) {
		got := texts(t, svg)
		for _, want := range []string{"ours", "defaults", "61.2k", "peer", "981", "62 times", "floor", "90k", "nothing", "0"} {
			if !slices.Contains(got, want) {
				t.Errorf("texts %q, want %q among them", got, want)
			}
		}
	})
	t.Run("lengths are in proportion, and a spread is drawn where it can be seen", func(t *testing.T) {
		if got, want := strings.Count(string(svg), `class="whisker"`), 1; got != want {
			t.Errorf("%d spreads, want %d", got, want)
		}
		var one, two float64
		probe := Bars{Bars: []Bar{{Value: 10}, {Value: 5}}}
		for line := range strings.Lines(string(probe.SVG())) {
			_, rest, ok := strings.Cut(line, `class="mark quiet"`)
			if !ok {
				continue
			}
			_, rest, _ = strings.Cut(rest, `width="`)
			w := atof(t, rest[:strings.Index(rest, `"`)])
			one, two = two, w
		}
		if math.Abs(one-2*two) > 0.2 {
			t.Errorf("bars of 10 and 5 are %v and %v long", one, two)
		}
	})
}

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		format Format
		value  float64
		want   string
	}{
		{Number, 0, "0"}, {Number, 0.25, "0.25"}, {Number, 981, "981"}, {Number, 999.7, "1k"}, {Number, 1372, "1.37k"},
		{Number, 61234, "61.2k"}, {Number, 100e3, "100k"}, {Number, 999_700, "1M"}, {Number, 10e6, "10M"}, {Number, 2.5e9, "2.5G"},
		{Microseconds, 85, "85 µs"}, {Microseconds, 1234, "1.23 ms"}, {Microseconds, 999_600, "1 s"}, {Microseconds, 300e6, "5 min"},
		{Percent, 0.5, "50%"}, {Percent, 0.999, "99.9%"}, {Percent, 1, "100%"},
	} {
		if got := c.format(c.value); got != c.want {
			t.Errorf("%v: got %q, want %q", c.value, got, c.want)
		}
	}
}

func TestScale(t *testing.T) {
	ticks := func(a Axis, values ...float64) []float64 {
		got := newScale(a, values, 0, 100, 5).tickValues
		for i := range got {
			got[i] = math.Round(got[i]*1e6) / 1e6
		}
		return got
	}
	for _, c := range []struct {
		name   string
		axis   Axis
		values []float64
		want   []float64
	}{
		{"a linear axis begins at 0 and ends on a tick", Axis{}, []float64{1900, 2130}, []float64{0, 500, 1000, 1500, 2000, 2500}},
		{"shares end at 1", Axis{Max: 1}, []float64{0.01, 0.99}, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{"a long logarithmic axis has powers of ten", Axis{Log: true}, []float64{265, 61000}, []float64{1000, 10000, 100000}},
		{"a short one has 2 and 5 times as well", Axis{Log: true}, []float64{110, 900}, []float64{100, 200, 500, 1000}},
		{"a very long one leaves powers out", Axis{Log: true}, []float64{1, 1e9}, []float64{1, 100, 1e4, 1e6, 1e8}},
		{"values that it cannot show do not move a logarithmic axis", Axis{Log: true}, []float64{0, 100, 1000, math.NaN()}, []float64{100, 200, 500, 1000}},
		{"ticks that are given are taken", Axis{Log: true, Ticks: []float64{1, 2, 4}}, []float64{1, 4}, []float64{1, 2, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ticks(c.axis, c.values...); !slices.Equal(got, c.want) {
				t.Errorf("ticks %v, want %v", got, c.want)
			}
		})
	}
	t.Run("all values lie within the edges, in order", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			values := make([]float64, 1+random.IntN(5))
			for i := range values {
				values[i] = math.Pow(10, random.Float64()*12-4)
			}
			slices.Sort(values)
			s := newScale(Axis{Log: random.IntN(2) == 0}, values, 100, 0, 5)
			if s.min > values[0]*1.002 && s.log || s.max < values[len(values)-1]*0.998 {
				t.Fatalf("values %v, edges %v to %v", values, s.min, s.max)
			}
			for i := 1; i < len(values); i++ {
				if s.at(values[i-1]) < s.at(values[i]) {
					t.Fatalf("%v lies behind %v", values[i-1], values[i])
				}
			}
		}
	})
}

func TestSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		wanted := make([]float64, 1+random.IntN(10))
		for i := range wanted {
			wanted[i] = random.Float64() * 300
		}
		slices.Sort(wanted)
		got := spread(wanted, 0, 300)
		for i := range got {
			if got[i] < -1e-6 || got[i] > 300+1e-6 {
				t.Fatalf("%v became %v: outside", wanted, got)
			}
			if i > 0 && got[i]-got[i-1] < lineHeight-1e-6 {
				t.Fatalf("%v became %v: names touch", wanted, got)
			}
		}
		if len(wanted) == 1 && got[0] != wanted[0] {
			t.Fatalf("a lonely name was moved from %v to %v", wanted[0], got[0])
		}
	}
}

func atof(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

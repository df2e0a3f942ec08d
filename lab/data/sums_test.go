package data

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		values    []float64
		want      float64
	}{
		{"of none is 0", nil, 0},
		{"of one is it", []float64{7}, 7},
		{"of an odd number is the middle one", []float64{9, 1, 5}, 5},
		{"of an even number is the mean of the middle two", []float64{8, 1, 2, 100}, 5},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			before := slices.Clone(c.values)
			if got := Median(c.values); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if !slices.Equal(before, c.values) {
				t.Errorf("the values became %v, want them left alone", c.values)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	low, high := Spread([]float64{3, 1, 2})
	if low != 1 || high != 3 {
		t.Errorf("got %v–%v, want 1–3", low, high)
	}
	if low, high := Spread(nil); low != 0 || high != 0 {
		t.Errorf("got %v–%v of none, want zeros", low, high)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		behaviour string
		sorted    []float64
		p, want   float64
	}{
		{"of none is 0", nil, 0.5, 0},
		{"of one is it", []float64{4}, 0.99, 4},
		{"the median is the lower middle", []float64{1, 2, 3, 4}, 0.5, 2},
		{"99 of 100", hundred, 0.99, 99},
		{"7 of 100, whose product rounds up", hundred, 0.07, 7},
		{"a little above a rank is the next", hundred, 0.991, 100},
		{"all is the greatest", hundred, 1, 100},
		{"nothing is the least", hundred, 0, 1},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			if got := Percentile(c.sorted, c.p); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestQuantiles(t *testing.T) {
	values := make([]float64, 1000)
	for i := range values {
		values[i] = float64(i + 1)
	}
	points := Quantiles(values)
	if last := points[len(points)-1]; last != (Point{1, 1000}) {
		t.Errorf("got the end %v, want the greatest value at 1", last)
	}
	for i := 1; i < len(points); i++ {
		if points[i][0] <= points[i-1][0] || points[i][1] < points[i-1][1] {
			t.Errorf("got %v behind %v, want both to rise", points[i], points[i-1])
		}
	}
	if p := points[len(points)-2][0]; p > 0.999 {
		t.Errorf("got the share %v of 1,000 values, want none that they cannot tell apart", p)
	}
	if got := Quantiles(nil); got != nil {
		t.Errorf("got %v of no values, want none", got)
	}
}

func TestWriteAndRead(t *testing.T) {
	want := &Race{Race: "drain", Rounds: []Round{{Contender: "ours", Rate: 1.5, Points: []Point{{1, 2}},
		Series: map[string][]Point{"done": {{0, 1}}}}}}
	dir := filepath.Join(t.TempDir(), "new")
	if err := Write(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(filepath.Join(dir, "drain.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

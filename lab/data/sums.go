package data

import (
	"math"
	"slices"
)

// Median returns the middle of values, the mean of the two middle ones when their
// number is even, and 0 of none. It leaves values as they are.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Spread returns the lowest and the highest of values, and zeros of none.
func Spread(values []float64) (low, high float64) {
	if len(values) == 0 {
		return 0, 0
	}
	return slices.Min(values), slices.Max(values)
}

// Percentile returns the least value that at least the share p (0 to 1) of the
// values does not exceed (the nearest rank), and 0 of none. The values are sorted.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	// The product's rounding must not push a whole rank up: 0.07·100 is above 7.
	rank := int(math.Ceil(p*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Quantiles is the curve of a latency distribution: [share, value], closer together
// towards 1, where the difference is.
func Quantiles(sorted []float64) []Point {
	if len(sorted) == 0 {
		return nil
	}
	var points []Point
	for _, p := range []float64{0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85,
		0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999} {
		if float64(len(sorted))*(1-p) < 1 && p > 0.5 {
			break // fewer values than that share can tell apart
		}
		points = append(points, Point{p, Percentile(sorted, p)})
	}
	return append(points, Point{1, sorted[len(sorted)-1]})
}

package plot

import (
	"math"
	"strconv"
	"strings"
)

// A Format writes a value as a reader would say it.
type Format func(v float64) string

// Number writes 950, 1.5k, 61.2k, 10M: three significant digits.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 999.5e6:
		return digits(v/1e9) + "G"
	case a >= 999.5e3:
		return digits(v/1e6) + "M"
	case a >= 999.5:
		return digits(v/1e3) + "k"
	}
	return digits(v)
}

// Microseconds writes a time in microseconds: 85 µs, 1.2 ms, 3 s, 2 min.
func Microseconds(v float64) string {
	switch a := math.Abs(v); {
	case a >= 120e6:
		return digits(v/60e6) + " min"
	case a >= 999.5e3:
		return digits(v/1e6) + " s"
	case a >= 999.5:
		return digits(v/1e3) + " ms"
	}
	return digits(v) + " µs"
}

// Percent writes a share: 0.5 is 50%.
func Percent(v float64) string { return digits(v*100) + "%" }

// digits writes v with three significant digits, and without zeros that say nothing.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	s := strconv.FormatFloat(v, 'f', max(0, decimals), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

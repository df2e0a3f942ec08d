// Package age writes durations for people.
package age

import (
	"fmt"
	"time"
)

// Short writes d in its one or two largest units, rounded towards zero: 850ms,
// 12s, 3m, 3m20s, 5h, 5h12m, 4d, 4d7h. A negative d is written as 0s.
func Short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", max(1, d.Milliseconds()))
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return pair(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return pair(d, time.Hour, "h", time.Minute, "m")
	}
	return pair(d, day, "d", time.Hour, "h")
}

func pair(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d%s", d/large, largeName)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf("%d%s", rest, smallName)
	}
	return text
}

// nearest rounds d to the unit in which Short ends.
func nearest(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Hour-time.Second/2:
		return d.Round(time.Second)
	case d < 24*time.Hour-time.Minute/2:
		return d.Round(time.Minute)
	}
	return d.Round(time.Hour)
}

// Relative writes t as seen from now: "in 3m", "12s ago", "now". What is to come is
// rounded to the nearest, so that a delay of 3d is not "in 2d23h" a moment later.
func Relative(t, now time.Time) string {
	switch d := t.Sub(now); {
	case d >= time.Millisecond:
		return "in " + Short(nearest(d))
	case d <= -time.Millisecond:
		return Short(-d) + " ago"
	}
	return "now"
}

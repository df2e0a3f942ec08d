package age

import (
	"testing"
	"time"
)

func TestShort(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"}, {0, "0s"}, {time.Microsecond, "1ms"}, {850 * time.Millisecond, "850ms"}, {12900 * time.Millisecond, "12s"},
		{3 * time.Minute, "3m"}, {200 * time.Second, "3m20s"}, {5*time.Hour + 12*time.Minute, "5h12m"}, {103 * time.Hour, "4d7h"},
	} {
		if got := Short(c.d); got != c.want {
			t.Errorf("Short(%v) = %q, want %q", c.d, got, c.want)
		}
	}
}

func TestRelative(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{72*time.Hour - time.Second, "in 3d"}, {24*time.Hour - time.Second, "in 1d"}, {time.Hour - time.Millisecond, "in 1h"},
		{90*time.Second - time.Millisecond, "in 1m30s"}, {1600 * time.Microsecond, "in 2ms"}, {26 * time.Hour, "in 1d2h"}, {-72*time.Hour + time.Second, "2d23h ago"},
		{time.Minute, "in 1m"}, {-time.Minute, "1m ago"}, {0, "now"},
	} {
		if got := Relative(now.Add(c.d), now); got != c.want {
			t.Errorf("Relative(%v) = %q, want %q", c.d, got, c.want)
		}
	}
}

package endpoint

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestParseDelay(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	stamp := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		value, date string
		want        time.Duration
		ok          bool
	}{
		{"120", "", 2 * time.Minute, true},
		{" 120 ", "", 2 * time.Minute, true},
		{"0", "", MinDelay, true},
		{"86400", "", MaxDelay, true},
		{"86401", "", MaxDelay, true},
		{strings.Repeat("9", 100), "", MaxDelay, true},
		{stamp(time.Hour), "", time.Hour, true},
		{"Monday, 01-Jun-26 13:00:00 GMT", "", time.Hour, true},
		{"Mon Jun  1 13:00:00 2026", "", time.Hour, true},
		{stamp(time.Hour), stamp(-time.Hour), 2 * time.Hour, true}, // the server's clock is an hour late
		{stamp(-time.Hour), stamp(-2 * time.Hour), time.Hour, true},
		{stamp(time.Hour), "yesterday", time.Hour, true},
		{stamp(1000 * time.Hour), "", MaxDelay, true},
		{stamp(0), "", 0, false},
		{stamp(-time.Second), "", 0, false},
		{"", "", 0, false},
		{"-1", "", 0, false},
		{"+1", "", 0, false},
		{"1.5", "", 0, false},
		{"1e3", "", 0, false},
		{"soon", "", 0, false},
		{"30s", "", 0, false},
		{"1, 2", "", 0, false},
		{"٣", "", 0, false}, // a digit of another script
	} {
		got, ok := parseDelay(c.value, c.date, now)
		if got != c.want || ok != c.ok {
			t.Errorf("%q at %q: got %v, %v; want %v, %v", c.value, c.date, got, ok, c.want, c.ok)
		}
	}
}

func FuzzParseDelay(f *testing.F) {
	for _, seed := range []string{"120", "-1", "soon", "99999999999999999999", "Mon, 01 Jun 2026 13:00:00 GMT", "Mon Jun  1 13:00:00 2026"} {
		f.Add(seed, seed)
	}
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		d, ok := parseDelay(value, date, now)
		if ok && (d < MinDelay || d > MaxDelay) || !ok && d != 0 {
			t.Errorf("%q: got %v, %v", value, d, ok)
		}
		if ok {
			if s := spread(d); s < d || s > d+d/5 {
				t.Errorf("%v was spread to %v", d, s)
			}
		}
	})
}

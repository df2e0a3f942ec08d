package cli

import (
	"slices"
	"testing"
)

func TestHanging(t *testing.T) {
	for _, c := range []struct {
		behaviour  string
		head, text string
		width      int
		want       []string
	}{
		{"stays one line where there is no terminal", "! ", "one two three", 0, []string{"! one two three"}},
		{"fills a line to the last column", "! ", "one two three", 9, []string{"! one two", "  three"}},
		{"and not beyond it", "! ", "one two three", 8, []string{"! one", "  two", "  three"}},
		{"leaves a long word whole", "", "at postgres://host/name now", 10, []string{"at", "postgres://host/name", "now"}},
		{"counts columns, not bytes", "• ", "µµµ µµµ", 9, []string{"• µµµ µµµ"}},
		{"has a head without a text", "! ", "", 10, []string{"! "}},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			if got := hanging(c.head, c.text, c.width); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

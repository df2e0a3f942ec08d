package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/later-queue/later/internal/terminal"
)

func TestFitProgress(t *testing.T) {
	for _, c := range []struct {
		columns int
		total   int
		want    progressLine
	}{
		{100, 100_000, progressLine{what: "enqueueing ready jobs", bar: 21, rate: true, times: true}},
		{80, 100_000, progressLine{what: "enqueueing ready jobs", bar: 18, rate: true}},
		{60, 100_000, progressLine{what: "enqueueing ready jobs", bar: 14}},
		{40, 100_000, progressLine{what: "enqueu…", bar: 8}},
		{0, 100_000, progressLine{what: "enqueueing ready jobs", bar: 18, rate: true}}, // not known
		{300, 5, progressLine{what: "enqueueing ready jobs", bar: 40, rate: true, times: true}},
	} {
		if got := fitProgress(c.columns, "enqueueing ready jobs", c.total); got != c.want {
			t.Errorf("%d jobs in %d columns: got %+v, want %+v", c.total, c.columns, got, c.want)
		}
	}
	t.Run("never more than the terminal's columns", func(t *testing.T) {
		for columns := 40; columns < 200; columns++ {
			for _, total := range []int{-1, 1, 1000, 1_000_000} {
				line := fitProgress(columns, "enqueueing scheduled jobs", total)
				text := fmt.Sprintf("%s 100%% |%s| (%d/%d", line.what, strings.Repeat("#", line.bar), max(total, 0), max(total, 0))
				if line.rate {
					text += ", 1234567 jobs/s"
				}
				text += ") "
				if line.times {
					text += "[12m34s:12m34s]"
				}
				if got := terminal.Width(text); got > columns {
					t.Errorf("%d jobs in %d columns: %q has %d", total, columns, text, got)
				}
			}
		}
	})
}

package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/later-queue/later"
)

// LimitText says in words what a limit lets run; "no limit" for the zero value.
func LimitText(l later.Limit) string {
	var parts []string
	switch most, capped := l.Cap(); {
	case l.OnDead == later.DeadBlocks:
		parts = append(parts, "one after the other, and none behind a dead one")
	case l.Ordered:
		parts = append(parts, "one after the other")
	case capped && most == 0:
		parts = append(parts, "none runs")
	case capped:
		parts = append(parts, fmt.Sprintf("at most %d at once", most))
	}
	if l.Rate != (later.Rate{}) {
		verb := "start"
		if l.Rate.N == 1 {
			verb = "starts"
		}
		parts = append(parts, rateText(l.Rate, verb))
	}
	if l.Weight > 0 {
		parts = append(parts, fmt.Sprintf("weight %d", l.Weight))
	}
	if len(parts) == 0 {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}

// rateText says a rate in words: "100 start in 1m", with its bursts.
func rateText(r later.Rate, verb string) string {
	text := fmt.Sprintf("%d %s in %s", r.N, verb, periodText(r.Period))
	if r.Burst > 1 {
		text += fmt.Sprintf(" (bursts of %d)", r.Burst)
	}
	return text
}

// periodText writes a period as briefly as it is exact: 1m, 90s, 1h, 7d, 1.5ms.
func periodText(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d > 0 && d%unit.size == 0 {
			return fmt.Sprintf("%d%s", d/unit.size, unit.name)
		}
	}
	return d.String()
}

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/plot"
)

// picture is a chart in the page: its file's name, and its words for who cannot see it.
type picture struct {
	file, words string
	svg         []byte
}

// bars draws the lanes' rates, the best of a contender's settings first, with how many
// times better the best of ours is.
func bars(file, title string, race *data.Race) picture {
	all := slices.DeleteFunc(lanes(race), func(l *lane) bool { return l.of(rate).median == 0 })
	slices.SortStableFunc(all, func(a, b *lane) int { return cmp.Compare(b.of(rate).median, a.of(rate).median) })
	var best *lane
	rounds := 0
	for _, l := range all {
		rounds = max(rounds, len(l.rounds))
		if best == nil && isOurs(l.contender) {
			best = l
		}
	}
	chart := plot.Bars{Heading: plot.Heading{Title: title, Subtitle: "jobs per second, median and range of " + count(rounds, "round")}}
	if best != nil {
		chart.Subtitle += "; ×: how many times faster the best of ours is"
	}
	for _, l := range all {
		f := l.of(rate)
		bar := plot.Bar{Name: displayName(l.contender), Detail: settingsName(l.settings) + l.circumstances(),
			Ours: isOurs(l.contender), Hollow: l.contender == "floor", Value: f.median, Low: f.low, High: f.high}
		if best != nil && !bar.Ours {
			if r := ratios(best, l, rate); r.n > 0 {
				bar.Note = times(r.median)
			}
		}
		chart.Bars = append(chart.Bars, bar)
	}
	return picture{file: file, words: title, svg: chart.SVG()}
}

// group is the lanes of one contender in one setting, which are one curve.
type group struct {
	plot.Series
	lanes []*lane
}

// groups are the curves of a race. Settings are named only where a contender has
// several; its defaults are dashed then.
func groups(all []*lane) []*group {
	settings := map[string]map[string]bool{}
	for _, l := range all {
		if settings[l.contender] == nil {
			settings[l.contender] = map[string]bool{}
		}
		settings[l.contender][l.settings] = true
	}
	var out []*group
	for _, l := range all {
		c := find(l.contender)
		s := plot.Series{Name: c.name, Colour: c.colour, Dashed: c.dashed}
		if len(settings[l.contender]) > 1 {
			if name := settingsName(l.settings); name != settingsNames["bench"] {
				s.Name += ", " + name
			}
			s.Dashed = s.Dashed || l.settings == "defaults"
		}
		i := slices.IndexFunc(out, func(g *group) bool { return g.Name == s.Name })
		if i < 0 {
			i = len(out)
			out = append(out, &group{Series: s})
		}
		out[i].lanes = append(out[i].lanes, l)
	}
	return out
}

func series(gs []*group) []plot.Series {
	var all []plot.Series
	for _, g := range gs {
		if len(g.Points) > 0 {
			all = append(all, g.Series)
		}
	}
	return all
}

// against draws rates against something that the lanes differ in.
func against(file, title, subtitle string, x plot.Axis, of func(*lane) float64, race *data.Race) picture {
	all := slices.DeleteFunc(lanes(race), func(l *lane) bool { return l.of(rate).median == 0 })
	gs := groups(all)
	for _, g := range gs {
		slices.SortStableFunc(g.lanes, func(a, b *lane) int { return cmp.Compare(of(a), of(b)) })
		for _, l := range g.lanes {
			f := l.of(rate)
			p := plot.Point{X: of(l), Y: f.median}
			if f.n > 1 {
				p.Low, p.High = f.low, f.high
			}
			g.Points = append(g.Points, p)
		}
	}
	chart := plot.Lines{Heading: plot.Heading{Title: title, Subtitle: subtitle}, X: x, Y: plot.Axis{Log: true}, Series: series(gs)}
	return picture{file: file, words: title, svg: chart.SVG()}
}

// leastShown is the left edge of the latencies, in microseconds: below it lies what
// the scheduler of a busy machine does.
const leastShown = 100

// distributions draws latencies: for each share the median over the rounds.
func distributions(file, title, subtitle string, race *data.Race) picture {
	gs := groups(lanes(race))
	for _, g := range gs {
		for _, l := range g.lanes {
			g.Points = append(g.Points, quantiles(l)...)
		}
	}
	chart := plot.Lines{Heading: plot.Heading{Title: title, Subtitle: subtitle}, Inside: true,
		X: plot.Axis{Label: "time from the enqueue's answer to the start of the handler", Log: true, Format: plot.Microseconds, Min: leastShown, Max: 1000},
		Y: plot.Axis{Format: plot.Percent, Max: 1}, Series: series(gs)}
	return picture{file: file, words: title, svg: chart.SVG()}
}

func quantiles(l *lane) []plot.Point {
	at := map[float64][]float64{}
	for _, r := range l.rounds {
		for _, p := range r.Points {
			at[p[0]] = append(at[p[0]], math.Max(p[1], leastShown))
		}
	}
	var points []plot.Point
	for share, values := range at {
		if len(values) == len(l.rounds) { // a share that all rounds could tell
			points = append(points, plot.Point{X: data.Median(values), Y: share})
		}
	}
	slices.SortFunc(points, func(a, b plot.Point) int { return cmp.Compare(a.Y, b.Y) })
	return points
}

// overTime draws a series of the lanes over the time that the snapshot has been held.
func overTime(file, title, subtitle, name string, y plot.Axis, race *data.Race) picture {
	gs := groups(lanes(race))
	x, unit := plot.Axis{Label: "seconds since the snapshot was taken"}, 1.0
	for _, g := range gs {
		for _, l := range g.lanes {
			if c := curve(l, name); len(c) > 0 && c[len(c)-1][0] >= 180 {
				x.Label, unit = "minutes since the snapshot was taken", 60
			}
		}
	}
	for _, g := range gs {
		for _, l := range g.lanes {
			c := curve(l, name)
			for _, p := range c[:max(0, len(c)-1)] { // the last step may not be whole
				g.Points = append(g.Points, plot.Point{X: p[0] / unit, Y: p[1]})
			}
		}
	}
	chart := plot.Lines{Heading: plot.Heading{Title: title, Subtitle: subtitle}, X: x, Y: y, Series: series(gs)}
	return picture{file: file, words: title, svg: chart.SVG()}
}

// times writes a ratio with two digits, rounded down: a goal that was missed by a
// little must not look reached.
func times(v float64) string {
	switch {
	case v >= 10:
		return fmt.Sprintf("%.0f×", math.Floor(v+1e-9))
	case v >= 1:
		return fmt.Sprintf("%.1f×", math.Floor(v*10+1e-9)/10)
	}
	return fmt.Sprintf("%.2f×", math.Floor(v*100+1e-9)/100)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

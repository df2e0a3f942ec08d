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
	all := featured(lanes(race), rate, true)
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

// unequal is the setting that promises less than the others of its race. It is shown
// beside them, and does not stand for its contender.
const unequal = "normal"

// featured are the lanes that a picture shows; the tables show all. They are all of
// ours, each other contender's best, and its defaults too where usual is true; River's
// always, as goals are about them.
func featured(all []*lane, m metric, usual bool) []*lane {
	best := map[string]*lane{}
	for _, l := range all {
		if best[l.contender] == nil {
			best[l.contender] = pick{contenders: []string{l.contender}, except: unequal}.best(all, m)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(l *lane) bool {
		if l.of(m).high == 0 {
			return true
		}
		defaults := l.settings == "defaults" && l.server != "redis-always" && (usual || l.contender == "river")
		return !isOurs(l.contender) && l != best[l.contender] && !defaults && l.settings != unequal
	})
}

// group is the lanes of one contender in one setting, which are one curve.
type group struct {
	plot.Series
	lanes []*lane
}

// groups are the curves of a race. Settings are named only where a contender has
// several curves: ours all, and the others' defaults, which are dashed.
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
			if isOurs(l.contender) || l.settings == "defaults" {
				s.Name += ", " + settingsName(l.settings)
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

// leastShown is the lower edge of the latencies, in microseconds: below it lies what
// the scheduler of a busy machine does.
const leastShown = 100

// distributions draws latencies against the share of jobs that started within them:
// a cumulative distribution laid on its side, with the nines at equal distances, so
// that the tail is seen and each curve ends in a place of its own. For each share it is the
// median over the rounds.
func distributions(file, title string, race *data.Race) picture {
	gs := groups(featured(lanes(race), p50, false))
	for _, g := range gs {
		for _, l := range g.lanes {
			g.Points = append(g.Points, quantiles(l)...)
		}
	}
	share := func(x float64) string { return plot.Percent(1 - math.Pow(10, -x)) }
	chart := plot.Lines{Heading: plot.Heading{Title: title, Subtitle: "from the enqueue's answer to the start of the handler; lower is better"},
		X: plot.Axis{Label: "share of jobs that have started within the time", Format: share, Ticks: []float64{0, nines(0.5), 1, 2, 3}},
		Y: plot.Axis{Log: true, Format: plot.Microseconds, Min: leastShown, Max: 1000}, Series: series(gs)}
	return picture{file: file, words: title, svg: chart.SVG()}
}

// nines is the place of a share: 0.9 is at 1, 0.99 at 2.
func nines(share float64) float64 { return -math.Log10(1 - share) }

// mostNines is the right end: beyond it a few single jobs decide.
const mostNines = 3.0

func quantiles(l *lane) []plot.Point {
	at := map[float64][]float64{}
	for _, r := range l.rounds {
		for _, p := range r.Points {
			at[p[0]] = append(at[p[0]], math.Max(p[1], leastShown))
		}
	}
	var points []plot.Point
	for share, values := range at {
		// A share that all rounds could tell.
		if x := nines(share); len(values) == len(l.rounds) && x <= mostNines+1e-9 {
			points = append(points, plot.Point{X: x, Y: data.Median(values)})
		}
	}
	slices.SortFunc(points, func(a, b plot.Point) int { return cmp.Compare(a.X, b.X) })
	return points
}

// overTime draws a series of the lanes over the time that the snapshot has been held.
func overTime(file, title, subtitle, name string, y plot.Axis, race *data.Race) picture {
	gs := groups(featured(lanes(race), rate, false))
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

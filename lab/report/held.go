package report

import (
	"fmt"

	"github.com/later-queue/later/lab/data"
)

// What counts as flat under a held snapshot: at the end the workers still do what is
// enqueued, and a job costs the server at most the budget's 1.3 times what it did at
// the beginning. Chosen: 3% for the noise of a machine with other work.
const (
	flatRate = 0.97
	flatCPU  = 1.3
)

// flat is what became of the goal under a held snapshot.
type flat struct {
	lane *lane
	kept float64 // jobs done of jobs enqueued, in the last fifth of the time
	cost float64 // server CPU per job in the last fifth, by that in the first; 0 if unknown
}

func (f flat) known() bool   { return f.lane != nil }
func (f flat) reached() bool { return f.known() && f.kept >= flatRate && f.cost <= flatCPU }

func (f flat) String() string {
	if !f.known() {
		return "not measured"
	}
	s := fmt.Sprintf("%.0f%% of the rate kept", f.kept*100)
	if f.cost > 0 {
		s += fmt.Sprintf(", CPU per job %.2f× at the end", f.cost)
	}
	return s
}

// judgeFlat looks at the curves of ours, at its defaults.
func judgeFlat(races map[string]*data.Race) flat {
	race := races["held"]
	if race == nil {
		return flat{}
	}
	l := oursDefaults.best(lanes(race), rate)
	if l == nil {
		return flat{}
	}
	done, acked, cpu := curve(l, "done"), curve(l, "acked"), curve(l, "server_cpu_us")
	enqueued := fifth(acked, 4)
	if enqueued == 0 {
		return flat{}
	}
	f := flat{lane: l, kept: fifth(done, 4) / enqueued}
	if first := fifth(cpu, 0); first > 0 {
		f.cost = fifth(cpu, 4) / first
	}
	return f
}

// curve is a series of the lane: the median over its rounds, point by point, as far as
// all rounds reach.
func curve(l *lane, name string) []data.Point {
	var points []data.Point
	for i := 0; ; i++ {
		var xs, ys []float64
		for _, r := range l.rounds {
			if series := r.Series[name]; i < len(series) {
				xs, ys = append(xs, series[i][0]), append(ys, series[i][1])
			}
		}
		if len(xs) == 0 || len(xs) < len(l.rounds) {
			return points
		}
		points = append(points, data.Point{data.Median(xs), data.Median(ys)})
	}
}

// fifth is the median of one fifth of a curve, the first being 0. The last point is
// left out: its step may not be whole.
func fifth(points []data.Point, which int) float64 {
	if len(points) < 6 {
		return 0
	}
	points = points[:len(points)-1]
	var values []float64
	for _, p := range points[len(points)*which/5 : len(points)*(which+1)/5] {
		values = append(values, p[1])
	}
	return data.Median(values)
}

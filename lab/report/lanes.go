package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/later-queue/later/lab/data"
)

// lane is one contender in one setting in one race, with the rounds that it ended.
type lane struct {
	contender, settings, server, condition string
	processes                              int

	rounds []data.Round
	// failed is why rounds have no figures; "" when all have.
	failed string
	note   string
}

// lanes are those of a race, in a fixed order: rounds come shuffled.
func lanes(race *data.Race) []*lane {
	var all []*lane
	for _, r := range race.Rounds {
		i := slices.IndexFunc(all, func(l *lane) bool {
			return l.contender == r.Contender && l.settings == r.Settings && l.server == r.Server &&
				l.condition == r.Condition && l.processes == r.Processes
		})
		if i < 0 {
			i = len(all)
			all = append(all, &lane{contender: r.Contender, settings: r.Settings, server: r.Server,
				condition: r.Condition, processes: r.Processes, note: r.Note})
		}
		if r.Error != "" {
			all[i].failed = r.Error
			continue
		}
		all[i].rounds = append(all[i].rounds, r)
	}
	for _, l := range all {
		slices.SortStableFunc(l.rounds, func(a, b data.Round) int { return cmp.Compare(a.Round, b.Round) })
	}
	slices.SortStableFunc(all, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(rank(a.contender), rank(b.contender)), cmp.Compare(a.contender, b.contender),
			cmp.Compare(rankOfSettings(a.settings), rankOfSettings(b.settings)), cmp.Compare(a.settings, b.settings),
			cmp.Compare(a.server, b.server), cmp.Compare(a.processes, b.processes), cmp.Compare(a.backlog(), b.backlog()),
			cmp.Compare(a.condition, b.condition))
	})
	return all
}

func (l *lane) backlog() int64 {
	if len(l.rounds) == 0 {
		return 0
	}
	return l.rounds[0].Backlog
}

// figure is a value over the rounds.
type figure struct {
	median, low, high float64
	n                 int
}

func summary(values []float64) figure {
	f := figure{median: data.Median(values), n: len(values)}
	f.low, f.high = data.Spread(values)
	return f
}

// of is a value over the lane's rounds.
func (l *lane) of(m metric) figure {
	var values []float64
	for _, r := range l.rounds {
		values = append(values, m.value(r))
	}
	return summary(values)
}

// metric is what a goal or a column is about.
type metric struct {
	name  string
	value func(data.Round) float64
	// less says that less of it is better.
	less bool
}

var (
	rate      = metric{"jobs per second", func(r data.Round) float64 { return r.Rate }, false}
	p50       = metric{"p50", func(r data.Round) float64 { return r.P50 }, true}
	p99       = metric{"p99", func(r data.Round) float64 { return r.P99 }, true}
	serverCPU = metric{"server CPU per job", func(r data.Round) float64 { return r.ServerCPU }, true}
	clientCPU = metric{"client CPU per job", func(r data.Round) float64 { return r.ClientCPU }, true}
	walBytes  = metric{"WAL per job", func(r data.Round) float64 { return r.WALBytes }, true}
	wholeWAL  = metric{"WAL per job, enqueue included", func(r data.Round) float64 { return r.EnqueueWAL + r.WALBytes }, true}
	commits   = metric{"commits per job", func(r data.Round) float64 { return r.Commits }, true}
	memory    = metric{"memory", func(r data.Round) float64 { return float64(r.MaxMemoryBytes) / (1 << 20) }, true}
)

// leastLatency stands in for a latency of 0 in a ratio: the files of the race count
// microseconds, and a handler may start before the enqueue's answer has arrived.
const leastLatency = 1.0

// ratios are how many times better a is than b, round by round: rounds of one number
// ran close to each other, so they had the same machine.
func ratios(a, b *lane, m metric) figure {
	var all []float64
	for _, x := range a.rounds {
		for _, y := range b.rounds {
			if x.Round != y.Round {
				continue
			}
			p, q := m.value(x), m.value(y)
			if m.less {
				p, q = q, p
				if m.name == p50.name || m.name == p99.name {
					p, q = math.Max(p, leastLatency), math.Max(q, leastLatency)
				}
			}
			if q > 0 {
				all = append(all, p/q)
			}
		}
	}
	return summary(all)
}

// lost is how much less the second of two rates is than the first, in percent, where f is how
// many times better the first is.
func (f figure) lost() figure {
	percent := func(times float64) float64 { return 100 * (1 - 1/times) }
	return figure{median: percent(f.median), low: percent(f.low), high: percent(f.high), n: f.n}
}

// title is the lane in words.
func (l *lane) title() string {
	s := displayName(l.contender)
	if l.settings != "" {
		s += ", " + settingsName(l.settings)
	}
	return s + l.circumstances()
}

// circumstances are what a contender's name and settings do not say.
func (l *lane) circumstances() string {
	s := ""
	if where, ok := serverNames[l.server]; ok {
		s += ", " + where
	}
	if l.processes > 1 {
		s += fmt.Sprintf(", %d processes", l.processes)
	}
	return s
}

var serverNames = map[string]string{
	"redis-everysec": "everysec",
	"redis-always":   "always",
}

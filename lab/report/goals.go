package report

import (
	"slices"

	"github.com/later-queue/later/lab/data"
)

// goal is one goal of the project's races: ours against the best of some peers'
// lanes.
type goal struct {
	// id names the note that says what stands in the way: goal-ID.md.
	id string
	// text is the goal in words, without its number.
	text string
	// races are where both may be found; the first that has both counts, since only
	// figures of one race may be compared.
	races  []string
	ours   pick
	peer   pick
	metric metric
	// atLeast is how many times better ours should be.
	atLeast float64
}

// pick chooses lanes. Empty fields choose all.
type pick struct {
	contenders []string
	settings   []string
	server     string
	except     string // a setting
}

func (p pick) takes(l *lane) bool {
	return (len(p.contenders) == 0 && !isOurs(l.contender) && !find(l.contender).reference || slices.Contains(p.contenders, l.contender)) &&
		(len(p.settings) == 0 || slices.Contains(p.settings, l.settings)) &&
		(p.except == "" || p.except != l.settings) &&
		(p.server == "" || p.server == l.server) && len(l.rounds) > 0
}

// best is the lane with the best median among those that p takes; nil of none.
func (p pick) best(all []*lane, m metric) *lane {
	var best *lane
	for _, l := range all {
		if !p.takes(l) || l.of(m).median == 0 && !m.less {
			continue
		}
		if best == nil || (l.of(m).median < best.of(m).median) == m.less && l.of(m).median != best.of(m).median {
			best = l
		}
	}
	return best
}

func peer(settings string, contenders ...string) pick {
	p := pick{contenders: contenders}
	if settings != "" {
		p.settings = []string{settings}
	}
	return p
}

var (
	oursTuned    = peer("tuned", "ours")
	oursDefaults = peer("defaults", "ours")
	drains       = []string{"drain", "redis", "processes"}
)

// goals are the races' goals, in the order of the page.
var goals = []goal{
	{"river", "drain, against River at its benchmark settings", drains, oursTuned, peer("bench", "river"), rate, 6},
	{"river-defaults", "… both at their defaults", drains, oursDefaults, peer("defaults", "river"), rate, 30},
	{"graphile", "drain, against Graphile Worker with local queue and batches, its best number of processes", drains, oursTuned, peer("bench", "graphile"), rate, 5},
	{"graphile-defaults", "… both at their defaults", drains, oursDefaults, peer("defaults", "graphile"), rate, 30},
	{"pgboss", "drain, against pg-boss in batches of 100", drains, oursTuned, peer("bench", "pgboss"), rate, 6},
	{"plainsql", "drain, against a plain UPDATE-then-DELETE queue in SQL, batches of 100", drains, oursTuned, peer("", "plainsql"), rate, 2},
	{"pgq", "drain, against PgQ, which keeps no state for each job", drains, oursTuned, peer("", "pgq"), rate, 0.8},
	{"asynq", "drain, against Asynq on Redis, `everysec`", drains, oursTuned,
		pick{contenders: []string{"asynq"}, server: "redis-everysec"}, rate, 8},
	{"bullmq", "drain, against BullMQ on Redis, `everysec`", drains, oursTuned,
		pick{contenders: []string{"bullmq-redis"}, server: "redis-everysec"}, rate, 8},
	{"defaults", "drain, ours at its defaults, against ours tuned", drains, oursDefaults, oursTuned, rate, 0.8},
	{"singles-river", "enqueue one by one from 100 goroutines, against River's single insert", []string{"singles"}, oursDefaults, peer("", "river"), rate, 10},
	{"singles-gue", "… against gue's", []string{"singles"}, oursDefaults, peer("", "gue"), rate, 10},
	{"steady-p50", "2,000 jobs a second, commit to start, p50, both at their defaults, against River", []string{"steady"}, oursDefaults, peer("defaults", "river"), p50, 5},
	{"steady-p99", "… p99", []string{"steady"}, oursDefaults, peer("defaults", "river"), p99, 5},
	{"trickle-p50", "one job at a time into an idle system, p50, against the best of all peers", []string{"trickle"}, oursDefaults, pick{}, p50, 1},
	{"trickle-p99", "… p99", []string{"trickle"}, oursDefaults, pick{}, p99, 1},
	{"goqite", "drain on SQLite, against goqite", []string{"sqlite"}, peer("tuned", "ours-sqlite"),
		pick{contenders: []string{"goqite"}, except: unequal}, rate, 8},
	{"riversqlite", "… against River's SQLite driver", []string{"sqlite"}, peer("tuned", "ours-sqlite"), peer("", "riversqlite"), rate, 3},
}

// verdict is what became of a goal.
type verdict struct {
	goal
	race       string
	ours, peer *lane // nil when the race has not been run with both
	ratio      figure
	// atDefaults is the ratio of ours at its defaults, where ours is tuned.
	atDefaults figure
}

func (v verdict) known() bool   { return v.ratio.n > 0 }
func (v verdict) reached() bool { return v.known() && v.ratio.median >= v.atLeast }

// judge compares a goal with the races.
func (g goal) judge(races map[string]*data.Race) verdict {
	v := verdict{goal: g}
	for _, name := range g.races {
		race := races[name]
		if race == nil {
			continue
		}
		all := lanes(race)
		ours, peer := g.ours.best(all, g.metric), g.peer.best(all, g.metric)
		if ours == nil || peer == nil {
			continue
		}
		if r := ratios(ours, peer, g.metric); r.n > 0 {
			v.race, v.ours, v.peer, v.ratio = name, ours, peer, r
			usual := pick{contenders: g.ours.contenders, settings: []string{"defaults"}}.best(all, g.metric)
			if usual != nil && usual.settings != ours.settings && usual != peer {
				v.atDefaults = ratios(usual, peer, g.metric)
			}
			return v
		}
	}
	return v
}

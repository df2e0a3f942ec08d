package report

import (
	"fmt"
	"math"

	"github.com/later-queue/later/lab/data"
)

// budget is one line of the budgets: a figure of ours, or its ratio to another
// condition's, which may not be more than a limit.
type budget struct {
	id, text string
	race     string
	ours     spot
	// over is what the figure is divided by, round by round; nil leaves it as it is.
	over   *spot
	metric metric
	limit  float64
	unit   string
	// lost says that the figure is how much of over's is lost, in percent.
	lost bool
}

// spot is a lane with its condition.
type spot struct{ contender, settings, condition string }

func (s spot) find(all []*lane) *lane {
	for _, l := range all {
		if l.contender == s.contender && l.settings == s.settings && l.condition == s.condition && len(l.rounds) > 0 {
			return l
		}
	}
	return nil
}

var (
	plain  = spot{"ours", "tuned", "plain"}
	floor  = spot{"floor", "defaults", "plain"}
	capped = spot{"ours", "tuned", "capped"}
)

// budgets are those that a run at full size shows. The ones that are counted by tests
// alone are in the note "counted".
var budgets = []budget{
	{"wal", "WAL per job, enqueue + claim + settle, log off", "budgets", plain, nil, wholeWAL, 650, "B", false},
	{"wal-log", "… log on", "budgets", spot{"ours", "logged", "plain"}, nil, wholeWAL, 900, "B", false},
	{"commits", "commits per job in a saturated drain", "drain", spot{"ours", "tuned", ""}, nil, commits, 0.02, "", false},
	{"cpu", "server CPU per job, against the floor in the same run", "budgets", plain, &floor, serverCPU, 1.5, "×", false},
	{"cpu-held", "… while another transaction holds an old snapshot and 1 million jobs have been done under it, against without", "budgets", spot{"ours", "tuned", "held"}, &plain, serverCPU, 1.3, "×", false},
	{"cpu-ready", "… with 10 million ready jobs waiting, against without", "budgets", spot{"ours", "tuned", "ready"}, &plain, serverCPU, 1.3, "×", false},
	{"cpu-scheduled", "… with 10 million jobs scheduled for next week, against without", "budgets", spot{"ours", "tuned", "scheduled"}, &plain, serverCPU, 1.1, "×", false},
	{"cpu-tenants", "… with 10,000 tenants, against without", "budgets", spot{"ours", "tuned", "tenants"}, &plain, serverCPU, 3, "×", false},
	{"cpu-capped", "… with 10,000 tenants, each with a cap of 5 and 100 jobs waiting, against the floor in the same run", "budgets", capped, &floor, serverCPU, 2.5, "×", false},
	{"rate-capped-held", "rate that a drain with such caps loses after ten minutes of work while another transaction holds an old snapshot, against without", "budgets", spot{"ours", "tuned", "capped, held"}, &capped, rate, 30, "%", true},
	{"light", "a light tenant's wait beside a tenant with 1 million waiting jobs, p99, against alone, ours at its defaults", "light", spot{"ours", "defaults", "beside"}, &spot{"ours", "defaults", "alone"}, p99, 5, "×", false},
	{"light-tuned", "… ours tuned", "light", spot{"ours", "tuned", "beside"}, &spot{"ours", "tuned", "alone"}, p99, 5, "×", false},
	{"memory", "memory of a worker process at 1,000 running jobs", "budgets", spot{"ours", "tuned", "memory"}, nil, memory, 64, "MiB", false},
}

// measured is a budget with what was measured.
type measured struct {
	budget
	figure
}

func (m measured) known() bool { return m.n > 0 }
func (m measured) kept() bool  { return m.known() && m.median <= m.limit }

func (m measured) String() string {
	if !m.known() {
		return "not measured"
	}
	digits := 2
	switch {
	case m.median >= 100:
		digits = 0
	case math.Abs(m.median) < 0.1:
		digits = 4
	case m.median >= 10:
		digits = 1
	}
	return fmt.Sprintf("%.*f%s (%.*f–%.*f)", digits, m.median, unit(m.unit), digits, m.low, digits, m.high)
}

func unit(u string) string {
	if u == "" || u == "×" || u == "%" {
		return u
	}
	return " " + u
}

func (b budget) measure(races map[string]*data.Race) measured {
	m := measured{budget: b}
	race := races[b.race]
	if race == nil {
		return m
	}
	all := lanes(race)
	l := b.ours.find(all)
	if l == nil || l.of(b.metric).high == 0 {
		return m
	}
	if b.over == nil {
		m.figure = l.of(b.metric)
		return m
	}
	if under := b.over.find(all); under != nil {
		// ratios says how many times better the first is, and less is better here.
		m.figure = ratios(under, l, b.metric)
		if b.lost {
			m.figure = m.figure.lost()
		}
	}
	return m
}

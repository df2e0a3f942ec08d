package report

import (
	"slices"

	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/plot"
)

// section is the part of the page about one race.
type section struct {
	race, title string
	pictures    func(*data.Race) []picture
	columns     []column
}

// sections are in the order of the page. A race that is not among them gets a table
// and a name of its own at the end.
var sections = []section{
	{"drain", "Drain on Postgres", func(r *data.Race) []picture {
		return []picture{bars("drain.svg", "Drain of a backlog, Postgres", r)}
	}, drainColumns},
	{"redis", "Drain, beside Redis", func(r *data.Race) []picture {
		return []picture{bars("redis.svg", "Drain of a backlog, Postgres beside Redis", r)}
	}, drainColumns},
	{"backlog", "Throughput against backlog", func(r *data.Race) []picture {
		return []picture{against("backlog.svg", "Throughput against backlog", "jobs per second when so many are ready; band: range of the rounds",
			plot.Axis{Label: "jobs that are ready", Log: true}, func(l *lane) float64 { return float64(l.backlog()) }, r)}
	}, []column{colContender, colBacklog, colRate, colCPU, colClientCPU}},
	{"processes", "Throughput against processes", func(r *data.Race) []picture {
		return []picture{against("processes.svg", "Throughput against processes", "jobs per second of all work processes together; band: range of the rounds",
			plot.Axis{Label: "work processes", Log: true, Ticks: numbersOfProcesses(r)}, func(l *lane) float64 { return float64(l.processes) }, r)}
	}, []column{colContender, colRate, colCPU, colClientCPU}},
	{"singles", "Enqueue one by one", func(r *data.Race) []picture {
		return []picture{bars("singles.svg", "Enqueue, one job per call, 100 callers", r)}
	}, []column{colContender, colRate, colCPU, colWAL, colCommits, colNote}},
	{"steady", "Latency under load", func(r *data.Race) []picture {
		return []picture{distributions("steady.svg", "Latency at 2,000 jobs a second", r)}
	}, latencyColumns},
	{"trickle", "Latency into an idle system", func(r *data.Race) []picture {
		return []picture{distributions("trickle.svg", "Latency of one job at a time, 50 ms apart", r)}
	}, latencyColumns},
	{"light", "A light tenant beside a heavy one", func(r *data.Race) []picture {
		return []picture{
			distributions("light-beside.svg", "Wait of a light tenant beside another's 1 million jobs", under(r, "beside")),
			distributions("light-alone.svg", "Wait of the same tenant, alone", under(r, "alone")),
		}
	}, []column{colContender, colCondition, colP50, colP90, colP99, colMissing, colRate, colNote}},
	{"held", "While another transaction holds an old snapshot", func(r *data.Race) []picture {
		return []picture{
			overTime("held-rate.svg", "Throughput under a held snapshot", "jobs started per second, of 2,000 enqueued per second", "done", plot.Axis{}, r),
			overTime("held-cpu.svg", "Cost of a job under a held snapshot", "server CPU per job; lower is better", "server_cpu_us", plot.Axis{Log: true, Format: plot.Microseconds}, r),
			overTime("held-latency.svg", "Latency under a held snapshot", "p99 of the time from enqueue to start; lower is better", "p99_us", plot.Axis{Log: true, Format: plot.Microseconds, Min: 1000, Max: 1e5}, r),
		}
	}, []column{colContender, colRate, colP50, colP99, colMissing, colNote}},
	{"sqlite", "Drain on SQLite", func(r *data.Race) []picture {
		return []picture{bars("sqlite.svg", "Drain of a backlog, SQLite", r)}
	}, []column{colContender, colRate, colClientCPU, colMemory, colNote}},
	{"budgets", "What a job costs the server", nil,
		[]column{colContender, colCondition, colRate, colCPU, colEnqueueWAL, colWAL, colMemory, colNote}},
}

var (
	drainColumns   = []column{colContender, colRate, colCPU, colClientCPU, colWAL, colCommits, colMemory, colNote}
	latencyColumns = []column{colContender, colP50, colP90, colP99, colP999, colCPU, colMissing, colNote}
)

// under is the race with the rounds of one condition.
func under(r *data.Race, condition string) *data.Race {
	some := *r
	some.Rounds = slices.DeleteFunc(slices.Clone(r.Rounds), func(r data.Round) bool { return r.Condition != condition })
	return &some
}

// numbersOfProcesses are those that the race has, in order.
func numbersOfProcesses(r *data.Race) []float64 {
	var all []float64
	for _, l := range lanes(r) {
		all = append(all, float64(l.processes))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/later-queue/later/internal/bench"
	"github.com/later-queue/later/internal/terminal"
)

// printBench prints what a benchmark has found.
func (a *App) printBench(r *bench.Report) error {
	if a.flags.json {
		return a.printJSON(r)
	}
	width, _ := terminal.Size(a.Out)
	lines := a.benchHead(r, width)
	if len(r.Phases) > 0 {
		rates := a.benchRates(r)
		lines = append(append(lines, ""), rates.Lines(width, a.palette.Head)...)
		if t := a.benchLatencies(r); t.Len() > 0 {
			lines = append(append(lines, ""), t.Lines(width, a.palette.Head)...)
		}
		lines = append(append(lines, ""), benchLegend(rates.Lines(width, nil)[0], width)...)
		if t := a.benchVerdicts(r); t.Len() > 0 {
			lines = append(append(lines, ""), t.Lines(width, a.palette.Head)...)
		}
	}
	lines = append(lines, a.benchWarnings(r, width)...)
	return a.printf("%s\n", strings.Join(lines, "\n"))
}

func (a *App) benchHead(r *bench.Report, width int) (lines []string) {
	engine := "SQLite " + r.Server.Version
	if r.Database == "postgres" {
		engine = "PostgreSQL " + r.Server.Version
	}
	s := r.Settings
	for _, line := range hanging("", terminal.Safe(engine+" at "+r.URL), width) {
		lines = append(lines, a.palette.Strong(line))
	}
	add := func(format string, args ...any) {
		lines = append(lines, hanging("  ", terminal.Safe(fmt.Sprintf(format, args...)), width)...)
	}
	add("%s, %s x %s; payload %d bytes, job log %s%s", plural(r.Machine.CPUs, "CPU here", "CPUs here"),
		plural(s.Workers, "worker", "workers"), plural(s.Concurrency, "slot", "slots"), s.PayloadBytes, onOff(s.Log), spread(s))
	if n := r.Waiting; n.Ready+n.Scheduled > 0 {
		add("beside them wait %d ready jobs of another kind, %d jobs for next week", n.Ready, n.Scheduled)
	}
	if s.HoldSnapshot {
		add("%s", held(r))
	}
	if len(r.Server.Settings) > 0 {
		add("%s", benchSettings(r))
	}
	if trip := r.Server.RoundTripUS; trip != nil {
		add("a round trip to the server takes %s", milliseconds(*trip/1000))
	}
	return lines
}

// held says in which phases a snapshot was held.
func held(r *bench.Report) string {
	var names []string
	for _, p := range r.Phases {
		if p.SnapshotHeld {
			names = append(names, string(p.Name))
		}
	}
	if len(names) == 0 {
		return "an old snapshot was to be held, but no phase with it has ended"
	}
	return "an old snapshot was held during " + strings.Join(names, ", ")
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func spread(s bench.Settings) string {
	var b strings.Builder
	for _, part := range []struct {
		n    int
		most int
		what string
	}{{s.Kinds, 1, "kinds"}, {s.Tenants, 0, "tenants"}, {s.Priorities, 1, "priorities"}} {
		if part.n > part.most {
			fmt.Fprintf(&b, ", %d %s", part.n, part.what)
		}
	}
	return b.String()
}

// benchSettings are the server's settings that decide about the figures.
func benchSettings(r *bench.Report) string {
	s := r.Server.Settings
	var parts []string
	for _, name := range []string{"synchronous_commit", "fsync", "full_page_writes", "shared_buffers", "journal_mode", "synchronous"} {
		if value, ok := s[name]; ok {
			if name == "synchronous" {
				value = map[string]string{"0": "off", "1": "normal", "2": "full", "3": "extra"}[value]
			}
			parts = append(parts, name+" "+value)
		}
	}
	if r.Server.Pooler != "" && r.Server.Pooler != "none" {
		parts = append(parts, "a pooler in "+r.Server.Pooler+" mode")
	}
	return strings.Join(parts, ", ")
}

// benchColumns are the figures of a phase; a column without any is left out. The
// numbers order what goes first where the terminal is too narrow.
var benchColumns = []struct {
	title  string
	drop   int
	text   func(p *bench.Result) string
	legend string
}{
	{"jobs", 0, func(p *bench.Result) string { return strconv.FormatInt(p.Jobs, 10) }, ""},
	{"jobs/s", 0, func(p *bench.Result) string { return grouped(p.Rate) }, ""},
	{"server", 6, func(p *bench.Result) string { return known(p.Cost.ServerCPU, "%.1f µs") },
		"CPU time of a job in all processes of the database server"},
	{"client", 7, func(p *bench.Result) string { return known(p.Cost.ClientCPU, "%.1f µs") },
		"CPU time of a job in this process: who enqueues, and the workers"},
	{"busy", 1, busy, "this process, of one CPU; at 100% of each CPU here it is the limit"},
	{"WAL", 5, func(p *bench.Result) string { return known(p.Cost.WAL, "%.0f B") }, "bytes of the server's write-ahead log for a job"},
	{"written", 8, func(p *bench.Result) string { return known(p.Cost.Written, "%.0f B") }, "bytes written to files for a job"},
	{"commits", 4, func(p *bench.Result) string { return known(p.Cost.Commits, "%.4f") },
		"of the database for a job; each waits for the disk"},
	{"HOT", 3, func(p *bench.Result) string { return percent(p.Cost.HOT) }, "updates of jobs that write no index"},
	{"dead", 2, func(p *bench.Result) string { return count(p.Cost.DeadRows) }, "rows in the job table at the end, until a vacuum"},
}

func (a *App) benchRates(r *bench.Report) *terminal.Table {
	columns := []terminal.Column{{Title: "phase"}}
	rows := make([][]string, len(r.Phases))
	for i, p := range r.Phases {
		rows[i] = []string{string(p.Name)}
	}
	for _, c := range benchColumns {
		texts, some := make([]string, len(r.Phases)), false
		for i, p := range r.Phases {
			texts[i] = c.text(p)
			some = some || texts[i] != ""
		}
		if !some {
			continue
		}
		columns = append(columns, terminal.Column{Title: c.title, Right: true, Drop: c.drop})
		for i := range rows {
			rows[i] = append(rows[i], texts[i])
		}
	}
	t := terminal.NewTable(columns...)
	for _, row := range rows {
		t.Row(row...)
	}
	return t
}

// benchLegend says what the columns mean that are in the table's head.
func benchLegend(head string, width int) (lines []string) {
	shown := strings.Fields(head)
	for _, c := range benchColumns {
		if c.legend != "" && slices.Contains(shown, c.title) {
			lines = append(lines, hanging(fmt.Sprintf("  %-8s ", c.title), c.legend, width)...)
		}
	}
	return lines
}

// busy is how much of one CPU this process used.
func busy(p *bench.Result) string {
	if p.Cost.ClientCPU == nil || p.DurationMS == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%%", *p.Cost.ClientCPU*float64(p.Jobs)/p.DurationMS/10)
}

func (a *App) benchLatencies(r *bench.Report) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Title: "phase"}, terminal.Column{Title: "time"},
		terminal.Column{Title: "p50", Right: true}, terminal.Column{Title: "p90", Right: true, Drop: 1},
		terminal.Column{Title: "p99", Right: true}, terminal.Column{Title: "max", Right: true})
	for _, p := range r.Phases {
		for _, l := range []struct {
			what string
			*bench.Latency
		}{{"call of Enqueue", p.Call}, {"enqueued to started", p.Start}} {
			if l.Latency != nil {
				t.Row(string(p.Name), l.what, milliseconds(l.P50), milliseconds(l.P90), milliseconds(l.P99), milliseconds(l.Max))
			}
		}
	}
	return t
}

func (a *App) benchWarnings(r *bench.Report, width int) []string {
	var lines []string
	const mark = "! "
	warn := func(text string) {
		wrapped := hanging(mark, terminal.Safe(text), width)
		wrapped[0] = a.palette.Warn(mark) + strings.TrimPrefix(wrapped[0], mark)
		lines = append(lines, wrapped...)
	}
	for _, w := range r.Warnings {
		warn(w)
	}
	for _, p := range r.Phases {
		for _, n := range p.Notes {
			warn(string(p.Name) + ": " + n)
		}
	}
	for _, l := range r.Leftovers {
		switch {
		case l.InUse:
			warn(fmt.Sprintf("another benchmark runs at the same time (%s): both are slower than alone", l.Name))
		case l.Foreign:
			warn(fmt.Sprintf("an earlier run has left %s (%d MB): later bench --clean removes it when %s runs it, its owner", l.Name, l.Bytes>>20, l.Owner))
		default:
			warn(fmt.Sprintf("an earlier run has left %s (%d MB): later bench --clean removes it", l.Name, l.Bytes>>20))
		}
	}
	if !r.Complete {
		warn("not complete: only phases that have ended are shown")
	}
	if len(lines) > 0 {
		lines = append([]string{""}, lines...)
	}
	return lines
}

func known(n *float64, format string) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf(format, *n)
}

func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", math.Floor(*share*1000)/10) // 100% is all of them
}

func count(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// milliseconds is a time for people, with three digits.
func milliseconds(ms float64) string {
	switch {
	case ms >= 1000:
		return fmt.Sprintf("%.2f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

// grouped is a whole number with its thousands apart.
func grouped(n float64) string {
	digits := strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

package report

import (
	"fmt"
	"strings"

	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/plot"
)

// column is one column of a race's table.
type column struct {
	head string
	cell func(*lane) string
}

// number is a column with the median of a value; 0 says that it does not apply.
func number(head string, m metric, format func(float64) string) column {
	return column{head, func(l *lane) string {
		f := l.of(m)
		if f.high == 0 {
			return ""
		}
		return format(f.median)
	}}
}

func fixed(digits int) func(float64) string {
	return func(v float64) string { return fmt.Sprintf("%.*f", digits, v) }
}

func latency(head string, value func(data.Round) float64) column {
	return column{head, func(l *lane) string {
		f := l.of(metric{value: value})
		if f.high == 0 {
			return ""
		}
		return fmt.Sprintf("%s (%s–%s)", plot.Microseconds(f.median), plot.Microseconds(f.low), plot.Microseconds(f.high))
	}}
}

var (
	colContender = column{"", func(l *lane) string {
		if isOurs(l.contender) {
			return "**" + l.title() + "**"
		}
		return l.title()
	}}
	colCondition = column{"condition", func(l *lane) string { return l.condition }}
	colBacklog   = column{"ready", func(l *lane) string { return plot.Number(float64(l.backlog())) }}
	colRate      = column{"jobs/s (range)", func(l *lane) string {
		f := l.of(rate)
		if f.high == 0 {
			return ""
		}
		return fmt.Sprintf("%s (%s–%s)", plot.Number(f.median), plot.Number(f.low), plot.Number(f.high))
	}}
	colCPU        = number("server CPU, µs/job", serverCPU, fixed(1))
	colClientCPU  = number("client CPU, µs/job", clientCPU, fixed(1))
	colWAL        = number("WAL, B/job", walBytes, fixed(0))
	colEnqueueWAL = number("WAL of the enqueue, B/job", metric{value: func(r data.Round) float64 { return r.EnqueueWAL }}, fixed(0))
	colCommits    = number("commits/job", commits, fixed(3))
	colMemory     = number("memory, MiB", memory, fixed(0))
	colP50        = latency("p50 (range)", func(r data.Round) float64 { return r.P50 })
	colP90        = latency("p90", func(r data.Round) float64 { return r.P90 })
	colP99        = latency("p99 (range)", func(r data.Round) float64 { return r.P99 })
	colP999       = latency("p99.9", func(r data.Round) float64 { return r.P999 })
	colMissing    = number("never started", metric{value: func(r data.Round) float64 { return float64(r.Missing) }}, fixed(0))
	colNote       = column{"", remarks}
)

// remarks are what a reader must know beside a lane's figures.
func remarks(l *lane) string {
	var all []string
	if l.note != "" {
		all = append(all, l.note)
	}
	var cut, left int64
	for _, r := range l.rounds {
		if r.Cut {
			cut++
		}
		left = max(left, r.Left)
	}
	if cut > 0 {
		all = append(all, "cut at the time limit")
	}
	if left > 0 {
		all = append(all, fmt.Sprintf("up to %d handled jobs not recorded when it stopped", left))
	}
	if l.failed != "" {
		all = append(all, "a round failed: "+firstLine(l.failed))
	}
	return strings.Join(all, "; ")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// table is a table in Markdown. Columns in which nothing stands are left out.
func table(columns []column, all []*lane) string {
	rows := [][]string{}
	for _, l := range all {
		row := make([]string, len(columns))
		for i, c := range columns {
			if len(l.rounds) > 0 || i == 0 || c.head == colNote.head {
				row[i] = c.cell(l)
			}
		}
		rows = append(rows, row)
	}
	var heads []string
	var kept []int
	for i, c := range columns {
		for _, row := range rows {
			if row[i] != "" {
				heads, kept = append(heads, c.head), append(kept, i)
				break
			}
		}
	}
	var cells [][]string
	for _, row := range rows {
		var line []string
		for _, i := range kept {
			line = append(line, row[i])
		}
		cells = append(cells, line)
	}
	return markdown(heads, cells)
}

// markdown is a table in Markdown.
func markdown(heads []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + strings.ReplaceAll(strings.ReplaceAll(c, "|", `\|`), "\n", " ") + " |")
		}
		b.WriteString("\n")
	}
	line(heads)
	b.WriteString("|" + strings.Repeat("---|", len(heads)) + "\n")
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

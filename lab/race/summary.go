package race

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/later-queue/later/lab/data"
)

// lane identifies the rounds that belong together.
type laneKey struct {
	contender, settings, server, condition string
	processes                              int
}

func keyOf(r data.Round) laneKey {
	return laneKey{r.Contender, r.Settings, r.Server, r.Condition, r.Processes}
}

// Summarize prints the medians of a race's rounds, with the lowest and the highest.
func Summarize(w io.Writer, race *data.Race) error {
	groups := map[laneKey][]data.Round{}
	var order []laneKey
	for _, r := range race.Rounds {
		k := keyOf(r)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	slices.SortStableFunc(order, func(a, b laneKey) int {
		return cmp.Or(cmp.Compare(a.contender, b.contender), cmp.Compare(a.settings, b.settings), cmp.Compare(a.processes, b.processes),
			cmp.Compare(groups[a][0].Backlog, groups[b][0].Backlog))
	})
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "contender\tjobs/s\tlowest–highest\tp50 ms\tp99 ms\tserver CPU µs/job\tWAL B/job\tcommits/job\tclient CPU µs/job\tMiB\t")
	for _, k := range order {
		rounds := slices.DeleteFunc(slices.Clone(groups[k]), func(r data.Round) bool { return r.Error != "" })
		name := Lane{Contender: k.contender, Settings: k.settings, Processes: k.processes, Condition: k.condition}.String()
		if strings.HasPrefix(k.server, "redis") {
			name += " on " + k.server
		}
		if len(rounds) == 0 {
			fmt.Fprintf(t, "%s\tfailed\t\t\t\t\t\t\t\t\t\n", name)
			continue
		}
		of := func(value func(data.Round) float64) []float64 {
			var values []float64
			for _, r := range rounds {
				values = append(values, value(r))
			}
			return values
		}
		rates := of(func(r data.Round) float64 { return r.Rate })
		low, high := data.Spread(rates)
		spread := figure(0, 0)
		if high > 0 {
			spread = figure(low, 0) + "–" + figure(high, 0)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name,
			figure(data.Median(rates), 0), spread,
			figure(data.Median(of(func(r data.Round) float64 { return r.P50 / 1e3 })), 2),
			figure(data.Median(of(func(r data.Round) float64 { return r.P99 / 1e3 })), 2),
			figure(data.Median(of(func(r data.Round) float64 { return r.ServerCPU })), 1),
			figure(data.Median(of(func(r data.Round) float64 { return r.WALBytes })), 0),
			figure(data.Median(of(func(r data.Round) float64 { return r.Commits })), 3),
			figure(data.Median(of(func(r data.Round) float64 { return r.ClientCPU })), 1),
			figure(data.Median(of(func(r data.Round) float64 { return float64(r.MaxMemoryBytes) / (1 << 20) })), 0))
	}
	return t.Flush()
}

// figure is a number for a table; what does not apply is a dash.
func figure(v float64, digits int) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%.*f", digits, v)
}

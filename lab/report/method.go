package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/later-queue/later/lab/data"
)

// contenders are the versions and settings of who took part, in their own words.
func (s Source) contenders() string {
	all := map[string]data.Contender{}
	used := map[string]map[string]bool{}
	for _, name := range s.names() {
		race := s.Races[name]
		maps.Copy(all, race.Contenders)
		for _, r := range race.Rounds {
			if used[r.Contender] == nil {
				used[r.Contender] = map[string]bool{}
			}
			used[r.Contender][r.Settings] = true
		}
	}
	ids := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	var rows [][]string
	for _, id := range ids {
		settings := slices.Sorted(maps.Keys(used[id]))
		slices.SortStableFunc(settings, func(a, b string) int { return cmp.Compare(rankOfSettings(a), rankOfSettings(b)) })
		for i, name := range settings {
			who, version := displayName(id)+" (`"+id+"`)", all[id].Version
			if i > 0 {
				who, version = "", ""
			}
			rows = append(rows, []string{who, version, "`" + name + "`", all[id].Settings[name]})
		}
	}
	return markdown([]string{"contender", "version", "setting", "what it means"}, rows)
}

// servers are the settings of the database servers.
func (s Source) servers() string {
	all := map[string]map[string]string{}
	for _, name := range s.names() {
		maps.Copy(all, s.Races[name].Servers)
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var settings []string
		for _, key := range slices.Sorted(maps.Keys(all[name])) {
			settings = append(settings, key+" = "+all[name][key])
		}
		rows = append(rows, []string{name, strings.Join(settings, ", ")})
	}
	return markdown([]string{"server", "version and what is not as it comes"}, rows)
}

// commands are when each race was run, of which commit, and how to repeat it.
func (s Source) commands() string {
	var rows [][]string
	for _, name := range s.names() {
		race := s.Races[name]
		rounds := 0
		for _, r := range race.Rounds {
			rounds = max(rounds, r.Round)
		}
		rows = append(rows, []string{name, race.When.UTC().Format("2006-01-02 15:04"), race.Commit, fmt.Sprint(rounds),
			fmt.Sprintf("%.0f min", max(1, race.Took/60)), "`" + race.Command + "`"})
	}
	return markdown([]string{"race", "begun (UTC)", "commit", "rounds", "took", "command, in the folder lab"}, rows)
}

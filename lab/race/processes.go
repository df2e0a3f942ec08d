package race

import (
	"time"

	"github.com/later-queue/later/lab/course"
)

// Processes is the drain with several work processes side by side.
var Processes = Race{
	Name:   "processes",
	About:  "The drain with 1, 2 and 4 work processes side by side.",
	Course: course.Drain,
	Jobs:   200_000,
	Rounds: 3,
	Limit:  30 * time.Second,
	Quick:  10,
	Lanes: inProcesses([]int{1, 2, 4},
		Lane{Contender: "ours", Settings: "tuned"},
		Lane{Contender: "ours", Settings: "defaults"},
		Lane{Contender: "river", Settings: "bench"},
		Lane{Contender: "graphile", Settings: "bench"},
		Lane{Contender: "pgboss", Settings: "bench"},
	),
}

// inProcesses returns each lane with each number of processes.
func inProcesses(numbers []int, lanes ...Lane) []Lane {
	var all []Lane
	for _, l := range lanes {
		for _, n := range numbers {
			l.Processes = n
			all = append(all, l)
		}
	}
	return all
}

package race

import (
	"time"

	"github.com/later-queue/later/lab/course"
)

// Backlog is the drain's rate against the number of jobs that wait.
var Backlog = Race{
	Name: "backlog",
	About: "How the rate of working depends on how many jobs are ready: from a thousand to ten million. Each point is the rate " +
		"of the first 10 s, or of the whole backlog where that is done before; with a thousand, the worker's start is most of it.",
	Course:   course.Drain,
	Jobs:     10_000_000,
	Rounds:   2,
	Limit:    10 * time.Second,
	Quick:    100,
	Overhead: 12 * time.Minute, // ten million jobs are enqueued in five minutes
	Lanes: append(append(append(append(
		withBacklogs(10_000_000, Lane{Contender: "ours", Settings: "tuned"}),
		withBacklogs(1_000_000, Lane{Contender: "river", Settings: "bench"})...),
		withBacklogs(100_000, Lane{Contender: "gue", Settings: "tuned"})...),
		withBacklogs(1_000_000, Lane{Contender: "graphile", Settings: "bench"})...),
		withBacklogs(1_000_000, Lane{Contender: "pgboss", Settings: "bench"})...),
}

// withBacklogs returns the lane with backlogs from 1,000 to most, in steps of ten.
func withBacklogs(most int64, l Lane) []Lane {
	var all []Lane
	for n := int64(1_000); n <= most; n *= 10 {
		l.Jobs = n
		l.Backlog = true
		// The small ones are small enough for trying, and a curve needs its beginning.
		l.Whole = n <= 100_000
		all = append(all, l)
	}
	return all
}

package race

import (
	"time"

	"github.com/later-queue/later/lab/course"
)

// Budgets is what a job costs the server, counted, in several states of the tables.
var Budgets = Race{
	Name: "budgets",
	About: "The server's processor time and log per job while workers drain, in several states of the tables. " +
		"Each condition begins with a fresh database; the plain figure and the floor's come from the same run.",
	Course:   course.Budget,
	Jobs:     300_000,
	Rounds:   3,
	Limit:    3 * time.Minute,
	Quick:    10,
	Overhead: 12 * time.Minute, // ten million rows are made in four
	Lanes: []Lane{
		{Contender: "floor", Settings: "defaults", Condition: "plain"},
		{Contender: "ours", Settings: "tuned", Condition: "plain"},
		{Contender: "ours", Settings: "logged", Condition: "plain"},
		{Contender: "ours", Settings: "defaults", Condition: "plain"},
		{Contender: "ours", Settings: "tuned", Condition: "held", Hold: true, Warm: 1_000_000},
		{Contender: "ours", Settings: "tuned", Condition: "ready", Fill: "ready", FillJobs: 10_000_000},
		{Contender: "ours", Settings: "tuned", Condition: "scheduled", Fill: "scheduled", FillJobs: 10_000_000},
		{Contender: "ours", Settings: "tuned", Condition: "tenants", Fill: "tenants", FillJobs: 330_000},
		{Contender: "ours", Settings: "tuned", Condition: "capped", Limit: 6 * time.Minute, Fill: "capped", FillJobs: 1_000_000},
		{Contender: "ours", Settings: "tuned", Condition: "capped, held", Limit: 6 * time.Minute, Hold: true, Soak: 10 * time.Minute,
			Fill: "capped", FillJobs: 1_000_000, Note: "after ten minutes of work on such jobs under the snapshot"},
		{Contender: "ours", Settings: "tuned", Condition: "memory", Course: course.Memory,
			Jobs: 3_000, Whole: true, Handler: 2 * time.Second},
		{Contender: "ours", Settings: "defaults", Condition: "idle", Course: course.Idle},
	},
}
